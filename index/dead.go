package index

import "context"

// Dead says which versions of a file count as dead by the terms of its index: tombstones, those whose time of expiry
// has come, those without one that were written before a time, and those that follow a newer one of their item.
type Dead struct {
	Expired int64 // milliseconds since the Unix epoch, as Expired has it
	Aged    bool  // versions without a time of expiry may be dead, those of before Before
	Before  int64 // milliseconds since the Unix epoch
	// Unseen says that the file has versions that are newer than what is read. Then only the versions themselves tell
	// which of an item is the newest.
	Unseen bool
}

// Each term of a time has one version or few. Where there are more than few, and more than termsPerVersion for each
// version in the range of the set, to look at the versions takes less: the set may be that of one logical partition.
const (
	few             = 1000
	termsPerVersion = 20
)

// AddDead adds the dead versions to a set. rest says that the terms do not tell all, or that there are many: then the
// caller looks at the versions in the range of the set.
func (r *Reader) AddDead(ctx context.Context, d Dead, set *Set) (rest bool, err error) {
	rest = d.Unseen
	if plain, err := r.Plain(); plain || err != nil {
		return rest || d.Aged, err
	}
	spans := []Span{Deleted(), Expired(d.Expired)}
	switch {
	case d.Aged && r.NotesWritten():
		spans = append(spans, Written(d.Before))
	case d.Aged:
		rest = true
	}
	if !rest {
		terms := int64(0)
		for _, times := range spans[1:] {
			n, err := r.Estimate(times)
			if err != nil {
				return false, err
			}
			terms += n
		}
		lo, hi := set.Range()
		rest = terms > few+termsPerVersion*int64(hi-lo)
	}
	if rest {
		spans = spans[:1]
	} else {
		spans = append(spans, Older())
	}
	for _, span := range spans {
		if err := r.Union(ctx, span, set); err != nil {
			return false, err
		}
	}
	return rest, nil
}
