package lsm

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// Bounds are a part of the key space, as keys: lo sorts before every key in it and after
// every key below it; hi sorts after every key in it and before every key above it. No
// item has these keys.
type Bounds struct{ Lo, Hi item.Key }

// NewBounds returns the bounds of a range for keys of this many levels.
func NewBounds(r partmap.Range, levels int) *Bounds {
	return &Bounds{Lo: BoundaryKey(&r.Min, levels), Hi: BoundaryKey(&r.Max, levels)}
}

// BoundaryKey returns the key that sorts before all keys at or above an EPK and after all
// keys below it. It has no partition key. Its EPK has the full width, padded with zeros.
// A boundary with bytes beyond that width lies behind the key that has the bytes up to there.
func BoundaryKey(at *partmap.EPK, levels int) item.Key {
	epk := make([]byte, levels*item.MaxEPK/item.MaxLevels)
	if n := copy(epk, at.Bytes()); len(bytes.TrimLeft(at.Bytes()[n:], "\x00")) > 0 {
		for i := n - 1; i >= 0; i-- {
			if epk[i]++; epk[i] != 0 {
				break
			}
		}
	}
	return item.Key{Hash: item.HashOf(epk), EPK: epk}
}

func (b *Bounds) Holds(k *item.Key) bool {
	return item.Compare(&b.Lo, k) <= 0 && item.Compare(k, &b.Hi) < 0
}

// setBounds sets the reference of a file to the part of the file within a range.
func (f *File) setBounds(r partmap.Range, levels int) {
	f.Min, f.Max = r.Min, r.Max
	f.Ref.Min, f.Ref.Max = append([]byte{}, r.Min.Bytes()...), append([]byte{}, r.Max.Bytes()...)
	f.Ref.Part = nil
	f.clipTo(levels)
}

// Bounds returns the bounds of the reference as keys.
func (f *File) Bounds(levels int) *Bounds {
	return NewBounds(partmap.Range{Min: f.Min, Max: f.Max}, levels)
}

// clipTo sets clip to the bounds as keys if some of the file lies outside them, else to nil.
func (f *File) clipTo(levels int) {
	b := f.Bounds(levels)
	f.Clip = nil
	if p := f.Properties(); !b.Holds(&p.Min) || !b.Holds(&p.Max) {
		f.Clip = b
	}
}

// estimate sets ref.Part to how much of the file lies within the bounds. It stays unknown
// if the file's tables are damaged.
func (f *File) estimate() error {
	if f.Clip == nil {
		return nil
	}
	span, err := f.Span(f.Clip.Lo.EPK, f.Clip.Hi.EPK)
	if Unreadable(err) {
		_ = f.Met(err)
		return nil
	}
	if err != nil {
		return f.Renamed(err)
	}
	f.Ref.Part = &manifest.Part{Items: span.Items, RawBytes: span.RawBytes, Bytes: span.Bytes}
	return nil
}

// holdsNothing says that no item of the file lies within the bounds.
func (f *File) holdsNothing() bool {
	if f.Clip == nil {
		return false
	}
	p := f.Properties()
	return item.Compare(&p.Max, &f.Clip.Lo) < 0 || item.Compare(&f.Clip.Hi, &p.Min) <= 0
}

// SizeWithin estimates the bytes of the file within the bounds.
func (f *File) SizeWithin() int64 {
	if f.Ref.Part != nil {
		return f.Ref.Part.Bytes
	}
	return f.Ref.Size
}

// Foreign estimates the bytes of the file outside the bounds.
func (f *File) Foreign() int64 { return max(0, f.Ref.Size-f.SizeWithin()) }

func (f *File) ItemsWithin() int64 {
	if f.Ref.Part != nil {
		return int64(f.Ref.Part.Items)
	}
	return int64(f.Properties().Items)
}

func (f *File) RawBytes() int64 {
	if f.Ref.Part != nil {
		return int64(f.Ref.Part.RawBytes)
	}
	return int64(f.Properties().RawBytes)
}

// part scales a count of the whole file down to the bounds, by the share of the file's
// versions that lie within them.
func (f *File) part(n uint64) float64 {
	if f.Ref.Part == nil {
		return float64(n)
	}
	return float64(n) * float64(f.Ref.Part.Items) / float64(f.Properties().Items)
}

// Share is part, rounded down.
func (f *File) Share(n uint64) int64 { return int64(f.part(n)) }

// before says whether all of the file within the bounds lies before a key.
func (f *File) before(k *item.Key) bool {
	return item.Compare(&f.Properties().Max, k) < 0 || f.Clip != nil && item.Compare(&f.Clip.Hi, k) <= 0
}

// after says whether all of the file within the bounds lies after a key.
func (f *File) after(k *item.Key) bool {
	return item.Compare(k, &f.Properties().Min) < 0 || f.Clip != nil && item.Compare(k, &f.Clip.Lo) < 0
}

// outside says whether the file has nothing from lo to hi within its bounds.
func (f *File) outside(lo, hi *item.Key) bool { return f.before(lo) || f.after(hi) }

// Start moves a cursor to the first key within the bounds, or to the last one if reverse
// is set. nil bounds hold all keys.
func (b *Bounds) Start(c Positioner, reverse bool) bool {
	switch {
	case b == nil && reverse:
		return c.Last()
	case b == nil:
		return c.First()
	case reverse:
		return c.SeekLT(&b.Hi) && b.Holds(c.Key())
	}
	return c.SeekGE(&b.Lo) && b.Holds(c.Key())
}

// seek is seekCursor within the bounds.
func (b *Bounds) seek(c Positioner, k *item.Key, reverse, inclusive bool) bool {
	switch {
	case b == nil:
		return seekCursor(c, k, reverse, inclusive)
	case !reverse && item.Compare(k, &b.Lo) < 0, reverse && item.Compare(&b.Hi, k) <= 0:
		return b.Start(c, reverse)
	}
	return seekCursor(c, k, reverse, inclusive) && b.Holds(c.Key())
}

// HoldsEntry says whether a logical partition lies within the bounds. epk is the part of
// its EPK that the table of a file has: all but the last 8 bytes. sure is false if these
// bytes are the beginning of a boundary that continues: then only the full key decides.
// nil bounds hold everything.
func (b *Bounds) HoldsEntry(epk []byte) (within, sure bool) {
	if b == nil {
		return true, true
	}
	for _, at := range [][]byte{b.Lo.EPK, b.Hi.EPK} {
		if bytes.HasPrefix(at, epk) && len(bytes.TrimRight(at[len(epk):], "\x00")) > 0 {
			return false, false
		}
	}
	return bytes.Compare(b.Lo.EPK[:len(epk)], epk) <= 0 && bytes.Compare(epk, b.Hi.EPK[:len(epk)]) < 0, true
}

// LimitsOf returns the keys that bound the logical partition of a key.
func LimitsOf(k *item.Key) (lo, hi *item.Key) {
	at := k.Clone()
	at.ID = nil
	end := at
	end.ID = AfterAllIDs
	return &at, &end
}
