package exec

import (
	"crypto/sha256"
	"math"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/valuerank"
)

// ORDER BY c.country, c.state, c.u: a page wants some of the documents with one country and
// state, of which there are too few to walk the values of u for them, and more than it wants.
// Their order is known from the ranks that all documents of a file have by u. Making these takes
// as long as walking all values of u once. So they are made when pages have read as many documents
// without need as that takes, and index.Kept keeps them.

// ranked takes the candidates with the present term in the order of the next path, which ranks
// tell. begins says that the order begins among them. It returns false, and takes none, if there
// are no ranks, or as many candidates are wanted as there are.
func (w *orderWalk) ranked(at []*orderSource, begins bool) (bool, error) {
	next := w.o.next
	if next == nil || !next.single || w.c.unsure || w.top.told != nil || w.top.groups || !w.c.paged {
		return false, nil
	}
	n, wanted := 0, w.most-w.taken
	for _, s := range at {
		n += s.cur.Posting().Len()
	}
	if n <= wanted && !begins {
		return false, nil
	}
	ranks, ok := make([][]uint32, len(at)), true
	for i, s := range at {
		var err error
		if ranks[i], err = w.ranks(s, next.path); err != nil {
			return false, err
		}
		ok = ok && ranks[i] != nil
	}
	if !ok || begins && next.after != nil && !next.after.whole {
		return false, nil
	}
	for _, s := range w.sources {
		s.tied = s.tied[:0]
	}
	for i, s := range at {
		list, err := s.cur.Posting().AppendTo(nil)
		if err != nil {
			return false, err
		}
		kept := list[:0]
		for _, o := range list {
			if s.in.Contains(o) {
				kept = append(kept, o)
			}
		}
		if begins && next.after != nil {
			p, err := w.rankOf(s, ranks[i], next)
			if err != nil {
				return false, err
			}
			kept = valuerank.Behind(kept, ranks[i], next.falling, p)
		}
		if len(kept) > wanted {
			valuerank.Sort(kept, ranks[i], next.falling)
			kept, w.more = kept[:wanted], true
		}
		for _, o := range kept {
			w.takeOne(s, o)
		}
		s.tied = s.tied[:0]
	}
	return true, nil
}

// ranks returns the ranks of the documents of a source by their values at a path, nil if there
// are none. It is called when a page takes all candidates with the present term otherwise.
func (w *orderWalk) ranks(s *orderSource, path index.Path) ([]uint32, error) {
	q := index.Question(sha256.Sum256([]byte("ranks " + path.String())))
	ranks, spent := w.c.kept.Ranks(s.r, &q)
	if ranks != nil || int64(s.r.Info().Items) > index.KeptBytes/8 {
		return ranksOrNone(ranks), nil
	}
	terms, err := s.r.Estimate(index.Exists(path))
	if err != nil {
		return nil, err
	}
	if spent < terms/Limits.TermsPerDocument {
		w.c.kept.Spend(s.r, &q, int64(s.cur.Posting().Len()))
		return nil, nil
	}
	cur := w.sets.cursor(s.r)
	defer w.sets.release(cur)
	ranks, terms, err = valuerank.Of(lsm.OrBackground(w.sets.ctx), cur, s.r.Info().Items, path)
	w.sets.terms += terms
	if err != nil {
		return nil, err
	}
	w.c.kept.KeepRanks(s.r, &q, ranks)
	return ranksOrNone(ranks), nil
}

// ranksOrNone returns nil for the ranks of a path whose terms do not tell the order.
func ranksOrNone(ranks []uint32) []uint32 {
	if len(ranks) == 0 {
		return nil
	}
	return ranks
}

// rankOf returns the point at which an order begins as a place among the ranks of a source.
func (w *orderWalk) rankOf(s *orderSource, ranks []uint32, o *indexOrder) (p valuerank.Point, err error) {
	a := o.after
	if a.value.Empty() {
		p.Equal = true
	} else {
		cur := w.sets.cursor(s.r)
		defer w.sets.release(cur)
		p.Rank = math.MaxUint32
		if cur.Seek(a.value.From) && string(cur.Key()) < string(o.span.To) {
			list, listErr := cur.Posting().AppendTo(nil)
			if listErr != nil {
				return p, listErr
			}
			p.Rank, p.Equal = ranks[list[0]], string(cur.Key()) < string(a.value.To)
		}
		if cur.Err() != nil {
			return p, cur.Err()
		}
	}
	if p.Equal {
		p.From, _, err = s.Cut(&a.key, nil)
	}
	return p, err
}
