package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestVerifyShared has a file say that it overwrites versions of an older one
// that lie beyond the bounds of its partition's reference: it took that over from
// a file that was shared. That is no damage.
//
//	runs, newest first         below the boundary | from it on
//	after the split            newer, old         | newer, old
//	after a merge on the right newer, old         | merged
//	after the partitions' merge and one of the newest runs, the last one takes
//	over what newer overwrites in all of old.
func TestVerifyShared(t *testing.T) {
	ctx := context.Background()
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}, nil)
	var keys []int // in the order of the key space
	for i := range 60 {
		keys = append(keys, i)
	}
	place := func(i int) string {
		key := StringKey(fmt.Sprintf("k%d", i))
		epk := key.EPK()
		return epk.String()
	}
	slices.SortFunc(keys, func(a, b int) int {
		if place(a) < place(b) {
			return -1
		}
		return 1
	})
	write := func(text string, of ...int) {
		t.Helper()
		for _, i := range of {
			s.put(i, "i", text)
		}
		s.must(s.db.Flush(ctx))
	}
	inner := keys[1:59] // before and behind them the last merge has more
	half := len(inner) / 2
	write("old", inner...)
	write("newer", inner...)
	s.split(0, &SplitOptions{At: place(inner[half])})
	write("newest", inner[half:]...)
	right := s.c.partition(s.ids()[1])
	if _, err := s.db.mergeRuns(ctx, right, right.pickDead(ctx)); err != nil {
		t.Fatal(err)
	}
	write("behind", keys[59])
	s.merge(0)
	s.check()
	write("before", keys[0])
	p := s.c.routing.Load().parts[0]
	if n := len(p.version.Load().runs); n != 3 {
		t.Fatalf("%d runs, want 3", n)
	}
	if _, err := s.db.mergeRuns(ctx, p, pickFew); err != nil {
		t.Fatal(err)
	}
	if n := len(p.version.Load().runs); n != 2 {
		t.Fatalf("%d runs after the merge, want 2", n)
	}
	s.check()
}
