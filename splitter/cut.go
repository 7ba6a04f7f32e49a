package splitter

import (
	"github.com/cleavestore/cleave/partmap"
)

// Source tells how a weight, bytes or load, lies in the key space. Its places
// rise; at each a logical partition begins, or several that agree in all that
// the source knows of their EPKs.
type Source interface {
	// Len returns the number of places.
	Len() int
	// At returns place i.
	At(i int) (partmap.EPK, error)
	// Find returns the first place that is not below an EPK, Len if all are.
	Find(at *partmap.EPK) (int, error)
	// Before returns the weight of all that lies before place i; i may be Len.
	Before(i int) (int64, error)
}

// Choice is a cut with the weight on each side.
type Choice struct {
	At          partmap.EPK
	Left, Right int64
}

// Cut returns the cut that best halves the weight of the sources within a
// range. Where they weigh nothing it is the middle of the range. The error is a
// *Refusal if there is no cut with some weight on either side, or that of a
// source.
func Cut(r partmap.Range, sources []Source) (Choice, error) {
	c := cutter{sources: make([]candidates, len(sources))}
	for i, s := range sources {
		if err := c.sources[i].begin(s, r); err != nil {
			return Choice{}, err
		}
		c.total += c.sources[i].total
	}
	if c.total == 0 {
		mid := partmap.Midpoint(r)
		if mid.Compare(&r.Min) == 0 {
			return Choice{}, refuse(TooNarrow)
		}
		return Choice{At: mid}, nil
	}
	if err := c.narrow(); err != nil {
		return Choice{}, err
	}
	return c.choose(r)
}

// Weigh returns a cut at a given place within a range, with the weight of the sources on
// each side. The error is a *Refusal if the place does not lie inside, or that of a source.
func Weigh(r partmap.Range, sources []Source, at partmap.EPK) (Choice, error) {
	if at.Compare(&r.Min) <= 0 || at.Compare(&r.Max) >= 0 {
		return Choice{}, refuse(OutsideRange)
	}
	c := cutter{sources: make([]candidates, len(sources))}
	for i, s := range sources {
		if err := c.sources[i].begin(s, r); err != nil {
			return Choice{}, err
		}
		c.total += c.sources[i].total
	}
	left, err := c.below(&at)
	return Choice{At: at, Left: max(0, left), Right: max(0, c.total-left)}, err
}

// cutter narrows down, in every source, between which places half of the
// weight is reached.
type cutter struct {
	sources []candidates
	total   int64
	found   []int // scratch: the place of one EPK in each source
}

// candidates are the places of a source in the range. Those before low have at
// most half of the weight before them, those from high on more.
type candidates struct {
	Source
	first, end  int
	low, high   int
	base, total int64
}

func (c *candidates) begin(s Source, r partmap.Range) (err error) {
	c.Source = s
	if c.first, err = s.Find(&r.Min); err != nil {
		return err
	}
	if c.end, err = s.Find(&r.Max); err != nil {
		return err
	}
	c.end = max(c.first, c.end)
	c.low, c.high = c.first, c.end
	if c.base, err = s.Before(c.first); err != nil {
		return err
	}
	end, err := s.Before(c.end)
	c.total = max(0, end-c.base)
	return err
}

// below returns the weight below an EPK, and notes its place in each source.
func (c *cutter) below(at *partmap.EPK) (weight int64, err error) {
	c.found = c.found[:0]
	for i := range c.sources {
		s := &c.sources[i]
		place, err := s.Find(at)
		if err != nil {
			return 0, err
		}
		place = min(max(place, s.first), s.end)
		c.found = append(c.found, place)
		before, err := s.Before(place)
		if err != nil {
			return 0, err
		}
		weight += before - s.base
	}
	return weight, nil
}

func (c *cutter) narrow() error {
	for {
		widest := &c.sources[0]
		for i := range c.sources {
			if s := &c.sources[i]; s.high-s.low > widest.high-widest.low {
				widest = s
			}
		}
		if widest.high <= widest.low {
			return nil
		}
		mid := (widest.low + widest.high) / 2
		at, err := widest.At(mid)
		if err != nil {
			return err
		}
		weight, err := c.below(&at)
		if err != nil {
			return err
		}
		atMost := weight <= c.total/2
		for i := range c.sources {
			if s := &c.sources[i]; atMost {
				s.low = max(s.low, c.found[i])
			} else {
				s.high = max(s.low, min(s.high, c.found[i]))
			}
		}
		if atMost {
			widest.low = max(widest.low, mid+1)
		} else {
			widest.high = max(widest.low, min(widest.high, mid))
		}
	}
}

// choose takes the better one of the last place with at most half of the weight
// before it and the first one with more.
func (c *cutter) choose(r partmap.Range) (Choice, error) {
	var best Choice
	found := false
	for i := range c.sources {
		s := &c.sources[i]
		for _, place := range [2]int{s.low - 1, s.high} {
			if place < s.first || place >= s.end {
				continue
			}
			at, err := s.At(place)
			if err != nil {
				return best, err
			}
			left, err := c.below(&at)
			if err != nil {
				return best, err
			}
			right := c.total - left
			if left <= 0 || right <= 0 || at.Compare(&r.Min) <= 0 || at.Compare(&r.Max) >= 0 {
				continue
			}
			if !found || min(left, right) > min(best.Left, best.Right) {
				best, found = Choice{At: at, Left: left, Right: right}, true
			}
		}
	}
	if !found {
		return best, refuse(OneLogicalPartition)
	}
	return best, nil
}
