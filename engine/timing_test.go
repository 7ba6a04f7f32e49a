package engine

import (
	"bytes"
	"context"
	"errors"
	"runtime/trace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/metrics"
)

// tickingOptions are options of a store whose clock goes on by a millisecond at each
// reading, so that every call takes some time.
func tickingOptions(o *Options) *Options {
	var ticks atomic.Int64
	o.elapsed = func() time.Duration { return time.Duration(ticks.Add(1)) * time.Millisecond }
	return o
}

// callAll makes a call of each kind, and a second write.
func callAll(t *testing.T, c *Container) {
	ctx := context.Background()
	key := StringKey("b")
	must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)))
	b := c.NewBatch(key)
	must(t, b.Upsert([]byte(`{"id":"c","k":"b"}`), nil))
	must(t, second(c.Commit(ctx, b)))
	must(t, c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert([]byte(`{"id":"d","k":"b"}`), nil) }))
	must(t, second(c.Read(ctx, key, "a")))
	if _, err := c.Read(ctx, key, "none"); err != ErrNotFound {
		t.Fatal(err)
	}
	for _, err := range c.Scan(ctx, key, IDRange{}, nil) {
		must(t, err)
	}
	for _, err := range c.ScanAll(ctx, nil) {
		must(t, err)
	}
	for _, err := range c.Query(ctx, AllPartitions(), Query{}).All() {
		must(t, err)
	}
	must(t, c.Delete(ctx, key, "a", nil))
}

// openSlow opens a store in which all calls are slow. It adds them to got.
func openSlow(t *testing.T, got *[]SlowCallEvent) (*DB, *Container) {
	o := tickingOptions(testOptions(vfs.NewMem()))
	o.SlowCall = time.Microsecond
	o.Events = &EventListener{SlowCall: func(e SlowCallEvent) { *got = append(*got, e) }}
	return openStore(t, o)
}

// TestSlowCalls: each kind of call tells the listener when it is slow, with where it was
// and what it waited for; each is in its histogram once.
func TestSlowCalls(t *testing.T) {
	var got []SlowCallEvent
	db, c := openSlow(t, &got)
	callAll(t, c)
	if _, err := c.Create(context.Background(), []byte(`{"id":"c","k":"b"}`), nil); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	m := db.Metrics()
	must(t, db.Close()) // after it, all events have been told
	key := StringKey("b")
	epk := key.EPK()
	counts := make(map[string]int)
	refused := 0
	for _, e := range got {
		counts[e.Call]++
		if e.Container != "c" || e.Duration <= 0 {
			t.Errorf("%+v", e)
		}
		if wants := e.Call != "query" && e.Call != "scan" && e.Call != "transaction"; wants && (e.Partition == 0 || e.EPK != epk.String()) {
			t.Errorf("%+v: no partition, or not the EPK %s", e, &epk)
		}
		if sum := e.Throttled + e.Stalled + e.Locked + e.Log; sum > e.Duration {
			t.Errorf("%+v: waited longer than it took", e)
		}
		if e.Err != nil && e.Err != ErrNotFound {
			refused++
		} else if (e.Call == "write" || e.Call == "batch") && (e.Locked <= 0 || e.Log <= 0) {
			t.Errorf("%+v: nothing is known of its waits", e)
		}
	}
	want := map[string]int{"read": 2, "query": 1, "scan": 2, "write": 3, "batch": 1, "transaction": 1}
	for call, n := range want {
		if counts[call] != n {
			t.Errorf("%d events of %s, want %d", counts[call], call, n)
		}
		if slow, _ := m.Value("cleave_slow_calls_total", call); slow != float64(n) {
			t.Errorf("%v slow calls of %s, want %d", slow, call, n)
		}
		if call == "write" {
			n-- // the refused one
		}
		if h := m.Histogram("cleave_call_duration_seconds", call); h.Count != uint64(n) {
			t.Errorf("%d calls of %s are timed, want %d", h.Count, call, n)
		}
	}
	if refused != 1 {
		t.Errorf("%d refused calls were told", refused)
	}
}

// TestNoSlowCalls: without a threshold writes are all timed, the others now and then, and
// nobody is told. The body of a loop is not part of a call.
func TestNoSlowCalls(t *testing.T) {
	o := tickingOptions(testOptions(vfs.NewMem()))
	o.Events = &EventListener{SlowCall: func(e SlowCallEvent) { t.Errorf("%+v", e) }}
	db, c := openStore(t, o)
	ctx := context.Background()
	for range 200 {
		callAll(t, c)
	}
	for range 2000 {
		must(t, second(c.Read(ctx, StringKey("b"), "c")))
	}
	m := db.Metrics()
	for call, n := range map[string]uint64{"write": 400, "batch": 200, "transaction": 200} {
		if h := m.Histogram("cleave_call_duration_seconds", call); h.Count != n {
			t.Errorf("%s: %d timed, want %d", call, h.Count, n)
		}
	}
	for call, every := range map[string]uint64{"read": 32, "scan": 16, "query": 8} {
		if h := m.Histogram("cleave_call_duration_seconds", call); h.Count == 0 || h.Count%every != 0 {
			t.Errorf("%s: %d", call, h.Count)
		}
	}
	if n, _ := m.Value("cleave_scans_total"); n != 400 {
		t.Errorf("%v scans", n)
	}
	must(t, db.Close())
}

// TestTimingAllocates: the clock of a call takes no memory.
func TestTimingAllocates(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.SlowCall = time.Hour // every call is timed
	_, c := openStore(t, o)
	ctx := context.Background()
	must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)))
	buf := make([]byte, 0, 1<<10)
	key := StringKey("b")
	if n := testing.AllocsPerRun(100, func() { _, _ = c.ReadInto(ctx, key, "a", buf[:0]) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// TestMetricsOfSplits: pauses and results of reshapes.
func TestMetricsOfSplits(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, &Options{MemoryBudget: minMemoryBudget})
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"`+k+`"}`), nil)))
	}
	must(t, db.Flush(ctx))
	j, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, j.Wait(ctx))
	m := db.Metrics()
	if n, _ := m.Value("cleave_reshapes_total", "split", "done"); n != 1 {
		t.Errorf("%v splits", n)
	}
	for _, h := range []*metrics.Histogram{
		m.Histogram("cleave_reshape_pause_seconds", "split"), m.Histogram("cleave_flush_duration_seconds"), m.Histogram("cleave_log_sync_duration_seconds"),
	} {
		if h == nil || h.Count == 0 {
			t.Errorf("a histogram is empty: %+v", h)
		}
	}
	if n, _ := m.Value("cleave_container_partitions", "c"); n != 2 {
		t.Errorf("%v partitions", n)
	}
}

// TestTrace: a trace has a region for each kind of call, and a task for background work.
func TestTrace(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip(err) // the tests themselves are traced
	}
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	callAll(t, c)
	for _, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
		must(t, err)
	}
	must(t, db.Flush(ctx))
	must(t, second(c.Upsert(ctx, []byte(`{"id":"c","k":"b"}`), nil)))
	must(t, db.Compact(ctx))
	j, err := c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: "20"})
	must(t, err)
	must(t, j.Wait(ctx))
	trace.Stop()
	for _, name := range []string{"read", "scan", "query", "write", "batch", "transaction", "changes", "flush", "compaction", "split"} {
		if !bytes.Contains(b.Bytes(), []byte("cleave."+name)) {
			t.Errorf("the trace has no cleave.%s", name)
		}
	}
}

// TestSlowCallNotBegun: a transaction that does not begin tells of no key, and not of that of one before it.
func TestSlowCallNotBegun(t *testing.T) {
	var got []SlowCallEvent
	db, c := openSlow(t, &got)
	for range 10 {
		must(t, c.Update(t.Context(), StringKey("b"), func(*Tx) error { return nil }))
		if err := c.Update(t.Context(), PartitionKey{}, func(*Tx) error { return nil }); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	must(t, db.Close())
	if len(got) != 20 {
		t.Errorf("%d events", len(got))
	}
	for _, e := range got {
		if (e.Err == nil) != (e.EPK != "") {
			t.Errorf("%+v", e)
		}
	}
}
