//go:build !race

package engine

// raceEnabled says whether the race detector watches, which makes everything
// slower.
const raceEnabled = false
