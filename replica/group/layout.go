package group

import (
	"errors"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// Layout is a picture of the physical partitions of a container. It is immutable.
type Layout struct {
	all []partition // in key-space order
}

// partition is a physical partition.
type partition struct {
	id     engine.PartitionID
	span   partmap.Range
	absent bool
}

// NewLayout returns the partitions as they are.
func NewLayout(c *engine.Container) (*Layout, error) {
	l := new(Layout)
	for _, p := range c.Partitions() {
		lo, errLo := partmap.ParseEPK(p.Min)
		hi, errHi := partmap.ParseEPK(p.Max)
		if err := errors.Join(errLo, errHi); err != nil {
			return nil, err
		}
		l.all = append(l.all, partition{p.ID, partmap.Range{Min: lo, Max: hi}, p.Absent})
	}
	slices.SortFunc(l.all, func(a, b partition) int { return a.span.Min.Compare(&b.span.Min) })
	return l, nil
}

// in returns the partitions that have a part of a range. They must not be changed.
func (l *Layout) in(span partmap.Range) []partition {
	first, _ := slices.BinarySearchFunc(l.all, span.Min, func(p partition, e partmap.EPK) int {
		if p.span.Max.Compare(&e) <= 0 {
			return -1
		}
		return 1
	})
	end := first
	for end < len(l.all) && l.all[end].span.Min.Compare(&span.Max) < 0 {
		end++
	}
	return l.all[first:end]
}

// partitionsIn returns the physical partitions that have a part of a range.
func partitionsIn(c *engine.Container, span partmap.Range) ([]partition, error) {
	l, err := NewLayout(c)
	if err != nil {
		return nil, err
	}
	return l.in(span), nil
}
