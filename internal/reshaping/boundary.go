package reshaping

import (
	"errors"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/treecut"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// Cut says where partitions are to be cut.
type Cut struct {
	At       string              // hexadecimal; empty: the boundary that halves the bytes best
	Load     *splitter.Histogram // the cut halves this load; nil: it halves the bytes
	Midpoint bool                // a range that is empty, or has a single key, is cut in its middle
}

// Decide makes the plan. For a split or a move it returns the boundary, also where the plan
// is refused, and the bytes on each side where they decided.
func (s *Steps) Decide(kind splitter.Kind, cut Cut) (choice splitter.Choice, err error) {
	left, right := s.Parents[0].Range, s.Parents[len(s.Parents)-1].Range
	if kind == splitter.Merge {
		s.Plan, err = splitter.PlanMerge(left, right)
		return choice, err
	}
	if choice, err = s.choose(partmap.Range{Min: left.Min, Max: right.Max}, cut); err != nil {
		return choice, err
	}
	if kind == splitter.Split {
		s.Plan, err = splitter.PlanSplit(left, choice.At)
	} else {
		s.Plan, err = splitter.PlanMove(left, right, choice.At)
	}
	return choice, err
}

// choose returns the cut that is asked for, or the best one.
func (s *Steps) choose(rng partmap.Range, cut Cut) (choice splitter.Choice, err error) {
	switch {
	case cut.At != "":
		choice.At, err = partmap.ParseEPK(cut.At)
	case cut.Load != nil:
		choice, err = splitter.CutLoad(rng, cut.Load)
		choice.Left, choice.Right = 0, 0 // parts of the load
	default:
		choice, err = treecut.Choose(rng, Trees(s.Parents))
		if errors.Is(err, splitter.ErrRefused) && cut.Midpoint {
			choice, err = splitter.Choice{At: partmap.Midpoint(rng)}, nil
		}
	}
	if err == nil {
		choice.At, err = boundary(&s.Parents[0].Family.Family, rng, choice.At, cut.At == "")
	}
	if err != nil {
		return splitter.Choice{}, err
	}
	return choice, nil
}

// Weigh returns the cut that a split of a tree would make at at, or at the best place if
// at is nil, and what lies on each side.
func Weigh(t *lsm.Tree, at *partmap.EPK) (choice splitter.Choice, err error) {
	trees := []*lsm.Tree{t}
	if at != nil {
		choice.At = *at
	} else if choice, err = treecut.Choose(t.Range, trees); err != nil {
		return choice, err
	}
	if choice.At, err = boundary(t.Family, t.Range, choice.At, at == nil); err != nil {
		return choice, err
	}
	return treecut.Weigh(t.Range, trees, choice.At)
}

// boundary returns a place as a boundary in a range. One that is chosen freely is put, in a
// container of version 1, where the service's are: at a hash.
func boundary(f *lsm.Family, rng partmap.Range, at partmap.EPK, free bool) (partmap.EPK, error) {
	if f.Version1 && free {
		if floor := at.HashFloorV1(); floor.Compare(&rng.Min) > 0 {
			return floor, nil
		}
	}
	if err := splitter.AmongKeys(at); err != nil {
		return at, err
	}
	return splitter.Boundary(at, f.Levels)
}
