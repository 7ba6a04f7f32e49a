package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
)

// window is how long before and after a cut is looked at.
const window = time.Minute

// splitWatch relates splits to the intervals of a run. It is for one goroutine.
type splitWatch struct {
	log    *harness.SplitLog
	seen   int // of the log
	said   int // of the log, by untold
	repeat int
	begun  time.Time // of the repetition; zero: no interval yet
	slots  []slot    // the last ones
	open   []openSplit
	closed []harness.SplitFigures
	fresh  []harness.SplitFigures // since the last interval
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
	figures harness.SplitFigures
}

func newSplitWatch(log *harness.SplitLog) *splitWatch {
	return &splitWatch{log: log, seen: len(log.After(0)), said: len(log.After(0))}
}

// begin notes that a repetition begins.
func (w *splitWatch) begin(repeat int) {
	w.settle()
	w.repeat, w.begun, w.slots = repeat, time.Time{}, nil
	w.seen = len(w.log.After(0)) // what happened in the warm-up is not told
	w.said = w.seen
}

// untold returns the reshapes that ended since the last time, but for those of a warm-up.
func (w *splitWatch) untold() []harness.Reshape {
	list := w.log.After(w.said)
	w.said += len(list)
	return list
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
	for _, r := range w.log.After(w.seen) {
		w.seen++
		if !r.Swapped.IsZero() && r.Swapped.Before(w.begun) {
			continue // in the warm-up
		}
		f := harness.NewSplitFigures(r, w.begun)
		f.Repeat = w.repeat
		w.fresh = append(w.fresh, f)
		if r.Swapped.IsZero() {
			w.closed = append(w.closed, f)
		} else {
			w.open = append(w.open, openSplit{cut: r.Swapped, figures: f})
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
func newWindowFigures(slots []slot) *harness.WindowFigures {
	if len(slots) == 0 {
		return nil
	}
	f := new(harness.WindowFigures)
	var all measure.Latencies
	var d time.Duration
	for i := range slots {
		all.Add(&slots[i].latencies)
		f.Errors += slots[i].errors
		d += slots[i].end.Sub(slots[i].start)
	}
	f.Seconds, f.Ops, f.P999 = harness.Round(d.Seconds(), 1), all.Count(), all.Micros(99.9)
	return f
}

// summary returns what was seen, in the order of the cuts; nil: nothing.
func (w *splitWatch) summary() *harness.SplitSummary {
	slices.SortStableFunc(w.closed, func(a, b harness.SplitFigures) int {
		return cmp.Or(cmp.Compare(a.Repeat, b.Repeat), cmp.Compare(a.AtS, b.AtS))
	})
	return harness.NewSplitSummary(w.closed)
}
