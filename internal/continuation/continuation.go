// Package continuation writes and reads the texts with which queries go on: places in their
// results.
//
// Invariants:
//
//  1. A place holds values of documents only, and no sequences or partition ids, so that it
//     survives splits and restarts.
//  2. A text that was changed, or belongs to another query, is refused.
//  3. A short continuation has at most MaxShort characters.
//
// A short continuation has hashes in the place of what is long. The place is then looked
// for: the item by its EPK and the beginning of its id, its order key in the
// document, a group among all groups. So nothing is lost and nothing doubled: what is found
// has the same SHA-256, and is the place itself. If it is gone (the item was deleted, has
// expired, or has another value in the order) the query fails with ErrBad; it does not guess.
package continuation

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

var (
	ErrBad  = errors.New("bad continuation") // the text is no continuation of the query
	ErrGone = fmt.Errorf("%w: the result at which the page before ended is not there any more: begin anew", ErrBad)
)

const (
	// MaxShort is how many characters a short continuation has at most.
	MaxShort = 1 << 10
	// Without hashes there are at most wholeOrder + wholeItem bytes, and some 30 of all else.
	wholeOrder = 420
	wholeItem  = 300
	idPrefix   = 128
)

// Position is a place in the results of a query: the item with this order key, key and
// id, or the group with this order key. It holds values of documents only, and no
// sequences or partition ids, so that it survives splits and restarts.
type Position struct {
	Order []byte      // order key of an item, or key of a group
	Key   partmap.Key // the zero key for groups
	ID    string
	// Row says that the place is inside an item of which a query makes several results, behind
	// this one of them, counted from 1. 0: the place is behind the item.
	Row   uint64
	Short *Short // what a short continuation leaves out; nil: nothing
}

// Digest stands for bytes that a short continuation leaves out.
type Digest [16]byte

// DigestOf returns the Digest of some bytes.
func DigestOf(parts ...[]byte) (d Digest) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
		h.Write([]byte{byte(len(part)), byte(len(part) >> 8), byte(len(part) >> 16), byte(len(part) >> 24)})
	}
	copy(d[:], h.Sum(nil))
	return d
}

// Short says what of a position is a hash.
type Short struct {
	Order, Item bool
	OrderSum    Digest
	ItemSum     Digest
	EPK         []byte // of the item
	ID          string // the beginning of its id
}

// shorten returns the parts of a position that are too long for a short continuation as
// hashes; nil: none is.
func (p *Position) shorten() *Short {
	pk := p.Key.Encoded()
	s := &Short{Order: len(p.Order) > wholeOrder, Item: len(pk)+len(p.ID) > wholeItem}
	if s.Order {
		s.OrderSum = DigestOf(p.Order)
	}
	if s.Item {
		epk := p.Key.EPK()
		s.ItemSum, s.EPK, s.ID = DigestOf(pk, []byte(p.ID)), epk.Bytes(), p.ID[:min(len(p.ID), idPrefix)]
	}
	if !s.Order && !s.Item {
		return nil
	}
	return s
}

// A continuation is, in URL-safe base64,
//
//	format u8 = 1, or 2 if anything is in what
//	query  u64        hash of the query and its scope
//	what   u8         of format 2: 1: order is a hash; 2: the item is one; 4: there is a row
//	row    uvarint    if there is one
//	order  uvarint length, bytes
//	key    uvarint length, encoded partition key; none for groups
//	       as a hash: the length 16 and the hash; uvarint length, EPK
//	id     the rest; with a hash of the item, the beginning of it
//	crc    u32        Castagnoli, of everything before
const (
	plainFormat = 1
	whatFormat  = 2
	orderIsHash = 1
	itemIsHash  = 2
	hasRow      = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Text returns the continuation after a position. short says that it may have hashes: it is
// then at most MaxShort long.
func (p *Position) Text(hash uint64, short bool) string {
	b := binary.LittleEndian.AppendUint64([]byte{plainFormat}, hash)
	order, pk, id := p.Order, p.Key.Encoded(), p.ID
	var epk []byte
	what := byte(0)
	if s := p.shorten(); short && s != nil {
		if s.Order {
			what, order = what|orderIsHash, s.OrderSum[:]
		}
		if s.Item {
			what, pk, epk, id = what|itemIsHash, s.ItemSum[:], s.EPK, s.ID
		}
	}
	if p.Row > 0 {
		what |= hasRow
	}
	if what != 0 {
		b[0], b = whatFormat, append(b, what)
	}
	if p.Row > 0 {
		b = binary.AppendUvarint(b, p.Row)
	}
	b = append(binary.AppendUvarint(b, uint64(len(order))), order...)
	b = append(binary.AppendUvarint(b, uint64(len(pk))), pk...)
	if epk != nil {
		b = append(binary.AppendUvarint(b, uint64(len(epk))), epk...)
	}
	b = append(b, id...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return base64.RawURLEncoding.EncodeToString(b)
}

// Parse reads a continuation of the query with this hash. Of a short one, what is a
// hash is not yet found.
func Parse(text string, hash uint64) (*Position, error) {
	bad := func(why string) (*Position, error) { return nil, fmt.Errorf("%w: %s", ErrBad, why) }
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 1+8+1+1+4 {
		return bad("not what Continue gave")
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return bad("not what Continue gave")
	}
	format := b[0]
	if format != plainFormat && format != whatFormat {
		return bad("of another version")
	}
	if binary.LittleEndian.Uint64(b[1:]) != hash {
		return bad("of another query or scope")
	}
	b = b[9:]
	p := &Position{}
	if format == whatFormat {
		if len(b) == 0 || b[0] == 0 || b[0] > orderIsHash|itemIsHash|hasRow {
			return bad("not what Continue gave")
		}
		what := b[0]
		if b = b[1:]; what&hasRow != 0 {
			n := 0
			if p.Row, n = binary.Uvarint(b); n <= 0 || p.Row == 0 {
				return bad("not what Continue gave")
			}
			b = b[n:]
		}
		if what&(orderIsHash|itemIsHash) != 0 {
			p.Short = &Short{Order: what&orderIsHash != 0, Item: what&itemIsHash != 0}
		}
	}
	take := func() []byte {
		n, at := binary.Uvarint(b)
		if at <= 0 || n > uint64(len(b)-at) {
			return nil
		}
		part := b[at : at+int(n) : at+int(n)]
		b = b[at+int(n):]
		return part
	}
	p.Order = take()
	if p.Order == nil {
		return bad("not what Continue gave")
	}
	pk := take()
	if p.Short != nil {
		if p.Short.Order && copy(p.Short.OrderSum[:], p.Order) != len(p.Order) || p.Short.Item && copy(p.Short.ItemSum[:], pk) != len(pk) {
			return bad("not what Continue gave")
		}
		if p.Short.Order {
			p.Order = nil
		}
		if p.Short.Item {
			p.Short.EPK = take()
			p.Short.ID = string(b)
			return p, nil
		}
	}
	if len(pk) > 0 {
		if p.Key, err = partmap.FromEncoded(pk); err != nil || len(b) == 0 || len(b) > item.MaxID {
			return bad("not what Continue gave")
		}
	}
	p.ID = string(b)
	return p, nil
}
