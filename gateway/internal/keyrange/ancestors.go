package keyrange

import (
	"slices"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// Ancestors returns, for each physical partition, all those that it descends from, as far
// as the store remembers.
func Ancestors(c *engine.Container, parts []engine.PartitionStats) map[engine.PartitionID][]string {
	parents := map[engine.PartitionID][]engine.PartitionID{}
	for _, past := range c.History() {
		for _, child := range past.Children {
			for _, parent := range past.Parents {
				parents[child.ID] = append(parents[child.ID], parent.ID)
			}
		}
	}
	out := map[engine.PartitionID][]string{}
	for i := range parts {
		p := &parts[i]
		if parents[p.ID] == nil {
			parents[p.ID] = p.Parents
		}
		seen := map[engine.PartitionID]bool{}
		var visit func(engine.PartitionID)
		visit = func(id engine.PartitionID) {
			for _, parent := range parents[id] {
				if !seen[parent] {
					seen[parent] = true
					visit(parent)
				}
			}
		}
		visit(p.ID)
		ids := make([]engine.PartitionID, 0, len(seen))
		for id := range seen {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i] = strconv.FormatUint(uint64(id), 10)
		}
		out[p.ID] = texts
	}
	return out
}
