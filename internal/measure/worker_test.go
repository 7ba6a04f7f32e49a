package measure

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// What is measured must be the store: the loop around it allocates nothing.
func TestClientAllocatesNothing(t *testing.T) {
	for _, name := range []string{"read", "put", "ycsb-a", "scan", "ycsb-f", "absent", "partition"} {
		l := newLoop(t, name, 10_000, nothing{})
		w := l.newWorker(0, l.Store, newFrontier(10_000), newCounters(1, l.Workload.Mix, false, false))
		never := new(atomic.Bool)
		w.run(context.Background(), never, 1000) // buffers and histograms
		if n := testing.AllocsPerRun(10, func() { w.run(context.Background(), never, 100) }); n > 0 {
			t.Errorf("%s: %v allocations for 100 operations", name, n)
		}
		if w.firstErr != nil {
			t.Error(w.firstErr)
		}
	}
}

func TestFrontier(t *testing.T) {
	f := newFrontier(100)
	var taken []int64
	for range 50 {
		taken = append(taken, f.take())
	}
	rand.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
	is := make(map[int64]bool)
	for _, i := range taken {
		f.written(i)
		is[i] = true
		want := int64(100)
		for is[want] {
			want++
		}
		if got := f.done.Load(); got != want {
			t.Fatalf("all up to %d are written, it says %d", want, got)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				f.written(f.take())
			}
		})
	}
	wg.Wait()
	if got := f.done.Load(); got != 550 || len(f.ahead) != 0 {
		t.Errorf("done up to %d, %d ahead", got, len(f.ahead))
	}
}

// wrong answers each call wrongly.
type wrong struct {
	body []byte
	err  error
}

func (s wrong) Upsert(context.Context, partmap.Key, string, []byte) error { return s.err }

func (s wrong) Read(context.Context, partmap.Key, string, []byte) ([]byte, error) {
	return s.body, s.err
}

func (s wrong) Scan(context.Context, partmap.Key, string, int, func([]byte)) error { return s.err }

func TestWorkerNoticesErrors(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		workload string
		store    Store
	}{
		{"ycsb-a", wrong{err: refused}},
		{"ycsb-f", wrong{err: refused}},
		{"absent", wrong{err: refused}},
		{"partition", wrong{err: refused}},
		{"read", wrong{err: ErrNotFound}},
		{"read", wrong{body: []byte(`{"id":"another"}`)}},
		{"absent", wrong{body: []byte(`{"id":"another"}`)}},
		{"scan", wrong{}},
		{"query-equal", wrong{}}, // no Querier
	} {
		l := newLoop(t, c.workload, 10, c.store)
		w := l.newWorker(0, l.Store, newFrontier(10), newCounters(1, l.Workload.Mix, false, false))
		w.run(t.Context(), new(atomic.Bool), 100)
		all := w.counters[0].Load().All()
		if n := all.Successes(); n > 0 {
			t.Errorf("%s: %d successes", c.workload, n)
		}
		if all.Errors != 100 || w.firstErr == nil {
			t.Errorf("%s: %d errors, the first: %v", c.workload, all.Errors, w.firstErr)
		}
	}
	l := newLoop(t, "put", 10, wrong{err: refused})
	w := l.newWorker(0, l.Store, newFrontier(10), newCounters(1, l.Workload.Mix, false, false))
	w.run(t.Context(), new(atomic.Bool), 0)
	if n := w.counters[0].Load()[workload.Update].Errors; n != hopeless {
		t.Errorf("gives up after %d errors", n)
	}
}

// reluctant does not admit one write of three.
type reluctant struct {
	nothing
	calls int
	held  map[string]bool
}

func (s *reluctant) Upsert(_ context.Context, _ partmap.Key, id string, _ []byte) error {
	if s.calls++; s.calls%3 == 0 {
		return ErrThrottled
	}
	s.held[strings.Clone(id)] = true
	return nil
}

// TestRefusedInserts: a document whose insert was refused does not count as written, and is
// inserted by the next insert.
func TestRefusedInserts(t *testing.T) {
	s := &reluctant{held: make(map[string]bool)}
	l := newLoop(t, "insert", 10, s)
	front := newFrontier(10)
	w := l.newWorker(0, l.Store, front, newCounters(1, l.Workload.Mix, false, false))
	w.run(t.Context(), new(atomic.Bool), 99) // the last one is refused
	done := front.done.Load()
	if done != 76 || len(s.held) != 66 {
		t.Errorf("all documents up to %d, want 76; %d are there", done, len(s.held))
	}
	for i := int64(10); i < done; i++ {
		if id := string(l.Documents.AppendID(nil, i)); !s.held[id] {
			t.Errorf("document %d, %s, counts and is not there", i, id)
		}
	}
	if next := front.take(); next != 76 {
		t.Errorf("after the refused insert comes document %d", next)
	}
}

// TestGoneIsForgotten: an operation that fails does not make the next one count as one on a document
// that has expired.
func TestGoneIsForgotten(t *testing.T) {
	l := newLoop(t, "ycsb-f", 10, wrong{err: ErrNotFound})
	l.Expiring = true
	w := l.newWorker(0, l.Store, newFrontier(10), newCounters(1, l.Workload.Mix, false, false))
	if err := w.modify(t.Context(), 0); err == nil || w.gone {
		t.Errorf("the write fails: %v; gone %t", err, w.gone)
	}
}

func BenchmarkClient(b *testing.B) {
	for _, name := range []string{"read", "put", "ycsb-b"} {
		b.Run(name, func(b *testing.B) {
			l := newLoop(b, name, 1_000_000, nothing{})
			w := l.newWorker(0, l.Store, newFrontier(1_000_000), newCounters(1, l.Workload.Mix, false, false))
			b.ReportAllocs()
			b.ResetTimer()
			w.run(context.Background(), new(atomic.Bool), int64(b.N))
		})
	}
}
