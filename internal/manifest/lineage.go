package manifest

import (
	"fmt"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Entries returns the physical partitions of each container, for its routing table.
func (s *Store) Entries() (map[uint32][]partmap.Entry, error) {
	entries := make(map[uint32][]partmap.Entry, len(s.Containers))
	for i := range s.Partitions {
		p := &s.Partitions[i]
		r, err := rangeOf(p.Min, p.Max)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.ID, err)
		}
		entries[p.Container] = append(entries[p.Container], partmap.Entry{ID: partmap.PartitionID(p.ID), Range: r})
	}
	return entries, nil
}

// Bounds returns the range of the partition as text, empty if that is not known.
func (f *Former) Bounds() (lo, hi string) {
	if f.Max == nil {
		return "", ""
	}
	from, _ := partmap.EPKFromBytes(f.Min) // they were checked when the manifest was read
	to, _ := partmap.EPKFromBytes(f.Max)
	return from.String(), to.String()
}

// Lineage is a Reshape with what the store remembers of the children.
type Lineage struct {
	Kind     string
	Time     int64 // milliseconds since the Unix epoch
	Parents  []Former
	Children []Former // Min and Max are nil if the store does not remember them
}

// Lineage returns the history of a container, the oldest first. A child is a partition that
// there is, or a parent in the history.
func (s *Store) Lineage(container uint32) (all []Lineage) {
	known := make(map[uint32]Former)
	for i := range s.Partitions {
		if p := &s.Partitions[i]; p.Container == container {
			known[p.ID] = Former{ID: p.ID, Min: p.Min, Max: p.Max}
		}
	}
	for _, r := range s.History {
		if r.Container == container {
			for _, p := range r.Parents {
				known[p.ID] = p
			}
		}
	}
	for _, r := range s.History {
		if r.Container != container {
			continue
		}
		one := Lineage{Kind: r.Kind, Time: r.Time, Parents: r.Parents}
		for _, id := range r.Children {
			child := known[id]
			child.ID = id
			one.Children = append(one.Children, child)
		}
		all = append(all, one)
	}
	return all
}

// BeginLog notes that no file of the log before first is needed.
func (h *Head) BeginLog(first uint64) {
	h.LogFirst = first
	h.LogClosed = h.NeededLog()
}

// NeededLog returns the lengths of the log files that are needed, in a list of its own.
func (h *Head) NeededLog() (needed []wal.Closed) {
	for _, c := range h.LogClosed {
		if c.File >= h.LogFirst {
			needed = append(needed, c)
		}
	}
	return needed
}
