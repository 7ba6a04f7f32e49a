// Package indexing translates between what clients of the protocol say of indexes and what
// a store does: composite indexes of a definition, and index metrics of a query.
package indexing

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/engine"
)

// CompositePath is a path of a composite index in a container's definition.
type CompositePath struct {
	Path  string `json:"path"`
	Order string `json:"order"`
}

// Composite returns the composite indexes of a definition as the store has them. The store
// checks their paths.
func Composite(list [][]CompositePath) (all [][]engine.CompositePath, err error) {
	for _, paths := range list {
		var x []engine.CompositePath
		for _, at := range paths {
			if at.Order != "" && at.Order != "ascending" && at.Order != "descending" {
				return nil, fmt.Errorf("the order %.40q of a composite index: ascending and descending are possible", at.Order)
			}
			x = append(x, engine.CompositePath{Path: strings.TrimSuffix(at.Path, "/?"), Descending: at.Order == "descending"})
		}
		all = append(all, x)
	}
	return all, nil
}

// Metrics returns the index metrics of a query with this plan, as JSON.
func Metrics(plan *engine.QueryPlan) ([]byte, error) {
	type single struct{ IndexSpec string }
	type composite struct{ IndexSpecs []string }
	indexes := func(s []single, c []composite) map[string]any {
		return map[string]any{"SingleIndexes": s, "CompositeIndexes": c}
	}
	potential, used, lacking := []single{}, []composite{}, []composite{}
	for _, pattern := range plan.Suggest {
		potential = append(potential, single{pattern})
	}
	for _, text := range plan.Composite {
		used = append(used, composite{strings.Split(text, ", ")})
	}
	var specs []string
	for _, at := range plan.SuggestComposite {
		specs = append(specs, at.String())
	}
	if specs != nil {
		lacking = append(lacking, composite{specs})
	}
	return json.Marshal(map[string]any{
		"UtilizedIndexes": indexes([]single{}, used), "PotentialIndexes": indexes(potential, lacking), "Method": plan.Method,
	})
}
