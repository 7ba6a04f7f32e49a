package pins

import (
	"slices"
	"testing"
)

// TestSample: a sample has few sequences, among them the first and the last, and falls.
func TestSample(t *testing.T) {
	falling := func(n, from uint64) (all []uint64) {
		for i := range n {
			all = append(all, from-2*i)
		}
		return all
	}
	for _, n := range []uint64{0, 1, mostSampled, mostSampled + 1, 1000} {
		all := falling(n, 10_000)
		s := SampleOf(all)
		if len(s) != min(len(all), mostSampled) || n > 0 && (s[0] != all[0] || s[len(s)-1] != all[n-1]) {
			t.Errorf("of %d sequences: %v", n, s)
		}
		both := s.Join(SampleOf(falling(n, 10_001)))
		rises := func(a, b uint64) int { return int(b) - int(a) }
		if len(both) > mostSampled || !slices.IsSortedFunc(both, rises) || len(slices.Compact(slices.Clone(both))) != len(both) {
			t.Errorf("of twice %d sequences: %v", n, both)
		}
		if n > 0 && (both[0] != 10_001 || both[len(both)-1] != all[n-1]) {
			t.Errorf("of twice %d sequences, from %d to %d", n, both[0], both[len(both)-1])
		}
		if again := s.Join(s); !slices.Equal(again, s) {
			t.Errorf("joined with itself: %v, was %v", again, s)
		}
	}
}
