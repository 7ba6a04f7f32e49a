//go:build !race

package randtest

// raceEnabled says whether the race detector watches.
const raceEnabled = false
