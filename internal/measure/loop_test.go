package measure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// Every workload does what its mix says on a store that checks nothing, and
// the same again with the same seed.
func TestLoop(t *testing.T) {
	for _, named := range workload.Workloads() {
		const n, operations = 300, 500
		first := int64(0)
		rounds := 1
		if named.Mix[workload.Read] == 1 {
			rounds = 2
		}
		for round := range rounds {
			l := newLoop(t, named.Name, n, newMemoryStore())
			fill(t, l)
			l.Workers, l.Limit, l.Seed, l.Memory = 3, operations, 7, new(Memory)
			if named.Mix.Writes() { // how long a warm-up is, is not known
				l.Warmup = time.Nanosecond
			}
			calls := 0
			l.Before = func() error { calls++; return nil }
			l.After = l.Before
			var last Progress
			l.Watch = func(p Progress) { last = p }
			o, err := l.Run(t.Context())
			if err != nil || o.Err != nil || o.Interrupted {
				t.Fatalf("%s: %v, %v, interrupted %v", named.Name, err, o.Err, o.Interrupted)
			}
			all := o.All()
			if all.Successes() != operations || all.Errors != 0 || calls != 2 || o.Elapsed <= 0 || o.Client <= 0 || o.Memory < all.Memory() {
				t.Errorf("%s: %d operations, %d errors, %d calls around: %+v", named.Name, all.Successes(), all.Errors, calls, o)
			}
			if last.WarmUp || !last.Done || last.Operations != operations || last.Part < 1 {
				t.Errorf("%s: the last progress is %+v", named.Name, last)
			}
			if named.Name == "partition" && all.Bytes < operations*800 {
				t.Errorf("%d bytes in %d partitions", all.Bytes, operations)
			}
			if o.Documents < n+o.Tallies[workload.Insert].Successes() {
				t.Errorf("%s: %d documents after %d inserts", named.Name, o.Documents, o.Tallies[workload.Insert].Successes())
			}
			var counts [workload.NumOps]int64
			for op := range counts {
				counts[op] = o.Tallies[op].Successes()
				if (counts[op] > 0) != (named.Mix[op] > 0) {
					t.Errorf("%s: %d of %v", named.Name, counts[op], workload.Op(op))
				}
			}
			if round == 0 {
				first = all.Bytes
			} else if first != all.Bytes {
				t.Errorf("%s: %d bytes, then %d", named.Name, first, all.Bytes)
			}
		}
	}
}

func TestLoopEnds(t *testing.T) {
	l := newLoop(t, "read", 10, nothing{})
	l.Duration = time.Millisecond
	if o, err := l.Run(t.Context()); err != nil || o.Interrupted || o.Elapsed < time.Millisecond {
		t.Errorf("%v: %+v", err, o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, warmup := range []time.Duration{0, time.Hour} {
		l.Duration, l.Warmup = 0, warmup
		if o, err := l.Run(ctx); err != nil || !o.Interrupted {
			t.Errorf("%v: %+v", err, o)
		}
	}
	refused := errors.New("refused")
	l.Limit, l.Warmup = 1, 0
	l.Before = func() error { return refused }
	if _, err := l.Run(t.Context()); err != refused {
		t.Error(err)
	}
	l.Before, l.After = nil, l.Before
	if _, err := l.Run(t.Context()); err != refused {
		t.Error(err)
	}
}

// A trace has every operation, in order.
func TestTrace(t *testing.T) {
	const n, operations = 50, 400
	l := newLoop(t, "ycsb-a", n, newMemoryStore())
	fill(t, l)
	l.Workers, l.Limit, l.Trace = 3, operations, new(Trace)
	o, err := l.Run(t.Context())
	if err != nil || o.Err != nil {
		t.Fatal(err, o.Err)
	}
	samples := l.Trace.Samples()
	var counts [workload.NumOps]int64
	for i, s := range samples {
		counts[s.Op]++
		if i > 0 && s.At.Before(samples[i-1].At) || s.Latency <= 0 {
			t.Fatalf("sample %d: %+v after %+v", i, s, samples[i-1])
		}
	}
	for op := range counts {
		if want := o.Tallies[op].Successes(); counts[op] != want {
			t.Errorf("%d samples of %v, want %d", counts[op], workload.Op(op), want)
		}
	}
	if len(samples) != operations {
		t.Errorf("%d samples of %d operations", len(samples), operations)
	}
}
