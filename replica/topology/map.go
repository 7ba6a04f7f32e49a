package topology

import (
	"slices"
	"sync"

	"github.com/cleavestore/cleave/partmap"
)

// Map is a copy of the descriptors of a cluster, from which requests are routed. It is safe
// for concurrent use.
type Map struct {
	mu         sync.RWMutex
	groups     map[GroupID]*Group
	containers map[string][]*Group // in key-space order
}

// NewMap returns an empty map.
func NewMap() *Map {
	return &Map{groups: make(map[GroupID]*Group), containers: make(map[string][]*Group)}
}

// Find returns the group that holds an EPK of a container, nil if the map does not know it.
func (m *Map) Find(container string, epk *partmap.EPK) *Group {
	m.mu.RLock()
	defer m.mu.RUnlock()
	row := m.containers[container]
	if i := search(row, epk); i > 0 && row[i-1].Range.Contains(epk) {
		return row[i-1]
	}
	return nil
}

// search returns how many groups of the row begin at or before epk.
func search(row []*Group, epk *partmap.EPK) int {
	i, found := slices.BinarySearchFunc(row, epk, func(g *Group, e *partmap.EPK) int { return g.Range.Min.Compare(e) })
	if found {
		i++
	}
	return i
}

// Group returns the group with an id, nil if the map does not know it.
func (m *Map) Group(id GroupID) *Group {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.groups[id]
}

// Len returns how many groups the map knows.
func (m *Map) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.groups)
}

// Groups returns the groups of a container, in key-space order.
func (m *Map) Groups(container string) []*Group {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.containers[container])
}

// Containers returns the names of the containers of which the map knows a group, in no order.
func (m *Map) Containers() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]string, 0, len(m.containers))
	for name := range m.containers {
		out = append(out, name)
	}
	return out
}

// Update tells the map of a descriptor, in any order and any number of times. It reports
// whether the descriptor is news; one is not if the map knows a later one of the group, or a
// later group of a part of its range, or a later container of the name.
func (m *Map) Update(g *Group) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.groups[g.ID]; known != nil && known.Epoch >= g.Epoch {
		return false
	}
	row := m.containers[g.Container]
	if len(row) > 0 && row[0].ID.Number() != g.ID.Number() {
		if row[0].ID.Number() > g.ID.Number() {
			return false
		}
		for _, old := range row { // of a container that was dropped
			delete(m.groups, old.ID)
		}
		row = nil
	}
	lo := search(row, &g.Range.Min)
	if lo > 0 && row[lo-1].Range.Overlaps(g.Range) {
		lo--
	}
	hi := lo
	for ; hi < len(row) && row[hi].Range.Overlaps(g.Range); hi++ {
		if row[hi].ID != g.ID && row[hi].Epoch >= g.Epoch {
			return false
		}
	}
	for _, old := range row[lo:hi] {
		delete(m.groups, old.ID)
	}
	m.containers[g.Container] = slices.Replace(row, lo, hi, g)
	m.groups[g.ID] = g
	return true
}

// IDs returns the ids of all groups that the map knows, in no order.
func (m *Map) IDs() []GroupID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ids := make([]GroupID, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	return ids
}

// Drop tells the map that a group is not there any more.
func (m *Map) Drop(id GroupID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[id]
	if g == nil {
		return
	}
	delete(m.groups, id)
	row := m.containers[g.Container]
	i := search(row, &g.Range.Min) - 1
	if row = slices.Delete(row, i, i+1); len(row) == 0 {
		delete(m.containers, g.Container)
	} else {
		m.containers[g.Container] = row
	}
}
