package feed

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// Position is a place in the change feed of a container. For each part of the key
// space it has the sequence up to which everything was shown. It does not depend on how
// the container is stored, so it stays valid through splits, merges and restarts. It is
// immutable. The zero Position is the place before the first change.
type Position struct {
	kind      positionKind
	container uint32
	since     int64   // milliseconds: versions modified before are not shown
	entries   []entry // rising, without overlaps; never modified
}

type positionKind uint8

const (
	positionStart positionKind = iota
	positionNow
	positionTime
	positionAt
)

// entry says that everything in a range was shown up to a sequence.
type entry struct {
	rng partmap.Range
	seq uint64
}

// FromNow returns the position behind everything that is visible when a feed begins.
func FromNow() Position { return Position{kind: positionNow} }

// FromTime returns the position before the first change that was made at t or later, by
// the time stamps of versions, which are milliseconds from 1970 to 9999. A time beyond is the nearest of these.
func FromTime(t time.Time) Position {
	if first, last := time.UnixMilli(0), time.UnixMilli(item.MaxTime); t.Before(first) {
		t = first
	} else if t.After(last) {
		t = last
	}
	return Position{kind: positionTime, since: t.UnixMilli()}
}

// PositionError says what is wrong with a position. It matches fault.ErrInvalid.
type PositionError string

// Error implements error.
func (e PositionError) Error() string { return "invalid: position: " + string(e) }

// Is matches fault.ErrInvalid.
func (e PositionError) Is(target error) bool { return target == fault.ErrInvalid }

const (
	startText  = "start"
	nowText    = "now"
	timePrefix = "time:"
)

// A position of a feed is, in URL-safe base64,
//
//	format     u8 = 1
//	container  uvarint  its number
//	since      varint   milliseconds
//	entries    uvarint
//	entry      min, max, sequence uvarint
//	crc        u32      Castagnoli, of everything before
//
// A boundary is its length, u8, and its bytes; the length 255 stands for the
// upper boundary of the entry before.
const (
	positionFormat = 1
	sameBoundary   = 0xFF
)

var positionSums = crc32.MakeTable(crc32.Castagnoli)

// String returns the text that ParsePosition reads: "start", "now", "time:" and a time by
// RFC 3339, or an encoding with some 20 bytes or more for each part of the key space that
// was read to another sequence.
func (p Position) String() string {
	switch p.kind {
	case positionStart:
		return startText
	case positionNow:
		return nowText
	case positionTime:
		return timePrefix + time.UnixMilli(p.since).UTC().Format(time.RFC3339Nano)
	}
	b := binary.AppendUvarint([]byte{positionFormat}, uint64(p.container))
	b = binary.AppendVarint(b, p.since)
	b = binary.AppendUvarint(b, uint64(len(p.entries)))
	for i := range p.entries {
		e := &p.entries[i]
		if i > 0 && e.rng.Min == p.entries[i-1].rng.Max {
			b = append(b, sameBoundary)
		} else {
			b = appendBoundary(b, &e.rng.Min)
		}
		b = appendBoundary(b, &e.rng.Max)
		b = binary.AppendUvarint(b, e.seq)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, positionSums))
	return base64.RawURLEncoding.EncodeToString(b)
}

// MarshalText implements encoding.TextMarshaler.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Position) UnmarshalText(text []byte) error {
	parsed, err := ParsePosition(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

func appendBoundary(b []byte, epk *partmap.EPK) []byte {
	return append(append(b, byte(len(epk.Bytes()))), epk.Bytes()...)
}

// ParsePosition reads what String returns. For anything else the error is a
// PositionError.
func ParsePosition(text string) (Position, error) {
	bad := func(why string) (Position, error) { return Position{}, PositionError(why) }
	switch {
	case text == startText:
		return Position{}, nil
	case text == nowText:
		return FromNow(), nil
	case strings.HasPrefix(text, timePrefix):
		t, err := time.Parse(time.RFC3339Nano, text[len(timePrefix):])
		if err != nil {
			return bad("not a time by RFC 3339")
		}
		return FromTime(t), nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 1+4 {
		return bad("not what Position.String gave")
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.Checksum(b, positionSums) != binary.LittleEndian.Uint32(sum) {
		return bad("not what Position.String gave")
	}
	if b[0] != positionFormat {
		return bad("of another version")
	}
	d := positionDecoder{rest: b[1:]}
	p := Position{kind: positionAt}
	container := d.uvarint()
	p.container, p.since = uint32(container), d.varint()
	n := d.uvarint()
	last := partmap.MinEPK()
	for range min(n, uint64(len(d.rest))) {
		e := entry{rng: partmap.Range{Min: d.boundary(last), Max: d.boundary(last)}}
		e.seq = d.uvarint()
		if e.rng.Empty() || e.rng.Min.Compare(&last) < 0 {
			d.bad = true
		}
		if d.bad {
			break
		}
		last = e.rng.Max
		p.entries = append(p.entries, e)
	}
	end := partmap.MaxEPK()
	if d.bad || len(d.rest) > 0 || uint64(len(p.entries)) != n || container != uint64(p.container) || last.Compare(&end) > 0 {
		return bad("not what Position.String gave")
	}
	return p, nil
}

// positionDecoder decodes a position field by field. Fields after a bad one are zero.
type positionDecoder struct {
	rest []byte
	bad  bool
}

func (d *positionDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return v + uint64(d.take(n))
}

func (d *positionDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	return v + int64(d.take(n))
}

// take skips n bytes. If n is 0 or less, the position is bad. It returns 0.
func (d *positionDecoder) take(n int) int {
	if n <= 0 || d.bad {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return 0
}

func (d *positionDecoder) boundary(last partmap.EPK) partmap.EPK {
	if len(d.rest) == 0 {
		d.bad = true
		return last
	}
	n := int(d.rest[0])
	if n == sameBoundary {
		d.take(1)
		return last
	}
	if n > len(d.rest)-1 {
		d.bad = true
		return last
	}
	e, err := partmap.EPKFromBytes(d.rest[1 : 1+n])
	d.bad = d.bad || err != nil
	d.take(1 + n)
	return e
}

// within returns the part of the position in a range. The position must cover all of the
// range.
func (p *Position) within(r partmap.Range) ([]entry, error) {
	var out []entry
	next := r.Min
	for _, e := range p.entries {
		if !e.rng.Overlaps(r) {
			continue
		}
		if e.rng.Min.Compare(&next) > 0 {
			break
		}
		e.rng.Min = next
		if e.rng.Max.Compare(&r.Max) > 0 {
			e.rng.Max = r.Max
		}
		next = e.rng.Max
		out = append(out, e)
	}
	if next.Compare(&r.Max) < 0 {
		return nil, PositionError("of another scope, which does not take in this one")
	}
	return out, nil
}

// joined returns the entries, with adjacent entries of the same sequence made one.
func joined(entries []entry) []entry {
	out := entries[:0:0]
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].seq == e.seq && out[n-1].rng.Max.Compare(&e.rng.Min) == 0 {
			out[n-1].rng.Max = e.rng.Max
			continue
		}
		out = append(out, e)
	}
	return out
}

// successor returns the first EPK after all keys with this one, or the end of the key
// space if there is none.
func successor(epk partmap.EPK) partmap.EPK {
	b := slices.Clone(epk.Bytes())
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			break
		}
	}
	next, err := partmap.EPKFromBytes(b)
	if err != nil {
		return partmap.MaxEPK()
	}
	return next
}
