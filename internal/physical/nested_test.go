package physical_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

var errTest = errors.New("injected")

// large is how many items the runs have that are compacted outside.
const large = 2000

// nestStore is a partition with two runs of the same items.
type nestStore struct {
	*physicaltest.Store
	*testing.T
	p      *physical.Partition
	pk     partmap.Key
	newest map[string]uint64 // sequences by id
}

func newNestStore(t *testing.T, items int) *nestStore {
	s := &nestStore{physicaltest.New(t), t, nil, partmap.String("p"), make(map[string]uint64)}
	s.p = s.Partition(1, physicaltest.Whole())
	for range 2 {
		s.run(items)
	}
	return s
}

// run writes n items and flushes them.
func (s *nestStore) run(n int) {
	for i := range n {
		id := fmt.Sprint(i)
		s.newest[id] = s.Write(s.p, s.pk, id, false).Seq
	}
	s.p.Freeze()
	s.OK(s.p.FlushFrozen(s.Context()))
}

// tier makes as many runs as are compacted together, small ones.
func (s *nestStore) tier() { s.tierOf(3) }

func (s *nestStore) tierOf(items int) {
	for range tiers.Runs {
		s.run(items)
	}
}

// around picks all runs, after what happens when the compaction has begun.
func (s *nestStore) around(happens func()) lsm.Picker {
	return func(runs []*lsm.Run, _ bool) (tiers.Plan, error) {
		happens()
		return tiers.Plan{First: 0, End: len(runs)}, nil
	}
}

// check fails unless compactions told this, in this order, the manifest and the version have so
// many runs, and each item is found as it was written last.
func (s *nestStore) check(runs int, told ...string) {
	s.Helper()
	if !slices.Equal(s.Rewritten, told) {
		s.Errorf("told %q, want %q", s.Rewritten, told)
	}
	v := s.p.Version.Load()
	if m := s.Manifest(s.p); len(v.Runs) != runs || len(m.Runs) != runs {
		s.Errorf("%d runs, %d in the manifest, want %d", len(v.Runs), len(m.Runs), runs)
	}
	epk := s.pk.EPK()
	for id, seq := range s.newest {
		k := lsmtest.Key(s.pk, id)
		var found item.Version
		if _, ok, err := v.Lookup(&k, &epk, lsm.MaxSequence, nil, true, &found); !ok || err != nil || found.Seq != seq {
			s.Errorf("item %s: found %v with sequence %d, want %d, %v", id, ok, found.Seq, seq, err)
		}
	}
	if !s.p.Drain.Idle() {
		s.Error("a compaction counts after its end")
	}
}

// TestNested: runs that come while a compaction is under way are compacted before it ends, and
// it replaces its own inputs behind them.
func TestNested(t *testing.T) {
	s := newNestStore(t, large)
	done, err := s.p.CompactBy(t.Context(), s.around(s.tier))
	if !done || err != nil {
		t.Fatal(done, err)
	}
	s.check(2, "compaction: 3 of 24 items", "compaction: 2000 of 4000 items")
}

// TestNestedInFront: runs that a compaction has found, and that are newer than its inputs, are
// compacted too.
func TestNestedInFront(t *testing.T) {
	s := newNestStore(t, large)
	s.run(3)
	done, err := s.p.CompactBy(t.Context(), func(runs []*lsm.Run, _ bool) (tiers.Plan, error) {
		s.tier()
		return tiers.Plan{First: 1, End: len(runs)}, nil
	})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	s.check(2, "compaction: 3 of 27 items", "compaction: 2000 of 4000 items")
}

// TestNestedTwice: small runs that come while a nested compaction is under way are compacted
// within it.
func TestNestedTwice(t *testing.T) {
	s := newNestStore(t, large)
	asked := 0
	s.Family.ChangeFloor = func() uint64 {
		if s.p.Flushing.Locked() {
			return lsm.MaxSequence
		}
		// A compaction asks when it has its inputs; a nested one asks before that, too, to pick them.
		switch asked++; asked {
		case 1:
			s.tierOf(large / 20)
		case 3:
			s.tier()
		}
		return lsm.MaxSequence
	}
	done, err := s.p.CompactBy(t.Context(), s.around(func() {}))
	if !done || err != nil {
		t.Fatal(done, err)
	}
	s.check(3, "compaction: 3 of 24 items", "compaction: 100 of 800 items", "compaction: 2000 of 4000 items")
}

// TestNestedInRewriting: the rewriting of a file lets compactions in, too.
func TestNestedInRewriting(t *testing.T) {
	s := newNestStore(t, large)
	begun := false
	done, err := s.p.InTurn(t.Context(), true, func() (bool, error) {
		return s.p.RewriteFile(t.Context(), physical.Reindex, nil, func(*lsm.File) bool {
			if begun {
				return false
			}
			begun = true
			s.tier()
			return true
		})
	})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	s.check(3, "compaction: 3 of 24 items", "index: 2000 of 2000 items")
}

// TestNotNested: no compaction is let in while a split waits for the one under way, and no run
// that it has found is touched. An error of a nested one does not end it, and leaves its inputs.
func TestNotNested(t *testing.T) {
	t.Run("a split waits", func(t *testing.T) {
		s := newNestStore(t, large)
		s.p.SplitQueued = func() bool { return true }
		if done, err := s.p.CompactBy(t.Context(), s.around(s.tier)); !done || err != nil {
			t.Fatal(done, err)
		}
		s.check(1+tiers.Runs, "compaction: 2000 of 4000 items")
	})
	t.Run("a write waits", func(t *testing.T) {
		s := newNestStore(t, large)
		if !s.Pool.Reserve(s.Pool.Limit()-s.Pool.Used(), 0) {
			t.Fatal("the write buffers are not full")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			if _, err := s.Gate.Admit(ctx, &s.p.Tree, s.Pool.Limit()/2); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		for !s.Gate.Waiting() {
			runtime.Gosched()
		}
		if done, err := s.p.CompactBy(t.Context(), s.around(s.tier)); !done || err != nil {
			t.Fatal(done, err)
		}
		cancel()
		writer.Wait()
		s.check(1+tiers.Runs, "compaction: 2000 of 4000 items")
	})
	t.Run("less is left to read", func(t *testing.T) {
		s := newNestStore(t, 200)
		if done, err := s.p.CompactBy(t.Context(), s.around(func() { s.tierOf(200) })); !done || err != nil {
			t.Fatal(done, err)
		}
		s.check(1+tiers.Runs, "compaction: 200 of 400 items")
	})
	t.Run("canceled", func(t *testing.T) {
		s := newNestStore(t, large)
		ctx, cancel := context.WithCancel(t.Context())
		s.p.SplitQueued = func() bool { cancel(); return false } // asked before a nested one begins
		if done, err := s.p.CompactBy(ctx, s.around(s.tier)); done || err == nil {
			t.Fatal(done, err)
		}
		s.check(2 + tiers.Runs)
		s.p.SplitQueued = func() bool { return false }
		if done, err := s.p.CompactBy(t.Context(), s.around(func() {})); !done || err != nil {
			t.Fatal(done, err)
		}
		s.check(1, "compaction: 2000 of 4024 items")
	})
	t.Run("fails", func(t *testing.T) {
		s := newNestStore(t, large)
		faulty, asked := vfs.NewFaulty(s.Mem), 0
		s.FS = faulty
		s.p.SplitQueued = func() bool { // asked before a nested one begins
			asked++
			faulty.FailAt(faulty.Calls()+2, errTest, false) // the first asks for the room that there is
			return false
		}
		var told []error
		s.Background = func(_ string, err error) { told = append(told, err) }
		if done, err := s.p.CompactBy(t.Context(), s.around(s.tier)); !done || err != nil {
			t.Fatal(done, err)
		}
		s.check(1+tiers.Runs, "compaction: 2000 of 4000 items")
		if len(told) != 1 || !errors.Is(told[0], errTest) || asked != 1 {
			t.Errorf("asked %d times, told %v", asked, told)
		}
		s.FS = s.Mem
		if done, err := s.p.CompactOne(t.Context()); !done || err != nil {
			t.Fatal(done, err)
		}
		s.check(2, "compaction: 2000 of 4000 items", "compaction: 3 of 24 items")
	})
}
