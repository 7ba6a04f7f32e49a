package harness

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/humanize"
)

// Reshape is a split or merge of physical partitions that has ended.
type Reshape struct {
	Kind              string // split, merge or move
	Parents, Children []uint32
	Swapped           time.Time     // when the children took over; zero: they did not
	Settle, Prepare   time.Duration // before
	Commit, Pause     time.Duration
	Inherit           time.Duration // after
	Copied            int64         // bytes, before the children served
	Err               error
}

// SplitLog collects what a store tells of its splits. It is safe for concurrent
// use; a nil one is empty.
type SplitLog struct {
	mu    sync.Mutex
	ended []Reshape
}

// Note is called by the store.
func (l *SplitLog) Note(r Reshape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, r)
}

// After returns those that ended after the first n.
func (l *SplitLog) After(n int) []Reshape {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended[min(n, len(l.ended)):])
}

// SplitFigures describe a split, merge or move; times are in microseconds.
type SplitFigures struct {
	Kind        string   `json:"kind"`
	Repeat      int      `json:"repeat,omitempty"` // of a run, from 1
	AtS         float64  `json:"at_s"`             // of the cut, since the load or the measured part of the run began
	Parents     []uint32 `json:"parents"`
	Children    []uint32 `json:"children"`
	Settle      float64  `json:"settle_us"`  // before anything is made
	Prepare     float64  `json:"prepare_us"` // flushes and compactions of the parent wait
	Commit      float64  `json:"commit_us"`
	Pause       float64  `json:"pause_us"` // under the commit lock: writes to the parent wait
	Inherit     float64  `json:"inherit_us"`
	CopiedBytes int64    `json:"copied_bytes"` // before the children served
	Error       string   `json:"error,omitempty"`

	Before *WindowFigures `json:"before,omitempty"` // the minute before, or what the run has of it
	Around *WindowFigures `json:"around,omitempty"` // the second of the series with the cut in it
	After  *WindowFigures `json:"after,omitempty"`  // the minute after
}

// WindowFigures describe operations in a part of a run.
type WindowFigures struct {
	Seconds float64 `json:"seconds"`
	Ops     int64   `json:"ops"`
	Errors  int64   `json:"errors"`
	P999    float64 `json:"p999_us"`
}

// NewSplitFigures describes a reshape; times count from begun.
func NewSplitFigures(r Reshape, begun time.Time) SplitFigures {
	f := SplitFigures{
		Kind: r.Kind, Parents: r.Parents, Children: r.Children,
		Settle: Round(Micros(r.Settle), 1), Prepare: Round(Micros(r.Prepare), 1), Commit: Round(Micros(r.Commit), 1),
		Pause: Round(Micros(r.Pause), 1), Inherit: Round(Micros(r.Inherit), 1), CopiedBytes: r.Copied,
	}
	if !r.Swapped.IsZero() {
		f.AtS = Round(r.Swapped.Sub(begun).Seconds(), 3)
	}
	if r.Err != nil {
		f.Error = r.Err.Error()
	}
	return f
}

// SplitSummary describes the splits, merges and moves during a run or a load.
type SplitSummary struct {
	Count       int            `json:"count"`
	Failed      int            `json:"failed,omitempty"` // refused ones included
	PauseMedian float64        `json:"pause_p50_us"`
	PauseMax    float64        `json:"pause_max_us"`
	CopiedBytes int64          `json:"copied_bytes"`
	List        []SplitFigures `json:"list"`
}

// NewSplitSummary returns nil where there is nothing to tell.
func NewSplitSummary(list []SplitFigures) *SplitSummary {
	if len(list) == 0 {
		return nil
	}
	s := &SplitSummary{List: list}
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
		s.PauseMedian, s.PauseMax = Round(Median(pauses), 1), slices.Max(pauses)
	}
	return s
}

// listedSplits is up to how many splits are printed one by one.
const listedSplits = 8

// Print writes what happened as lines.
func (s *SplitSummary) Print(w io.Writer) {
	if s == nil {
		return
	}
	done := slices.DeleteFunc(slices.Clone(s.List), func(f SplitFigures) bool { return f.Error != "" })
	if len(done) > 0 {
		fmt.Fprintf(w, "  splits   %s; writes to the partition held up for %s µs (p50), %s µs (max); %s copied before the children served\n",
			humanize.Count(s.Count), FormatMicros(s.PauseMedian), FormatMicros(s.PauseMax), humanize.Bytes(s.CopiedBytes))
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
			fmt.Fprintf(w, "  refused  %s: %s\n", Plural(n, "split"), f.Error)
			delete(reasons, f.Error)
		}
	}
}

// String tells of a split in a line.
func (f *SplitFigures) String() string {
	text := fmt.Sprintf("%s of %s at %s s: prepare %s, commit %s, pause %s, inherit %s µs", f.Kind, Joined(f.Parents), humanize.Number(f.AtS),
		FormatMicros(f.Prepare), FormatMicros(f.Commit), FormatMicros(f.Pause), FormatMicros(f.Inherit))
	if f.Before != nil && f.Around != nil && f.After != nil {
		text += fmt.Sprintf("; p99.9 %s ms in the %s s before, %s in its second, %s in the %s s after; %s failed",
			FormatMillis(f.Before.P999), humanize.Number(f.Before.Seconds), FormatMillis(f.Around.P999), FormatMillis(f.After.P999),
			humanize.Number(f.After.Seconds), humanize.Count(f.Around.Errors+f.After.Errors))
	}
	return text
}

// Joined returns partitions as "P1+P2".
func Joined(ids []uint32) (text string) {
	for i, id := range ids {
		if i > 0 {
			text += "+"
		}
		text += fmt.Sprintf("P%d", id)
	}
	return text
}

// live tells of splits in the line of a progress, "" if there were none.
func (l *SplitLog) live() string {
	n, longest := 0, time.Duration(0)
	for _, r := range l.After(0) {
		if r.Err == nil {
			n++
			longest = max(longest, r.Pause)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  splits %s (pause at most %s µs)", humanize.Count(n), FormatMicros(Micros(longest)))
}

// Summary describes what the log has; nil: nothing.
func (l *SplitLog) Summary(begun time.Time) *SplitSummary {
	var list []SplitFigures
	for _, r := range l.After(0) {
		list = append(list, NewSplitFigures(r, begun))
	}
	return NewSplitSummary(list)
}
