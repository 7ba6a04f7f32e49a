package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestLogicalPartitionsShared cuts a partition at the place of one of its keys
// and next to it, and joins the halves: they share files, or what is in memory.
// Each key is listed once, with what it has.
func TestLogicalPartitionsShared(t *testing.T) {
	ctx := context.Background()
	const keys, each = 50, 10
	for _, paths := range [][]string{{"/k"}, {"/k", "/l"}} {
		for _, settled := range []bool{true, false} {
			s := newSplitStore(t, ContainerDef{PartitionKey: paths}, nil)
			for i := range keys * each {
				n := i % keys
				members := fmt.Sprintf(`,"k":"k%d"`, n)
				key := StringKey(fmt.Sprintf("k%d", n))
				if len(paths) == 2 {
					members += `,"l":"l"`
					key = JoinKeys(key, StringKey("l"))
				}
				s.upsert(key, members, fmt.Sprint(i), "text")
			}
			if settled {
				must(s.t, s.db.Compact(ctx))
			}
			var places []string
			for l, err := range s.c.LogicalPartitions(ctx) {
				must(s.t, err)
				key, err := l.Key()
				must(s.t, err)
				epk := key.EPK()
				places = append(places, epk.String())
			}
			if len(places) != keys || !slices.IsSorted(places) {
				t.Fatalf("%v, settled %v: %d places", paths, settled, len(places))
			}
			// The key is the first behind the boundary, or the last before it.
			for _, at := range []string{places[41], places[41][:len(places[41])-1] + "F"} {
				s.split(0, &SplitOptions{At: at})
				s.listedOnce(keys, each)
				if settled {
					must(s.t, s.db.Compact(ctx))
				}
				s.listedOnce(keys, each)
				s.merge(0)
				s.listedOnce(keys, each)
				s.check()
			}
		}
	}
}

// listedOnce checks that the tables tell of each logical partition once.
func (s *splitStore) listedOnce(keys int, each int64) {
	s.t.Helper()
	var versions int64
	listed := make(map[PartitionKey]int64)
	for l, err := range s.c.LogicalPartitions(context.Background()) {
		must(s.t, err)
		key, err := l.Key()
		must(s.t, err)
		if _, again := listed[key]; again || l.Versions != each {
			s.t.Errorf("%v: %d versions, listed before: %v", key, l.Versions, again)
		}
		listed[key] = l.Versions
		versions += l.Versions
	}
	if len(listed) != keys || versions != int64(keys)*each {
		s.t.Errorf("%d logical partitions with %d versions, want %d with %d", len(listed), versions, keys, int64(keys)*each)
	}
}
