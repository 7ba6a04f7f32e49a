package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
)

// reshape is a split or merge of physical partitions that has ended.
type reshape struct {
	kind              string // split, merge or move
	parents, children []uint32
	swapped           time.Time     // when the children took over; zero: they did not
	settle, prepare   time.Duration // before
	commit, pause     time.Duration
	inherit           time.Duration // after
	copied            int64         // bytes, before the children served
	err               error
}

// splitLog collects what a store tells of its splits. It is safe for concurrent
// use; a nil one is empty.
type splitLog struct {
	mu    sync.Mutex
	ended []reshape
}

// note is called by the store.
func (l *splitLog) note(r reshape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, r)
}

// after returns those that ended after the first n.
func (l *splitLog) after(n int) []reshape {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended[min(n, len(l.ended)):])
}

// splitFigures describe a split, merge or move; times are in microseconds.
type splitFigures struct {
	Kind        string   `json:"kind"`
	Repeat      int      `json:"repeat,omitempty"` // of a run, from 1
	AtS         float64  `json:"at_s"`             // of the cut, since the load or the measured part of the run began
	Parents     []uint32 `json:"parents"`
	Children    []uint32 `json:"children"`
	Settle      float64  `json:"settle_us"`  // before anything is made
	Prepare     float64  `json:"prepare_us"` // flushes and merges of the parent wait
	Commit      float64  `json:"commit_us"`
	Pause       float64  `json:"pause_us"` // under the commit lock: writes to the parent wait
	Inherit     float64  `json:"inherit_us"`
	CopiedBytes int64    `json:"copied_bytes"` // before the children served
	Error       string   `json:"error,omitempty"`

	Before *windowFigures `json:"before,omitempty"` // the minute before, or what the run has of it
	Around *windowFigures `json:"around,omitempty"` // the second of the series with the cut in it
	After  *windowFigures `json:"after,omitempty"`  // the minute after
}

// windowFigures describe operations in a part of a run.
type windowFigures struct {
	Seconds float64 `json:"seconds"`
	Ops     int64   `json:"ops"`
	Errors  int64   `json:"errors"`
	P999    float64 `json:"p999_us"`
}

func newSplitFigures(r reshape, begun time.Time) splitFigures {
	f := splitFigures{
		Kind: r.kind, Parents: r.parents, Children: r.children,
		Settle: round(micros(r.settle), 1), Prepare: round(micros(r.prepare), 1), Commit: round(micros(r.commit), 1),
		Pause: round(micros(r.pause), 1), Inherit: round(micros(r.inherit), 1), CopiedBytes: r.copied,
	}
	if !r.swapped.IsZero() {
		f.AtS = round(r.swapped.Sub(begun).Seconds(), 3)
	}
	if r.err != nil {
		f.Error = r.err.Error()
	}
	return f
}

// splitSummary describes the splits, merges and moves during a run or a load.
type splitSummary struct {
	Count       int            `json:"count"`
	Failed      int            `json:"failed,omitempty"` // refused ones included
	PauseMedian float64        `json:"pause_p50_us"`
	PauseMax    float64        `json:"pause_max_us"`
	CopiedBytes int64          `json:"copied_bytes"`
	List        []splitFigures `json:"list"`
}

// newSplitSummary returns nil where there is nothing to tell.
func newSplitSummary(list []splitFigures) *splitSummary {
	if len(list) == 0 {
		return nil
	}
	s := &splitSummary{List: list}
	var pauses []float64
	for _, f := range list {
		if f.Error != "" {
			s.Failed++
			continue
		}
		s.Count++
		s.CopiedBytes += f.CopiedBytes
		pauses = append(pauses, f.Pause)
	}
	if len(pauses) > 0 {
		slices.Sort(pauses)
		s.PauseMedian, s.PauseMax = pauses[len(pauses)/2], pauses[len(pauses)-1]
	}
	return s
}

// listedSplits is up to how many splits are printed one by one.
const listedSplits = 8

// print writes what happened as lines.
func (s *splitSummary) print(w io.Writer) {
	if s == nil {
		return
	}
	done := slices.DeleteFunc(slices.Clone(s.List), func(f splitFigures) bool { return f.Error != "" })
	if len(done) > 0 {
		fmt.Fprintf(w, "  splits   %s; writes to the partition held up for %s µs (p50), %s µs (max); %s copied before the children served\n",
			formatCount(s.Count), formatMicros(s.PauseMedian), formatMicros(s.PauseMax), formatBytes(s.CopiedBytes))
	}
	if len(done) <= listedSplits {
		for i := range done {
			fmt.Fprintf(w, "           %s\n", &done[i])
		}
	}
	reasons := make(map[string]int)
	for _, f := range s.List {
		if f.Error != "" {
			reasons[f.Error]++
		}
	}
	for _, f := range s.List {
		if n := reasons[f.Error]; n > 0 && f.Error != "" {
			fmt.Fprintf(w, "  refused  %s: %s\n", plural(n, "split"), f.Error)
			delete(reasons, f.Error)
		}
	}
}

// String tells of a split in a line.
func (f *splitFigures) String() string {
	text := fmt.Sprintf("%s of %s at %s s: prepare %s, commit %s, pause %s, inherit %s µs", f.Kind, joined(f.Parents), formatShort(f.AtS),
		formatMicros(f.Prepare), formatMicros(f.Commit), formatMicros(f.Pause), formatMicros(f.Inherit))
	if f.Before != nil && f.Around != nil && f.After != nil {
		text += fmt.Sprintf("; p99.9 %s ms in the %s s before, %s in its second, %s in the %s s after; %s failed",
			formatMillis(f.Before.P999), formatShort(f.Before.Seconds), formatMillis(f.Around.P999), formatMillis(f.After.P999),
			formatShort(f.After.Seconds), formatCount(f.Around.Errors+f.After.Errors))
	}
	return text
}

func joined(ids []uint32) (text string) {
	for i, id := range ids {
		if i > 0 {
			text += "+"
		}
		text += fmt.Sprintf("P%d", id)
	}
	return text
}

// window is how long before and after a cut is looked at.
const window = time.Minute

// splitWatch relates splits to the intervals of a run. It is for one goroutine.
type splitWatch struct {
	log    *splitLog
	seen   int // of the log
	repeat int
	begun  time.Time // of the repetition; zero: no interval yet
	slots  []slot    // the last ones
	open   []openSplit
	closed []splitFigures
	fresh  []splitFigures // since the last interval
}

// slot is what is kept of an interval.
type slot struct {
	start, end time.Time
	latencies  measure.Latencies
	errors     int64
}

// openSplit is one whose minute after is not over.
type openSplit struct {
	cut     time.Time
	figures splitFigures
}

func newSplitWatch(log *splitLog) *splitWatch { return &splitWatch{log: log, seen: len(log.after(0))} }

// begin notes that a repetition begins.
func (w *splitWatch) begin(repeat int) {
	w.settle()
	w.repeat, w.begun, w.slots = repeat, time.Time{}, nil
	w.seen = len(w.log.after(0)) // what happened in the warm-up is not told
}

// interval takes up an interval, and the splits that ended since the one before.
func (w *splitWatch) interval(i measure.Interval) {
	start := i.Now.Add(i.Start - i.Elapsed)
	if w.begun.IsZero() {
		w.begun = start.Add(-i.Start)
	}
	s := slot{start: start, end: i.Now}
	for op := range i.Tallies {
		s.errors += i.Tallies[op].Errors
		s.latencies.Add(i.Tallies[op].Latencies())
	}
	w.slots = append(w.slots, s)
	w.drain()
	w.open = slices.DeleteFunc(w.open, func(o openSplit) bool {
		if i.Now.Sub(o.cut) <= window+measure.SeriesEvery {
			return false
		}
		w.close(o)
		return true
	})
	w.slots = slices.DeleteFunc(w.slots, func(s slot) bool { return i.Now.Sub(s.end) > 2*window+10*measure.SeriesEvery })
}

// drain takes up what the log has.
func (w *splitWatch) drain() {
	w.fresh = nil
	for _, r := range w.log.after(w.seen) {
		w.seen++
		f := newSplitFigures(r, w.begun)
		f.Repeat = w.repeat
		w.fresh = append(w.fresh, f)
		if r.swapped.IsZero() {
			w.closed = append(w.closed, f)
		} else {
			w.open = append(w.open, openSplit{cut: r.swapped, figures: f})
		}
	}
}

// settle ends the looking.
func (w *splitWatch) settle() {
	if !w.begun.IsZero() {
		w.drain()
	}
	for _, o := range w.open {
		w.close(o)
	}
	w.open = nil
}

// close computes what the windows around a cut hold.
func (w *splitWatch) close(o openSplit) {
	at := slices.IndexFunc(w.slots, func(s slot) bool { return !o.cut.Before(s.start) && o.cut.Before(s.end) })
	if at >= 0 {
		first := slices.IndexFunc(w.slots, func(s slot) bool { return s.start.After(o.cut.Add(-window - measure.SeriesEvery)) })
		last := at + 1
		for last < len(w.slots) && w.slots[last].end.Before(o.cut.Add(window+measure.SeriesEvery)) {
			last++
		}
		o.figures.Before = newWindowFigures(w.slots[min(max(first, 0), at):at])
		o.figures.Around = newWindowFigures(w.slots[at : at+1])
		o.figures.After = newWindowFigures(w.slots[at+1 : last])
	}
	w.closed = append(w.closed, o.figures)
}

// newWindowFigures returns nil for no slots.
func newWindowFigures(slots []slot) *windowFigures {
	if len(slots) == 0 {
		return nil
	}
	f := new(windowFigures)
	var all measure.Latencies
	var d time.Duration
	for i := range slots {
		all.Add(&slots[i].latencies)
		f.Errors += slots[i].errors
		d += slots[i].end.Sub(slots[i].start)
	}
	f.Seconds, f.Ops, f.P999 = round(d.Seconds(), 1), all.Count(), all.Micros(99.9)
	return f
}

// summary returns what was seen, in the order of the cuts; nil: nothing.
func (w *splitWatch) summary() *splitSummary {
	slices.SortStableFunc(w.closed, func(a, b splitFigures) int {
		return cmp.Or(cmp.Compare(a.Repeat, b.Repeat), cmp.Compare(a.AtS, b.AtS))
	})
	return newSplitSummary(w.closed)
}

// live tells of splits in the line of a progress, "" if there were none.
func (l *splitLog) live() string {
	n, longest := 0, time.Duration(0)
	for _, r := range l.after(0) {
		if r.err == nil {
			n++
			longest = max(longest, r.pause)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  splits %s (pause at most %s µs)", formatCount(n), formatMicros(micros(longest)))
}

// summary describes what the log has; nil: nothing.
func (l *splitLog) summary(begun time.Time) *splitSummary {
	var list []splitFigures
	for _, r := range l.after(0) {
		list = append(list, newSplitFigures(r, begun))
	}
	return newSplitSummary(list)
}
