package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
)

func newBenchmark(t testing.TB, name string, n int64) *benchmark {
	t.Helper()
	g, err := workload.NewGenerator(workload.Params{Shape: "food", LogicalPartitions: 100})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.FindWorkload(name)
	if err != nil {
		t.Fatal(err)
	}
	return &benchmark{workload: w, docs: newGenerated(g, n), c: nothing{}, workers: 1}
}

// What is measured must be the engine: the loop around it allocates nothing.
func TestClientAllocatesNothing(t *testing.T) {
	for _, name := range []string{"read", "put", "ycsb-a", "scan", "ycsb-f"} {
		b := newBenchmark(t, name, 10_000)
		w := b.newWorker(0, b.c, newFrontier(10_000))
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

// wrongBody is a container that answers with another document.
type wrongBody struct{ fakeContainer }

func (*wrongBody) Upsert(context.Context, []byte) error { return errors.New("refused") }

func TestWorkerNoticesErrors(t *testing.T) {
	b := newBenchmark(t, "ycsb-a", 10)
	c := &wrongBody{}
	c.s, c.readErr = newFakeStore(), errors.New("unreadable")
	w := b.newWorker(0, c, newFrontier(10))
	w.run(t.Context(), new(atomic.Bool), 100)
	if n := w.tallies[workload.Read].errors + w.tallies[workload.Update].errors; n != 100 || w.firstErr == nil {
		t.Errorf("%d errors, the first: %v", n, w.firstErr)
	}
	w = b.newWorker(0, c, newFrontier(10))
	w.run(t.Context(), new(atomic.Bool), 0)
	if n := w.tallies[workload.Read].errors + w.tallies[workload.Update].errors; n != hopeless {
		t.Errorf("gives up after %d errors", n)
	}
}

func BenchmarkClient(b *testing.B) {
	for _, name := range []string{"read", "put", "ycsb-b"} {
		b.Run(name, func(b *testing.B) {
			bench := newBenchmark(b, name, 1_000_000)
			w := bench.newWorker(0, bench.c, newFrontier(1_000_000))
			b.ReportAllocs()
			b.ResetTimer()
			w.run(context.Background(), new(atomic.Bool), int64(b.N))
		})
	}
}
