package randtest

import "testing"

// Lone returns how many turns a random test of one goroutine takes: n, or a quarter of n in
// a short run under the race detector. The detector makes a turn last about ten times as
// long, and finds little where nothing is shared; the run without it takes all n.
func Lone(n int) int {
	if raceEnabled && testing.Short() {
		return max(1, n/4)
	}
	return n
}
