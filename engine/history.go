package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// PastReshape is a split, merge or move of a boundary that was carried out.
type PastReshape struct {
	Kind     string           `json:"kind"` // "split", "merge" or "move"
	Time     time.Time        `json:"time"` // of the commit, milliseconds
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
	db := c.db
	db.storeManifest.Lock()
	history, partitions := db.storeManifest.state.History, db.storeManifest.state.Partitions
	db.storeManifest.Unlock()
	ranges := make(map[uint32]PartitionRange)
	known := func(id uint32, lo, hi manifest.Bytes) PartitionRange {
		from, _ := partmap.EPKFromBytes(lo) // they were checked when the manifest was read
		to, _ := partmap.EPKFromBytes(hi)
		ranges[id] = PartitionRange{PartitionID(id), from.String(), to.String()}
		return ranges[id]
	}
	for i := range partitions {
		if p := &partitions[i]; p.Container == c.id {
			known(p.ID, p.Min, p.Max)
		}
	}
	var past []PastReshape
	for _, r := range history {
		if r.Container != c.id {
			continue
		}
		one := PastReshape{Kind: r.Kind, Time: time.UnixMilli(r.Time)}
		for _, p := range r.Parents {
			one.Parents = append(one.Parents, known(p.ID, p.Min, p.Max))
		}
		for _, id := range r.Children {
			one.Children = append(one.Children, PartitionRange{ID: PartitionID(id)})
		}
		past = append(past, one)
	}
	for _, one := range past {
		for i := range one.Children {
			if found, ok := ranges[uint32(one.Children[i].ID)]; ok {
				one.Children[i] = found
			}
		}
	}
	return past
}
