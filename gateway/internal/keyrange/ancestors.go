package keyrange

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// Ancestors returns, for each physical partition of which given has the id, all those that it
// descends from, as far as the store remembers: by its history, else by the parents that are given.
func Ancestors(history []engine.PastReshape, given map[string][]string) map[string][]string {
	name := func(p engine.PartitionRange) string { return strconv.FormatUint(uint64(p.ID), 10) }
	parents := map[string][]string{}
	for _, past := range history {
		for _, child := range past.Children {
			for _, parent := range past.Parents {
				parents[name(child)] = append(parents[name(child)], name(parent))
			}
		}
	}
	for id, direct := range given {
		if parents[id] == nil {
			parents[id] = direct
		}
	}
	out := map[string][]string{}
	for id := range given {
		seen := map[string]bool{}
		var visit func(string)
		visit = func(id string) {
			for _, parent := range parents[id] {
				if !seen[parent] {
					seen[parent] = true
					visit(parent)
				}
			}
		}
		visit(id)
		ids := make([]string, 0, len(seen))
		for parent := range seen {
			ids = append(ids, parent)
		}
		slices.SortFunc(ids, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
		out[id] = ids
	}
	return out
}
