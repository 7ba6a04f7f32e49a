package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
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
	t := cli.NewTable("<file", "<state", "bytes", "used", "marked", "records", "write", "carried", "fence", "vouch", "seal", "<sequences", "<size")
	for i := range w.rows {
		r := &w.rows[i]
		t.Row(r.File, r.State, humanize.Bytes(r.Bytes), humanize.Bytes(r.Length), humanize.Bytes(r.Mark), humanize.Count(r.Records),
			humanize.Count(r.Types["write"]), humanize.Count(r.Types["carried"]), humanize.Count(r.Types["fence"]), humanize.Count(r.Types["vouch"]), humanize.Count(r.Types["seal"]),
			formatSpan(r.MinSeq, r.MaxSeq), chart.Bar(r.Bytes, largest, 10))
		switch {
		case r.Problem != nil:
			t.Row("  ! " + r.Problem.String())
		case r.State == "torn":
			t.Row(fmt.Sprintf("  torn at offset %d: %s; %s behind the last good record", r.Length, r.TornReason, humanize.Bytes(r.TornBytes)))
		}
		if r.Dropped != nil {
			t.Row(fmt.Sprintf("  dropped by an open: %s, %s", humanize.Bytes(r.Dropped.Bytes), humanize.Plural(r.Dropped.Records, "record", "records")))
		}
	}
	t.Print(w.out.w, "")
	if len(w.streams) == 0 {
		return
	}
	var most int64
	for _, s := range w.streams {
		most = max(most, s.PayloadBytes)
	}
	st := cli.NewTable("stream", "<container", "records", "writes", "carried", "payload", "<sequences", "flushed up to", "<", "<payload")
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
			flushed = humanize.Count(s.FlushedSeq)
		}
		st.Row(humanize.Count(uint64(s.Stream)), name, humanize.Count(s.Records), humanize.Count(s.Operations), humanize.Count(s.Carried),
			humanize.Bytes(s.PayloadBytes), formatSpan(s.MinSeq, s.MaxSeq), flushed, state, chart.Bar(s.PayloadBytes, most, 16))
	}
	w.out.printf("\n")
	st.Print(w.out.w, "")
}
