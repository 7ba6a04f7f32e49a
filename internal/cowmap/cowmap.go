// Package cowmap has a map that can be read without a lock: it is immutable. A change makes
// a new map and copies only a small part of the old one.
//
// Invariants:
//
//  1. A map never changes. A reader may keep one for any time.
//  2. Of n entries a change copies about √n at most, but one change in √n copies all.
//
// A nil map is empty. There are no locks: an atomic pointer hands maps to readers, and
// callers make one change at a time.
package cowmap

import (
	"iter"
	"maps"
)

// Map is an immutable map from names to values, which are not nil.
type Map[V any] struct {
	settled map[string]*V
	recent  map[string]*V // changes since; nil: the entry was removed
	more    int           // number of entries in recent, minus those that it removes
}

// New returns a map with these entries. The caller changes them no more once others read
// the map.
func New[V any](entries map[string]*V) *Map[V] { return &Map[V]{settled: entries} }

// Get returns the value of a name, nil if there is none.
func (m *Map[V]) Get(name string) *V {
	if m == nil {
		return nil
	}
	if v, ok := m.recent[name]; ok {
		return v
	}
	return m.settled[name]
}

// Len returns the number of entries.
func (m *Map[V]) Len() int {
	if m == nil {
		return 0
	}
	return len(m.settled) + m.more
}

// All yields the entries in any order.
func (m *Map[V]) All() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		if m == nil {
			return
		}
		for name, v := range m.recent {
			if v != nil && !yield(name, v) {
				return
			}
		}
		for name, v := range m.settled {
			if _, changed := m.recent[name]; !changed && !yield(name, v) {
				return
			}
		}
	}
}

// Values yields the values in any order.
func (m *Map[V]) Values() iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for _, v := range m.All() {
			if !yield(v) {
				return
			}
		}
	}
}

// With returns the map with another entry.
func (m *Map[V]) With(name string, v *V) *Map[V] { return m.change(name, v) }

// Without returns the map without an entry.
func (m *Map[V]) Without(name string) *Map[V] { return m.change(name, nil) }

func (m *Map[V]) change(name string, v *V) *Map[V] {
	more := 0
	if was := m.Get(name) != nil; was && v == nil {
		more = -1
	} else if !was && v != nil {
		more = 1
	}
	if m == nil {
		m = &Map[V]{}
	}
	if n := len(m.recent); n*n > len(m.settled) {
		m = &Map[V]{settled: maps.Collect(m.All())}
	}
	recent := make(map[string]*V, len(m.recent)+1)
	maps.Copy(recent, m.recent)
	recent[name] = v
	return &Map[V]{settled: m.settled, recent: recent, more: m.more + more}
}
