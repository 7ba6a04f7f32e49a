package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// containerSet is the set of the containers of a store at one moment. It is immutable: a
// change makes a new set, and copies only a small part of the old one.
type containerSet struct {
	settled map[string]*Container
	recent  map[string]*Container // changes since; nil: the container was dropped
	more    int                   // number of containers in recent, minus those that it drops
}

// get returns the container of a name, nil if there is none.
func (s *containerSet) get(name string) *Container {
	if c, ok := s.recent[name]; ok {
		return c
	}
	return s.settled[name]
}

func (s *containerSet) len() int { return len(s.settled) + s.more }

// all yields the containers in any order. A nil set has none.
func (s *containerSet) all() iter.Seq[*Container] {
	return func(yield func(*Container) bool) {
		if s == nil {
			return
		}
		for _, c := range s.recent {
			if c != nil && !yield(c) {
				return
			}
		}
		for name, c := range s.settled {
			if _, changed := s.recent[name]; !changed && !yield(c) {
				return
			}
		}
	}
}

// byName returns the containers in the order of their names.
func (s *containerSet) byName() []*Container {
	return slices.SortedFunc(s.all(), func(a, b *Container) int { return cmp.Compare(a.name, b.name) })
}

// with returns the set with another container.
func (s *containerSet) with(name string, c *Container) *containerSet { return s.change(name, c, 1) }

// without returns the set without one of its containers.
func (s *containerSet) without(name string) *containerSet { return s.change(name, nil, -1) }

func (s *containerSet) change(name string, c *Container, more int) *containerSet {
	if n := len(s.recent); n*n > len(s.settled) {
		settled := make(map[string]*Container, s.len()+1)
		for c := range s.all() {
			settled[c.name] = c
		}
		s = &containerSet{settled: settled}
	}
	recent := make(map[string]*Container, len(s.recent)+1)
	maps.Copy(recent, s.recent)
	recent[name] = c
	return &containerSet{settled: s.settled, recent: recent, more: s.more + more}
}
