// Package overlay joins a scan of items with changes that lie over them, such as those of
// a transaction that is not committed.
//
// Invariants:
//
//  1. Each id comes once, in the order of the scan: as its change has it, if there is one.
//  2. Once the caller has left, or the limit is reached, nothing is taken from the scan.
//
// A Scan serves one goroutine. There are no locks.
package overlay

import (
	"iter"
	"slices"
	"strings"
)

// Change is what an id has in the place of what the scan has.
type Change[T any] struct {
	ID      string
	Deleted bool
	Item    T
}

// Sort puts changes in the order of a scan.
func Sort[T any](changes []Change[T], reverse bool) {
	slices.SortFunc(changes, func(a, b Change[T]) int {
		if reverse {
			a, b = b, a
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Scan is a scan with changes over it.
type Scan[T any] struct {
	Changes []Change[T] // still to come, in the order of the scan
	ID      func(*T) string
	Reverse bool
	Limit   int // items still wanted; 0: all
	Yield   func(T) bool

	// Stopped says that the scan was not read to its end, but to the item with the id Last.
	Stopped bool
	Last    string
}

// Run hands out the items. The error is that of the scan below.
func (s *Scan[T]) Run(below iter.Seq2[T, error]) error {
	for it, err := range below {
		if err != nil {
			return err
		}
		id, hidden := s.ID(&it), false
		for len(s.Changes) > 0 {
			c := strings.Compare(s.Changes[0].ID, id)
			if c != 0 && c > 0 != s.Reverse {
				break
			}
			hidden = c == 0
			if !s.giveChange() {
				return nil
			}
		}
		if !hidden && !s.give(id, it) {
			return nil
		}
	}
	for len(s.Changes) > 0 && s.giveChange() {
	}
	return nil
}

// giveChange hands out the next change, unless it is a deletion. It returns false if the
// scan is over.
func (s *Scan[T]) giveChange() bool {
	c := s.Changes[0]
	s.Changes = s.Changes[1:]
	return c.Deleted || s.give(c.ID, c.Item)
}

func (s *Scan[T]) give(id string, it T) bool {
	s.Limit--
	if s.Stopped = !s.Yield(it) || s.Limit == 0; s.Stopped {
		s.Last = strings.Clone(id)
	}
	return !s.Stopped
}
