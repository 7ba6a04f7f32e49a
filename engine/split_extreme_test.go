package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSplitAtTheEnds cuts at the first and the last key, and where the key space
// nearly begins and ends, so that one side has nothing or a single logical
// partition; the halves, of very different sizes, are merged again.
func TestSplitAtTheEnds(t *testing.T) {
	var epks []string
	for i := range 30 {
		epk := StringKey(fmt.Sprintf("k%d", i)).EPK()
		epks = append(epks, epk.String())
	}
	slices.Sort(epks)
	cuts := []string{strings.Repeat("0", 31) + "1", epks[0], epks[len(epks)-1], "3F" + strings.Repeat("F", 30)}
	for _, inFiles := range []bool{false, true} {
		s := newSplitStore(t, byK, nil)
		for i := range 60 {
			s.put(i%30, fmt.Sprint(i), strings.Repeat("x", 10*i))
		}
		for round, at := range cuts {
			if inFiles {
				must(s.t, s.db.Flush(context.Background()))
			}
			s.split(0, &SplitOptions{At: at})
			if parts := s.c.Partitions(); len(parts) != 2 || parts[1].Min != at {
				t.Fatalf("cut at %s: %+v", at, parts)
			}
			for i := range 30 {
				s.put(i, "again", fmt.Sprint("after the cut ", round))
			}
			s.check()
			s.reopen(s.mem.Kill())
			s.check()
			if round%2 == 0 {
				must(s.t, s.db.Compact(context.Background()))
			}
			s.merge(0)
			s.check()
		}
		must(s.t, s.db.Compact(context.Background()))
		s.check()
	}
}
