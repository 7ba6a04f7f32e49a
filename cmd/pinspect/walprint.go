package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// sortedStreams returns the streams by number.
func (w *logView) sortedStreams() []*streamRow {
	return slices.SortedFunc(maps.Values(w.streams), func(a, b *streamRow) int { return cmp.Compare(a.Stream, b.Stream) })
}

func (w *logView) printJSON() error {
	for i := range w.rows {
		if err := w.out.object(&w.rows[i]); err != nil {
			return err
		}
	}
	for _, s := range w.sortedStreams() {
		if err := w.out.object(s); err != nil {
			return err
		}
	}
	return nil
}

func (w *logView) print() {
	if w.listRecords {
		w.out.printf("\n")
	}
	if len(w.rows) == 0 {
		w.out.printf("the log is empty\n")
		return
	}
	var largest int64
	for i := range w.rows {
		largest = max(largest, w.rows[i].Bytes)
	}
	t := newTable("<file", "<state", "bytes", "used", "marked", "records", "write", "carried", "fence", "vouch", "seal", "<sequences", "<size")
	for i := range w.rows {
		r := &w.rows[i]
		t.row(r.File, r.State, formatBytes(r.Bytes), formatBytes(r.Length), formatBytes(r.Mark), formatCount(r.Records),
			formatCount(r.Types["write"]), formatCount(r.Types["carried"]), formatCount(r.Types["fence"]), formatCount(r.Types["vouch"]), formatCount(r.Types["seal"]),
			formatSpan(r.MinSeq, r.MaxSeq), bar(r.Bytes, largest, 10))
		switch {
		case r.Problem != nil:
			t.row("  ! " + r.Problem.String())
		case r.State == "torn":
			t.row(fmt.Sprintf("  torn at offset %d: %s; %s behind the last good record", r.Length, r.TornReason, formatBytes(r.TornBytes)))
		}
	}
	t.print(w.out.w, "")
	if len(w.streams) == 0 {
		return
	}
	var most int64
	for _, s := range w.streams {
		most = max(most, s.PayloadBytes)
	}
	st := newTable("stream", "<container", "records", "writes", "carried", "payload", "<sequences", "flushed up to", "<", "<payload")
	for _, s := range w.sortedStreams() {
		name, state := printable(s.Container), "flushed"
		switch {
		case s.Stream == 0:
			name, state = "(the log)", ""
		case s.Dropped:
			name, state = "(dropped)", ""
		case s.Unflushed:
			state = "needed"
		}
		flushed := "-"
		if s.Stream != 0 && !s.Dropped {
			flushed = formatCount(s.FlushedSeq)
		}
		st.row(formatCount(uint64(s.Stream)), name, formatCount(s.Records), formatCount(s.Operations), formatCount(s.Carried),
			formatBytes(s.PayloadBytes), formatSpan(s.MinSeq, s.MaxSeq), flushed, state, bar(s.PayloadBytes, most, 16))
	}
	w.out.printf("\n")
	st.print(w.out.w, "")
}
