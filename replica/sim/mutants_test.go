//go:build mutants

package sim

import (
	"testing"

	"github.com/cleavestore/cleave/replica/internal/mutant"
)

// TestMutants: the simulation finds each fault that is planted, within so many runs, and
// nothing where none is.
func TestMutants(t *testing.T) {
	const within = 1000
	for _, fault := range mutant.All {
		t.Run(string(fault), func(t *testing.T) {
			mutant.Plant(fault)
			defer mutant.Plant("")
			for seed := *first; seed < *first+within; seed++ {
				if _, err := run(t, seed); err != nil {
					t.Logf("found by run %d: %.400v", seed-*first+1, err)
					return
				}
			}
			t.Errorf("not found within %d runs", within)
		})
	}
}
