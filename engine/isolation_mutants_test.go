//go:build !race

package engine

import (
	"testing"
)

// TestIsolationMutants: what TestIsolation checks finds each of these faults. Some
// of them are data races, which the race detector would report first.
func TestIsolationMutants(t *testing.T) {
	seed := newSeed(t)
	for planted, name := range map[mutant]string{
		mutantNewer: "snapshot one too new", mutantUnchecked: "conflict check skipped",
		mutantUnlocked: "check not under the lock", mutantTwoSteps: "batch applied in two steps",
	} {
		t.Run(name, func(t *testing.T) {
			const most = 20
			for i := range most {
				if found := isolation(t, seed+uint64(i), planted); len(found) > 0 {
					t.Logf("history %d: %s", i+1, found[0])
					return
				}
			}
			t.Errorf("not found in %d histories", most)
		})
	}
}
