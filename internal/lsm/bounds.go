package lsm

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// setBounds sets the reference of a file to the part of the file within a range.
func (f *File) setBounds(r partmap.Range, levels int) {
	f.Min, f.Max = r.Min, r.Max
	f.Ref.Min, f.Ref.Max = append([]byte{}, r.Min.Bytes()...), append([]byte{}, r.Max.Bytes()...)
	f.Ref.Part = nil
	f.clipTo(levels)
}

// Bounds returns the bounds of the reference as keys.
func (f *File) Bounds(levels int) *keybounds.Bounds {
	return keybounds.New(partmap.Range{Min: f.Min, Max: f.Max}, levels)
}

// clipTo sets clip to the bounds as keys if some of the file lies outside them, else to nil.
func (f *File) clipTo(levels int) {
	b := f.Bounds(levels)
	f.Clip = nil
	if p := f.Properties(); !b.Holds(&p.Min) || !b.Holds(&p.Max) {
		f.Clip = b
	}
}

// estimate sets ref.Part to how much of the file lies within the bounds. If the file's
// tables are damaged it is a guess, so that sizes still fall as partitions are split.
func (f *File) estimate() error {
	if f.Clip == nil {
		return nil
	}
	span, err := f.Span(f.Clip.Lo.EPK, f.Clip.Hi.EPK)
	switch {
	case err == nil:
		f.Ref.Part = &manifest.Part{Items: span.Items, RawBytes: span.RawBytes, Bytes: span.Bytes}
	case !Unreadable(err):
		return f.Renamed(err)
	case f.Met(err) != nil && f.Broken() == nil: // of one that cannot be opened nothing is known
		f.Ref.Part = f.within().Share(f.Clip.Share(&f.Properties().Min, &f.Properties().Max))
	}
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

// within estimates how much of the file lies within the bounds: no more than the file has, whatever its reference says.
func (f *File) within() manifest.Part {
	p := f.Properties()
	all := manifest.Part{Items: p.Items, RawBytes: p.RawBytes, Bytes: f.Ref.Size}
	part := f.Ref.Part
	if part == nil {
		return all
	}
	if f.Broken() != nil { // the properties are not those of the file
		all.Items, all.RawBytes = part.Items, part.RawBytes
	}
	return manifest.Part{
		Items: min(part.Items, all.Items), RawBytes: min(part.RawBytes, all.RawBytes), Bytes: min(part.Bytes, all.Bytes),
	}
}

// SizeWithin estimates the bytes of the file within the bounds.
func (f *File) SizeWithin() int64 { return f.within().Bytes }

// Foreign estimates the bytes of the file outside the bounds.
func (f *File) Foreign() int64 { return max(0, f.Ref.Size-f.SizeWithin()) }

func (f *File) ItemsWithin() int64 { return int64(f.within().Items) }
func (f *File) RawBytes() int64    { return int64(f.within().RawBytes) }

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

// LimitsOf returns the keys that bound the logical partition of a key.
func LimitsOf(k *item.Key) (lo, hi *item.Key) {
	at := k.Clone()
	at.ID = nil
	end := at
	end.ID = AfterAllIDs
	return &at, &end
}
