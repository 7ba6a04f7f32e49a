package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
)

// placeOf is the place of the logical partition of splitStore.put in the key space.
func placeOf(i int) string {
	key := StringKey(fmt.Sprintf("k%d", i))
	epk := key.EPK()
	return epk.String()
}

// inKeyOrder returns the numbers below n in the order of the key space.
func inKeyOrder(n int) (keys []int) {
	for i := range n {
		keys = append(keys, i)
	}
	slices.SortFunc(keys, func(a, b int) int { return strings.Compare(placeOf(a), placeOf(b)) })
	return keys
}

// flushed writes a document in each of some logical partitions, and flushes.
func (s *splitStore) flushed(text string, keys ...int) {
	s.t.Helper()
	for _, i := range keys {
		s.put(i, "i", text)
	}
	must(s.t, s.db.Flush(context.Background()))
}

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
	keys := inKeyOrder(60)
	inner := keys[1:59] // before and behind them the last merge has more
	half := len(inner) / 2
	s.flushed("old", inner...)
	s.flushed("newer", inner...)
	s.split(0, &SplitOptions{At: placeOf(inner[half])})
	s.flushed("newest", inner[half:]...)
	right := s.c.partition(s.ids()[1])
	if _, err := right.CompactRuns(ctx, right.PickDead(ctx)); err != nil {
		t.Fatal(err)
	}
	s.flushed("behind", keys[59])
	s.merge(0)
	s.check()
	s.flushed("before", keys[0])
	p := s.c.routing.Load().parts[0]
	if n := len(p.Version.Load().Runs); n != 3 {
		t.Fatalf("%d runs, want 3", n)
	}
	newer := func([]*lsm.Run, bool) (tiers.Plan, error) { return tiers.Plan{First: 0, End: 2}, nil }
	if _, err := p.CompactRuns(ctx, newer); err != nil {
		t.Fatal(err)
	}
	if n := len(p.Version.Load().Runs); n != 2 {
		t.Fatalf("%d runs after the merge, want 2", n)
	}
	s.check()
}

// TestVerifyTakenOver has a file say that it overwrites versions of an older one
// which another file overwrites: it took that over from one that was shared. The
// other is older than the file, newer than the versions, and has them all.
//
//	runs, newest first             below the boundary  | from it on
//	after the split                newer, between, old | newer, between, old
//	after a merge on the right     newer, between, old | merged, old
//	after the partitions' merge    newer               |
//	                               between             | merged
//	                               old                 | old
//	then the newest runs are merged, one of which has keys on both sides.
func TestVerifyTakenOver(t *testing.T) {
	ctx := context.Background()
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}, nil)
	keys := inKeyOrder(60)
	newest := func(p *partition) {
		t.Helper()
		done, err := p.CompactRuns(ctx, func([]*lsm.Run, bool) (tiers.Plan, error) { return tiers.Plan{First: 0, End: 2}, nil })
		if must(s.t, err); !done {
			t.Fatal("nothing was merged")
		}
	}
	s.flushed("old", keys[1:59]...)
	s.flushed("between", keys[20:40]...)
	s.flushed("newer", keys[1:59]...)
	s.split(0, &SplitOptions{At: placeOf(keys[30])})
	newest(s.c.partition(s.ids()[1]))
	s.merge(0)
	s.check()
	s.flushed("newest", keys[0], keys[59])
	p := s.c.routing.Load().parts[0]
	newest(p)
	if n := len(p.Version.Load().Runs); n != 3 {
		t.Fatalf("%d runs, want 3", n)
	}
	s.check()
	for _, text := range []string{"old", "between", "newer", "newest"} {
		n, err := s.c.Count(ctx, AllPartitions(), Eq("/v", text))
		must(s.t, err)
		if want := map[string]int64{"newer": 58, "newest": 2}[text]; n != want {
			t.Errorf("%d documents say %s, want %d", n, text, want)
		}
	}
}

// TestVerifyDeletionVectors plants lists of what a file overwrites.
func TestVerifyDeletionVectors(t *testing.T) {
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}, nil)
	keys := inKeyOrder(6)
	for _, of := range [][]int{keys, keys[:4], keys[1:3]} {
		for _, i := range of {
			s.put(i, "i", "text")
		}
		must(s.t, s.db.Flush(context.Background()))
	}
	p := s.c.routing.Load().parts[0]
	runs := p.Version.Load().Runs
	in := func(n int) *lsm.File { return runs[n].Files[0] }
	known := func(f, old *lsm.File) *deletion.Vector {
		t.Helper()
		l := f.VectorCache.Known(f, old)
		if l == nil {
			t.Fatal("it is not known what a file overwrites")
		}
		return &deletion.Vector{Ordinals: slices.Clone(l.Ordinals), Seqs: slices.Clone(l.Seqs)}
	}
	findings := func(n int, l *deletion.Vector) int {
		t.Helper()
		found := 0
		c := lsm.NewTreeChecker(context.Background(), func(string, int64, string) { found++ })
		must(s.t, c.Vector("file", in(n), in(2), runs[:2], l))
		return found
	}
	for _, test := range []struct {
		what  string
		n     int // run of the file that has the list
		plant func(l *deletion.Vector)
		want  int
	}{
		{"as it is", 1, func(*deletion.Vector) {}, 0},
		{"without one", 1, func(l *deletion.Vector) { l.Ordinals, l.Seqs = l.Ordinals[1:], l.Seqs[1:] }, 1},
		{"too late", 1, func(l *deletion.Vector) { l.Seqs[2]++ }, 1},
		{"with one that nobody overwrites", 1, func(l *deletion.Vector) { l.Add(4, 1, l.Seqs[0]) }, 1},
		{"with one that is not there", 1, func(l *deletion.Vector) { l.Add(6, 1, l.Seqs[0]) }, 1},
		{"with what another overwrites", 0, func(l *deletion.Vector) { *l = *deletion.Join(l, known(in(1), in(2))) }, 0},
		{"with all that there is", 0, func(l *deletion.Vector) {
			*l = deletion.Vector{Ordinals: []uint32{0, 1, 2, 3, 4, 5}, Seqs: make([]uint64, 6)}
		}, 2},
	} {
		l := known(in(test.n), in(2))
		test.plant(l)
		if got := findings(test.n, l); got != test.want {
			t.Errorf("%s: %d findings, want %d", test.what, got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	found := 0
	c := lsm.NewTreeChecker(ctx, func(string, int64, string) { found++; cancel() })
	all := &deletion.Vector{Ordinals: []uint32{0, 1, 2, 3, 4, 5}, Seqs: make([]uint64, 6)}
	if err := c.Vector("file", in(0), in(2), runs[:2], all); found != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted at the first of two findings: %d, %v", found, err)
	}
}
