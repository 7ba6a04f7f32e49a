package engine

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// bounds are a part of the key space as keys: lo is before each key in it and
// after each key below it, hi likewise at the end. No item has these keys.
type bounds struct{ lo, hi item.Key }

// newBounds returns the bounds of a range for keys of this many levels.
func newBounds(r partmap.Range, levels int) *bounds {
	return &bounds{lo: boundaryKey(&r.Min, levels), hi: boundaryKey(&r.Max, levels)}
}

// bounds returns the range of the partition as keys.
func (p *partition) bounds() *bounds {
	b := p.limits.Load()
	if b == nil {
		b = newBounds(p.rng, p.c.levels())
		p.limits.Store(b)
	}
	return b
}

// boundaryKey returns an EPK as the key before all keys that do not lie below
// it. It has no partition key and the full width of an EPK, filled up with
// zeros: what a boundary has beyond that keys cannot have.
func boundaryKey(at *partmap.EPK, levels int) item.Key {
	epk := make([]byte, levels*item.MaxEPK/item.MaxLevels)
	copy(epk, at.Bytes())
	return item.Key{Hash: item.HashOf(epk), EPK: epk}
}

func (b *bounds) holds(k *item.Key) bool {
	return item.Compare(&b.lo, k) <= 0 && item.Compare(k, &b.hi) < 0
}

// levels is the number of levels of the container's partition keys.
func (c *Container) levels() int { return c.def.levels() }

// setBounds sets the reference of a file to the part of it within a range.
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

// clipTo computes the bounds as keys, if some of the file lies beyond them.
func (f *file) clipTo(levels int) {
	b := f.bounds(levels)
	f.clip = nil
	if p := f.Properties(); !b.holds(&p.Min) || !b.holds(&p.Max) {
		f.clip = b
	}
}

// estimate notes how much of the file lies within the bounds, which stays unknown if
// its tables are damaged.
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

// fileBytes sums the files of a version, as far as they belong to it.
func (v *version) fileBytes() (n int64) {
	for _, r := range v.runs {
		for _, f := range r.files {
			n += f.bytes()
		}
	}
	return n
}

// foreign estimates the bytes of the file beyond the bounds.
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

// part is the part of a count of the file that falls within the bounds, as
// that of the versions does.
func (f *file) part(n uint64) float64 {
	if f.ref.Part == nil {
		return float64(n)
	}
	return float64(n) * float64(f.ref.Part.Items) / float64(f.Properties().Items)
}

// share is part in whole numbers.
func (f *file) share(n uint64) int64 { return int64(f.part(n)) }

// before says that all of the file within the bounds lies before a key.
func (f *file) before(k *item.Key) bool {
	return item.Compare(&f.Properties().Max, k) < 0 || f.clip != nil && item.Compare(&f.clip.hi, k) <= 0
}

// outside says that the file has nothing from lo to hi within its bounds.
func (f *file) outside(lo, hi *item.Key) bool {
	return f.before(lo) || item.Compare(hi, &f.Properties().Min) < 0 || f.clip != nil && item.Compare(hi, &f.clip.lo) < 0
}

// start moves a cursor to the first key within the bounds, in reverse to the
// last; nil are no bounds.
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

// holdsEntry says whether a logical partition lies within the bounds, given what
// the table of a file holds of its EPK: all but the last 8 bytes. sure is false
// where these are those of a boundary that has more: then the key tells. nil are
// no bounds.
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
