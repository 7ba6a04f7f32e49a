package pressure

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/partmap"
)

var errTest = errors.New("injected")

// testStore is a store of one tree, and what its gate asks of it.
type testStore struct {
	*lsmtest.Store
	gate     Gate
	tree     *lsm.Tree
	refused  error
	relieved atomic.Int64
	writes   float64
}

const limit = 16 << 20

func newStore(t *testing.T) *testStore {
	s := &testStore{Store: lsmtest.New(t, limit)}
	s.gate.Init(&s.Env, s, false)
	s.tree = s.Tree()
	return s
}

func (s *testStore) Refused() error { return s.refused }
func (s *testStore) Relieve()       { s.relieved.Add(1) }

// fill fills write buffers up to a part of their limit.
func (s *testStore) fill(part float64) {
	more := int64(part*limit) - s.Env.Pool.Used()
	s.Env.Pool.Reserve(max(0, more), 0)
	s.Env.Pool.Unreserve(max(0, -more))
}

// freeze writes an item and freezes its memtable.
func (s *testStore) freeze() {
	s.writes++
	s.Put(s.tree, partmap.Number(s.writes), "x", item.Version{Body: make([]byte, 10)})
	s.Freeze(s.tree)
}

// admitting is a write that another goroutine wants to make.
type admitting struct {
	waited time.Duration
	err    error
	done   chan struct{}
}

func (s *testStore) admit(ctx context.Context, size int64) *admitting {
	a := &admitting{done: make(chan struct{})}
	go func() {
		a.waited, a.err = s.gate.Admit(ctx, s.tree, size)
		close(a.done)
	}()
	return a
}

// ended says whether the write went on or was refused, be it after a sleep.
func (a *admitting) ended() bool {
	time.Sleep(time.Second) // of the bubble
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// TestSlowDown: writes are free up to pacing.PressureFrom, and pay more from there on.
func TestSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		took := func() time.Duration {
			start := time.Now()
			for range 100 {
				if _, err := s.gate.Admit(t.Context(), s.tree, 100<<10); err != nil {
					t.Fatal(err)
				}
				s.gate.Done(100 << 10)
			}
			return time.Since(start)
		}
		s.fill(pacing.PressureFrom - 0.05)
		if d := took(); d != 0 {
			t.Errorf("10 MiB took %v below the pressure", d)
		}
		s.fill(0.85)
		some := took()
		s.fill(0.95)
		more := took()
		if some < SmallestPause || more < 4*some {
			t.Errorf("10 MiB took %v at a quarter of the pressure, %v at three", some, more)
		}
		if s.gate.promised.Load() != 0 || s.gate.Waiting() {
			t.Error("something is left")
		}
	})
}

// TestWait: a write for which there is no memory waits until there is some, and goes on
// or fails with what happens meanwhile.
func TestWait(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(s *testStore, cancel func())
		want    error
	}{
		"memory is released": {func(s *testStore, _ func()) { s.fill(0.5); s.gate.Release() }, nil},
		"a write is done":    {func(s *testStore, _ func()) { s.fill(0.5); s.gate.Done(0) }, nil},
		"a flush fails":      {func(s *testStore, _ func()) { s.gate.Flushed(errTest) }, errTest},
		"the context ends":   {func(_ *testStore, cancel func()) { cancel() }, context.Canceled},
		"the store fails":    {func(s *testStore, _ func()) { s.refused = errTest; s.gate.Release() }, errTest},
		"a drop":             {func(s *testStore, _ func()) { s.tree.Dropped.Store(true); s.gate.Release() }, lsm.ErrMoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				s.fill(0.99)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				a := s.admit(ctx, 1<<20)
				if a.ended() || !s.gate.Waiting() || s.relieved.Load() == 0 {
					t.Fatalf("no memory: error %v, relieved %d times", a.err, s.relieved.Load())
				}
				s.gate.Release()
				if a.ended() {
					t.Fatal("woken for nothing, it went on")
				}
				tc.happens(s, cancel)
				if !a.ended() || !errors.Is(a.err, tc.want) {
					t.Fatalf("error %v, want %v", a.err, tc.want)
				}
				if a.err == nil {
					s.gate.Done(1 << 20)
				}
				if s.gate.promised.Load() != 0 || s.gate.Waiting() {
					t.Error("something is left")
				}
			})
		})
	}
}

// TestTooLarge: a write that is larger than all write buffers does not wait.
func TestTooLarge(t *testing.T) {
	s := newStore(t)
	_, err := s.gate.Admit(t.Context(), s.tree, limit+1)
	if found := new(fault.LimitError); !errors.As(err, &found) || !errors.Is(err, fault.ErrTooLarge) || found.Size != limit+1 || found.Limit != limit {
		t.Errorf("%v", err)
	}
	if _, err := s.gate.Admit(t.Context(), s.tree, limit); err != nil {
		t.Errorf("all of them: %v", err)
	}
}

// TestStarved: a write that waits for memory is starved while no flush will make any.
func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.fill(0.99)
		ctx, cancel := context.WithCancel(t.Context())
		a := s.admit(ctx, 1<<20)
		if a.ended() || !s.gate.Starved() {
			t.Error("nothing is frozen, and it is not starved")
		}
		s.freeze()
		if s.gate.Starved() {
			t.Error("a memtable is frozen")
		}
		s.Flushed(s.tree)
		if !s.gate.Starved() {
			t.Error("the memtable was flushed")
		}
		if cancel(); !a.ended() || s.gate.Starved() {
			t.Errorf("%v", a.err)
		}
		for range tiers.MostRuns {
			s.freeze()
		}
		ctx, cancel = context.WithCancel(t.Context())
		a = s.admit(ctx, 1)
		if a.ended() || s.gate.short.Load() > 0 {
			t.Error("it waits for a compaction, not for memory")
		}
		if cancel(); !a.ended() {
			t.Error("it goes on waiting")
		}
	})
}

// TestOverrun: at tiers.MostRuns runs a write waits for a compaction, and a frozen memtable
// counts as a run; while compactions fail it does not wait.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for range tiers.MostRuns {
			s.freeze()
		}
		a := s.admit(t.Context(), 1)
		if a.ended() {
			t.Fatalf("not held up: %v", a.err)
		}
		s.Flushed(s.tree)
		s.gate.Release()
		if !a.ended() || a.err != nil {
			t.Fatalf("held up below the bound: %v", a.err)
		}
		s.gate.Done(1)
		s.freeze()
		s.tree.CompactRetry.Failed()
		if _, err := s.gate.Admit(t.Context(), s.tree, 1); err != nil {
			t.Errorf("while compactions fail: %v", err)
		}
	})
}
