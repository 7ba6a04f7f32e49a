package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
)

// PastReshape is a split, merge, move of a boundary or installation of partitions that was carried out.
type PastReshape struct {
	Kind     string           `json:"kind"` // "split", "merge", "move" or "install"
	Time     time.Time        `json:"time"` // of the commit, in UTC, milliseconds
	Parents  []PartitionRange `json:"parents"`
	Children []PartitionRange `json:"children"`
}

// PartitionRange is a physical partition, present or past, with its part of the key
// space: effective partition keys in hexadecimal digits, Min inclusive, Max exclusive.
// Both are empty if the store does not remember them.
type PartitionRange struct {
	ID  PartitionID `json:"id"`
	Min string      `json:"min"`
	Max string      `json:"max"`
}

// History returns the splits, merges and moves of the container's physical partitions,
// the oldest first, in key-space order each. A store remembers the newest 256 of all its
// containers.
func (c *Container) History() []PastReshape {
	c = c.now()
	state := c.db.storeState()
	var past []PastReshape
	for _, r := range state.Lineage(c.id) {
		past = append(past, PastReshape{Kind: r.Kind, Time: time.UnixMilli(r.Time).UTC(), Parents: rangesOf(r.Parents), Children: rangesOf(r.Children)})
	}
	return past
}

// storeState returns what the store manifest says now. Later edits do not change it.
func (db *DB) storeState() manifest.Store {
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	return db.storeManifest.state.Clone()
}

// rangesOf describes partitions that a manifest names.
func rangesOf(list []manifest.Former) (all []PartitionRange) {
	for _, p := range list {
		lo, hi := p.Bounds()
		all = append(all, PartitionRange{PartitionID(p.ID), lo, hi})
	}
	return all
}
