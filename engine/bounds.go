package engine

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// bounds are a part of the key space, as keys: lo sorts before every key in it and after
// every key below it; hi sorts after every key in it and before every key above it. No
// item has these keys.
type bounds struct{ lo, hi item.Key }

// newBounds returns the bounds of a range for keys of this many levels.
func newBounds(r partmap.Range, levels int) *bounds {
	return &bounds{lo: boundaryKey(&r.Min, levels), hi: boundaryKey(&r.Max, levels)}
}

// boundaryKey returns the key that sorts before all keys at or above an EPK and after all
// keys below it. It has no partition key. Its EPK has the full width, padded with zeros.
// Bytes of a boundary beyond that width are cut off: no key has them.
func boundaryKey(at *partmap.EPK, levels int) item.Key {
	epk := make([]byte, levels*item.MaxEPK/item.MaxLevels)
	copy(epk, at.Bytes())
	return item.Key{Hash: item.HashOf(epk), EPK: epk}
}

func (b *bounds) holds(k *item.Key) bool {
	return item.Compare(&b.lo, k) <= 0 && item.Compare(k, &b.hi) < 0
}

// setBounds sets the reference of a file to the part of the file within a range.
func (f *file) setBounds(r partmap.Range, levels int) {
	f.min, f.max = r.Min, r.Max
	f.ref.Min, f.ref.Max = append([]byte{}, r.Min.Bytes()...), append([]byte{}, r.Max.Bytes()...)
	f.ref.Part = nil
	f.clipTo(levels)
}

// bounds returns the bounds of the reference as keys.
func (f *file) bounds(levels int) *bounds {
	return newBounds(partmap.Range{Min: f.min, Max: f.max}, levels)
}

// clipTo sets clip to the bounds as keys if some of the file lies outside them, else to
// nil.
func (f *file) clipTo(levels int) {
	b := f.bounds(levels)
	f.clip = nil
	if p := f.Properties(); !b.holds(&p.Min) || !b.holds(&p.Max) {
		f.clip = b
	}
}

// estimate sets ref.Part to how much of the file lies within the bounds. It stays unknown
// if the file's tables are damaged.
func (f *file) estimate() error {
	if f.clip == nil {
		return nil
	}
	span, err := f.Span(f.clip.lo.EPK, f.clip.hi.EPK)
	if unreadable(err) {
		_ = f.met(err)
		return nil
	}
	if err != nil {
		return f.named(err)
	}
	f.ref.Part = &manifest.Part{Items: span.Items, RawBytes: span.RawBytes, Bytes: span.Bytes}
	return nil
}

// holdsNothing says that no item of the file lies within the bounds.
func (f *file) holdsNothing() bool {
	if f.clip == nil {
		return false
	}
	p := f.Properties()
	return item.Compare(&p.Max, &f.clip.lo) < 0 || item.Compare(&f.clip.hi, &p.Min) <= 0
}

// bytes estimates the bytes of the file within the bounds.
func (f *file) bytes() int64 {
	if f.ref.Part != nil {
		return f.ref.Part.Bytes
	}
	return f.ref.Size
}

// foreign estimates the bytes of the file outside the bounds.
func (f *file) foreign() int64 { return max(0, f.ref.Size-f.bytes()) }

func (f *file) items() int64 {
	if f.ref.Part != nil {
		return int64(f.ref.Part.Items)
	}
	return int64(f.Properties().Items)
}

func (f *file) raw() int64 {
	if f.ref.Part != nil {
		return int64(f.ref.Part.RawBytes)
	}
	return int64(f.Properties().RawBytes)
}

// part scales a count of the whole file down to the bounds, by the share of the file's
// versions that lie within them.
func (f *file) part(n uint64) float64 {
	if f.ref.Part == nil {
		return float64(n)
	}
	return float64(n) * float64(f.ref.Part.Items) / float64(f.Properties().Items)
}

// share is part, rounded down.
func (f *file) share(n uint64) int64 { return int64(f.part(n)) }

// before says whether all of the file within the bounds lies before a key.
func (f *file) before(k *item.Key) bool {
	return item.Compare(&f.Properties().Max, k) < 0 || f.clip != nil && item.Compare(&f.clip.hi, k) <= 0
}

// outside says whether the file has nothing from lo to hi within its bounds.
func (f *file) outside(lo, hi *item.Key) bool {
	return f.before(lo) || item.Compare(hi, &f.Properties().Min) < 0 || f.clip != nil && item.Compare(hi, &f.clip.lo) < 0
}

// start moves a cursor to the first key within the bounds, or to the last one if reverse
// is set. nil bounds hold all keys.
func (b *bounds) start(c positioner, reverse bool) bool {
	switch {
	case b == nil && reverse:
		return c.Last()
	case b == nil:
		return c.First()
	case reverse:
		return c.SeekLT(&b.hi) && b.holds(c.Key())
	}
	return c.SeekGE(&b.lo) && b.holds(c.Key())
}

// seek is seekCursor within the bounds.
func (b *bounds) seek(c positioner, k *item.Key, reverse, inclusive bool) bool {
	switch {
	case b == nil:
		return seekCursor(c, k, reverse, inclusive)
	case !reverse && item.Compare(k, &b.lo) < 0, reverse && item.Compare(&b.hi, k) <= 0:
		return b.start(c, reverse)
	}
	return seekCursor(c, k, reverse, inclusive) && b.holds(c.Key())
}

// holdsEntry says whether a logical partition lies within the bounds. epk is the part of
// its EPK that the table of a file has: all but the last 8 bytes. sure is false if these
// bytes are the beginning of a boundary that continues: then only the full key decides.
// nil bounds hold everything.
func (b *bounds) holdsEntry(epk []byte) (within, sure bool) {
	if b == nil {
		return true, true
	}
	for _, at := range [][]byte{b.lo.EPK, b.hi.EPK} {
		if bytes.HasPrefix(at, epk) && len(bytes.TrimRight(at[len(epk):], "\x00")) > 0 {
			return false, false
		}
	}
	return bytes.Compare(b.lo.EPK[:len(epk)], epk) <= 0 && bytes.Compare(epk, b.hi.EPK[:len(epk)]) < 0, true
}

// limitsOf returns the keys that bound the logical partition of a key.
func limitsOf(k *item.Key) (lo, hi *item.Key) {
	at := k.Clone()
	at.ID = nil
	end := at
	end.ID = afterAllIDs
	return &at, &end
}
