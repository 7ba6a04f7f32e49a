package engine

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// timings are the histograms of a store.
type timings struct {
	calls    latency.Calls
	flushes  latency.Recorder
	rewrites [len(rewriteKinds)]latency.Recorder
	pauses   [splitter.Install + 1]latency.Recorder

	reshaping atomic.Int32 // reshapes under way
}

// rewriteKinds are the kinds of compactions in metrics.
var rewriteKinds = [...]string{"compaction", "trim", "index"}

// SlowCallEvent tells of a call that took longer than Options.SlowCall.
type SlowCallEvent struct {
	Call      string      // "read", "query", "scan", "write", "batch" or "transaction"
	Container string      // its name
	Partition PartitionID // the physical partition; 0: several, or none that is known
	EPK       string      // hash of the partition key, hexadecimal; empty: several keys, or none that is known
	// Duration of the call: of scans and queries without the body of the loop, of
	// transactions with their function and its reruns.
	Duration time.Duration
	// Parts of Duration, as far as they are known: a scan that waited because it was
	// throttled, a write that waited for memory or compactions, for the commit lock of the
	// partition, and for the log to be written and synced. Of a transaction they are those
	// of its last try. What is left of a read or scan is mostly files that were not in
	// memory.
	Throttled, Stalled, Locked, Log time.Duration
	Err                             error // of the call; nil: it did its work
}

// waits says what a call has waited for.
type waits struct{ throttled, stalled, locked, log time.Duration }

// timed begins to time a call of a kind that is timed now and then. Zero: it is not timed.
func (db *DB) timed(kind latency.Call, draw uint32) stopwatch {
	if !db.times.calls.Timed(kind, draw) {
		return stopwatch{}
	}
	return stopwatch{begun: db.opts.elapsed(), runs: true}
}

// stopwatch times a call. The zero stopwatch does not run.
type stopwatch struct {
	begun time.Duration
	runs  bool
}

// start begins to time a call that is always timed.
func (db *DB) start() stopwatch { return stopwatch{begun: db.opts.elapsed(), runs: true} }

// ended notes the end of a call. p and epk are nil if it concerned several partitions or keys.
func (c *Container) ended(kind latency.Call, w stopwatch, p *partition, epk *partmap.EPK, on waits, err error) {
	if w.runs {
		c.took(kind, c.db.opts.elapsed()-w.begun, p, epk, on, err)
	}
}

// took is ended for a call that took so long.
func (c *Container) took(kind latency.Call, d time.Duration, p *partition, epk *partmap.EPK, on waits, err error) {
	calls := &c.db.times.calls
	slow := false
	if err == nil || err == ErrNotFound {
		slow = calls.Ended(kind, d)
	} else { // histograms would mix refusals with work
		slow = calls.Slow(kind, d)
	}
	if !slow {
		return
	}
	e := SlowCallEvent{
		Call: kind.String(), Container: c.name, Duration: d, Err: err,
		Throttled: on.throttled, Stalled: on.stalled, Locked: on.locked, Log: on.log,
	}
	if p != nil {
		e.Partition = p.ID
	}
	if epk != nil {
		e.EPK = epk.String()
	}
	notify(c.db, c.db.opts.Events.SlowCall, e)
}

// waiting begins to time a wait, if slow calls are told.
func (db *DB) waiting() time.Duration {
	if db.opts.SlowCall == 0 {
		return 0
	}
	return db.opts.elapsed()
}

// waited adds the time since waiting.
func (db *DB) waited(since time.Duration, d *time.Duration) {
	if db.opts.SlowCall != 0 {
		*d += db.opts.elapsed() - since
	}
}

// showTimed is show, which adds its time to what a call has waited for.
func (p *partition) showTimed(w physical.Record, on *waits) error {
	since := p.db.waiting()
	err := p.Show(w)
	p.db.waited(since, &on.log)
	return err
}

// without returns show, which adds to body how long each call takes.
func (db *DB) without(show func(*exec.Row) bool, body *time.Duration) func(*exec.Row) bool {
	return func(row *exec.Row) bool {
		since := db.opts.elapsed()
		more := show(row)
		*body += db.opts.elapsed() - since
		return more
	}
}

// Elapsed is the clock of scans that are timed.
func (h *host) Elapsed() time.Duration { return h.db.opts.elapsed() }

// Scanned notes that a scan has ended that was timed.
func (h *host) Scanned(pk PartitionKey, took, throttled time.Duration, err error) {
	c := h.container()
	if !pk.Valid() {
		c.took(latency.Scan, took, nil, nil, waits{throttled: throttled}, err)
		return
	}
	epk := pk.EPK()
	rt := c.routing.Load()
	c.took(latency.Scan, took, rt.parts[rt.table.Find(&epk)], &epk, waits{throttled: throttled}, err)
}
