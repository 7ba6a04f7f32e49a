package deletion

import "slices"

// Vector names the versions of an older source that a newer one overwrites,
// each with the lowest sequence at which it does. Ordinals rise.
type Vector struct {
	Ordinals []uint32
	Seqs     []uint64
}

// Add adds the versions that one key overwrites. Keys come in their order. Entries that
// the list already has at or behind the ordinal are of a partition tombstone, which
// comes before the keys of its logical partition.
func (l *Vector) Add(ordinal, versions uint32, seq uint64) {
	if n := len(l.Ordinals); versions > 0 && n > 0 && ordinal <= l.Ordinals[n-1] {
		at, _ := slices.BinarySearch(l.Ordinals, ordinal)
		for i := range l.Seqs[at:min(at+int(versions), n)] {
			l.Seqs[at+i] = min(l.Seqs[at+i], seq)
		}
		return
	}
	for i := range versions {
		l.Ordinals, l.Seqs = append(l.Ordinals, ordinal+i), append(l.Seqs, seq)
	}
}

// Between returns the part of the list for a range of ordinals.
func (l *Vector) Between(lo, hi uint32) Vector {
	from, _ := slices.BinarySearch(l.Ordinals, lo)
	to, _ := slices.BinarySearch(l.Ordinals, max(lo, hi))
	return Vector{l.Ordinals[from:to], l.Seqs[from:to]}
}

// Join returns the union of what two sources overwrite.
func Join(a, b *Vector) *Vector {
	switch {
	case len(a.Ordinals) == 0:
		return b
	case len(b.Ordinals) == 0:
		return a
	}
	l := &Vector{Ordinals: make([]uint32, 0, len(a.Ordinals)+len(b.Ordinals)), Seqs: make([]uint64, 0, len(a.Ordinals)+len(b.Ordinals))}
	for i, j := 0, 0; i < len(a.Ordinals) || j < len(b.Ordinals); {
		switch {
		case j == len(b.Ordinals) || i < len(a.Ordinals) && a.Ordinals[i] < b.Ordinals[j]:
			l.Add(a.Ordinals[i], 1, a.Seqs[i])
			i++
		case i == len(a.Ordinals) || b.Ordinals[j] < a.Ordinals[i]:
			l.Add(b.Ordinals[j], 1, b.Seqs[j])
			j++
		default:
			l.Add(a.Ordinals[i], 1, min(a.Seqs[i], b.Seqs[j]))
			i, j = i+1, j+1
		}
	}
	return l
}
