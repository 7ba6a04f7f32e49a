package client

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// place is how far a range of a container was shown: a position of the engine, as its text.
type place struct {
	keys partmap.Range
	at   string
	// done is when there was nothing more, since the round began; zero: there may be.
	done time.Time
}

// position is what the text of a position has. It is, in URL-safe base64,
//
//	format (1) = 1 | authority (8) | incarnation | number of the container | n | n × (min | max | position of the engine) | CRC-32C (4)
//
// with integers as uvarints and each text behind its length. The ranges follow one another from the start of the
// key space to its end.
type position struct {
	authority   [8]byte // of the cluster
	incarnation uint64
	number      uint64
	places      []place
}

// divide has a range begin at a place of the key space.
func (p *position) divide(at partmap.EPK) {
	for i := range p.places {
		if s := p.places[i]; s.keys.Min.Compare(&at) < 0 && at.Compare(&s.keys.Max) < 0 {
			p.places[i].keys.Max = at
			p.places = slices.Insert(p.places, i+1, place{keys: partmap.Range{Min: at, Max: s.keys.Max}, at: s.at})
			return
		}
	}
}

const positionFormat = 1

var positionSums = crc32.MakeTable(crc32.Castagnoli)

func (p *position) String() string {
	b := append([]byte{positionFormat}, p.authority[:]...)
	b = binary.AppendUvarint(binary.AppendUvarint(b, p.incarnation), p.number)
	b = binary.AppendUvarint(b, uint64(len(p.places)))
	for i := range p.places {
		for _, text := range []string{string(p.places[i].keys.Min.Bytes()), string(p.places[i].keys.Max.Bytes()), p.places[i].at} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, positionSums))
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePosition reads what String returns. Error: engine.ErrInvalid.
func parsePosition(text string) (p *position, err error) {
	bad := fmt.Errorf("%w: the text is no position of a feed: %.40q", engine.ErrInvalid, text)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 1+8+4 || b[0] != positionFormat {
		return nil, bad
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.Checksum(b, positionSums) != binary.LittleEndian.Uint32(sum) {
		return nil, bad
	}
	p = new(position)
	copy(p.authority[:], b[1:])
	b = b[1+8:]
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = bad
			return 0
		}
		b = b[n:]
		return v
	}
	part := func() []byte {
		n := number()
		if n > uint64(len(b)) {
			err = bad
			return nil
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	boundary := func() (at partmap.EPK) {
		v := part()
		if err == nil {
			at, err = partmap.EPKFromBytes(v)
		}
		return at
	}
	p.incarnation, p.number = number(), number()
	end := partmap.MinEPK()
	for n := number(); n > 0 && err == nil; n-- {
		s := place{keys: partmap.Range{Min: boundary(), Max: boundary()}, at: string(part())}
		if err != nil || s.keys.Min != end || s.keys.Empty() {
			return nil, bad
		}
		if _, err = engine.ParsePosition(s.at); err != nil {
			return nil, bad
		}
		end = s.keys.Max
		p.places = append(p.places, s)
	}
	if err != nil || len(b) > 0 || end != partmap.MaxEPK() {
		return nil, bad
	}
	return p, nil
}
