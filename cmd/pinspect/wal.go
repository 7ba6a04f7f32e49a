package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

type walCommand struct {
	target
	Records bool `help:"List every record."`
}

// Help returns the long help text.
func (*walCommand) Help() string {
	return `Shows the files of the log, then the streams: one for each physical partition, stream 0 for records about the log itself. "marked" is the offset up to which the file is known to be synced. What lies behind the last good record of the newest file is the torn end of a write that a crash cut off, or a write that is under way; it is no damage unless it lies below the mark, or the file is shorter than it was made. The next open drops it; "dropped" is what an earlier one has. A file that others with records follow has to end with a seal.

Examples:
  pinspect wal DIR
  pinspect wal DIR --records
  pinspect wal DIR --json | jq 'select(.type=="log_file") | {file, records, torn_bytes}'`
}

// logRow is a file of the log.
type logRow struct {
	header
	File         string           `json:"file"`
	Number       uint64           `json:"number"`
	State        string           `json:"state"` // sealed, closed, growing, torn, empty, released, damaged
	Bytes        int64            `json:"bytes"`
	Length       int64            `json:"length_bytes"` // up to the end of the last good record
	Noted        *int64           `json:"noted_length_bytes,omitempty"`
	Mark         int64            `json:"synced_up_to_offset"`
	Records      int64            `json:"records"`
	Types        map[string]int64 `json:"records_by_type"`
	PayloadBytes int64            `json:"payload_bytes"`
	MinSeq       uint64           `json:"min_seq"`
	MaxSeq       uint64           `json:"max_seq"`
	TornBytes    int64            `json:"torn_bytes"`
	TornReason   string           `json:"torn_reason,omitempty"`
	Dropped      *wal.Dropped     `json:"dropped,omitempty"` // behind the noted length, by an earlier open
	Problem      *layout.Finding  `json:"problem,omitempty"`

	sealed, vouches bool
}

// streamRow is a stream of the log.
type streamRow struct {
	header
	Stream       wal.Stream `json:"stream"`
	Container    string     `json:"container,omitempty"`
	Dropped      bool       `json:"dropped,omitempty"` // the partition does not exist any more
	Records      int64      `json:"records"`
	Operations   int64      `json:"operations"` // of write records
	Carried      int64      `json:"carried_records"`
	PayloadBytes int64      `json:"payload_bytes"`
	MinSeq       uint64     `json:"min_seq"`
	MaxSeq       uint64     `json:"max_seq"`
	FlushedSeq   uint64     `json:"flushed_seq"`
	Unflushed    bool       `json:"unflushed"` // the log holds what no segment file does
}

// recordRow is a record of the log.
type recordRow struct {
	header
	File    string     `json:"file"`
	Offset  int64      `json:"offset"`
	Kind    string     `json:"kind"`
	Stream  wal.Stream `json:"stream"`
	Seq     uint64     `json:"seq"`
	Count   uint32     `json:"count"`
	Bytes   int        `json:"payload_bytes"`
	Vouched bool       `json:"vouched"` // known durable from what precedes it
}

// Run runs the command.
func (c *walCommand) Run(ctx context.Context, out *output) error {
	f, err := layout.Open(c.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := f.ReadLayout(ctx, layout.ManifestsOnly, nil)
	if err != nil {
		return err
	}
	numbers, err := logFiles(f)
	if err != nil {
		return err
	}
	w := &logView{files: f, layout: l, out: out, listRecords: c.Records, json: c.JSON, streams: make(map[wal.Stream]*streamRow)}
	for _, n := range numbers {
		if err = w.read(ctx, n, 0); err != nil {
			return err
		}
	}
	if err = w.unsealed(ctx); err != nil {
		return err
	}
	w.missing(numbers)
	if c.JSON {
		err = w.printJSON()
	} else {
		w.print()
	}
	if err != nil {
		return err
	}
	for i := range w.rows {
		if w.rows[i].Problem != nil {
			return errFound
		}
	}
	return nil
}

// logFiles returns the numbers of the log files, ascending.
func logFiles(f *layout.Files) ([]uint64, error) {
	bases, err := f.FS.List(manifest.LogDir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, base := range bases {
		if n, ok := wal.ParseFileName(base); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// logView is what the command wal found.
type logView struct {
	files       *layout.Files
	layout      *layout.Store
	out         *output
	listRecords bool
	json        bool

	rows    []logRow
	streams map[wal.Stream]*streamRow
}

// checkEvery is the number of records between two looks at the context.
const checkEvery = 1024

// read reads a log file. One that is gone was let go by the writer, unless the
// newest manifest wants it. The first records of the file, so many, were taken into account before.
func (w *logView) read(ctx context.Context, n uint64, before int64) error {
	name := path.Join(manifest.LogDir, wal.FileName(n))
	row := logRow{header: newHeader("log_file"), File: name, Number: n, Types: make(map[string]int64)}
	noted := notedLength(&w.layout.State, n)
	if noted >= 0 {
		row.Noted = &noted
	}
	info, err := wal.ReadFile(w.files.FS, manifest.LogDir, n, noted, func(rec *wal.Record) error {
		row.Records++
		if row.Records%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return w.record(&row, rec, row.Records <= before)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		state, _, stateErr := w.files.LoadStore(ctx)
		if stateErr != nil {
			return stateErr
		}
		if errors.Is(err, engine.ErrMissing) || errors.Is(err, wal.ErrRecycled) {
			if n < state.LogFirst {
				if row.Records > 0 { // its streams have them, and they may be listed
					row.Bytes, row.Length, row.Mark, row.State = info.Size, info.Length, info.Mark, "released"
					w.rows = append(w.rows, row)
				}
				return nil
			}
		} else if now := notedLength(&state, n); noted < 0 && now >= 0 {
			// The writer closed it: it may end there.
			w.layout.State.LogClosed = append(w.layout.State.LogClosed, wal.Closed{File: n, Length: now})
			return w.read(ctx, n, row.Records)
		}
	}
	if errors.Is(err, engine.ErrTooNew) {
		return err
	}
	if info != nil {
		row.Bytes, row.Length, row.Mark = info.Size, info.Length, info.Mark
		if info.Dropped != (wal.Dropped{}) {
			row.Dropped = &info.Dropped
		}
		row.TornBytes, row.TornReason, row.sealed, row.vouches = info.TornBytes, info.TornReason, info.Sealed, info.Vouches
		if row.Noted != nil && err == nil && info.Length != noted {
			err = &engine.CorruptionError{File: w.files.FS.Path(name), Offset: info.Length, Err: fmt.Errorf("the records end, but the manifest notes a length of %d", noted)}
		}
		if info.Header.StoreID != w.layout.State.StoreID && err == nil {
			err = &engine.CorruptionError{File: w.files.FS.Path(name), Offset: 32, Err: errors.New("log file of another store")}
		}
	}
	if err != nil {
		found := w.files.FindingOf(name, err)
		row.Problem = &found
	}
	row.State = w.state(&row)
	w.rows = append(w.rows, row)
	return nil
}

// notedLength returns the length that the manifest notes for a log file, or -1.
func notedLength(state *manifest.Store, n uint64) int64 {
	for _, c := range state.LogClosed {
		if c.File == n {
			return c.Length
		}
	}
	return -1
}

// state says in a word how a log file ends.
func (w *logView) state(row *logRow) string {
	switch {
	case row.Problem != nil:
		return "damaged"
	case row.Number < w.layout.State.LogFirst:
		return "released"
	case row.sealed:
		return "sealed"
	case row.Noted != nil:
		return "closed"
	case row.TornReason != "":
		return "torn"
	case row.Records == 0:
		return "empty"
	}
	return "growing"
}

// record takes a record into account, in its file alone if its stream has it already.
func (w *logView) record(row *logRow, rec *wal.Record, again bool) error {
	row.Types[rec.Type.String()]++
	row.PayloadBytes += int64(len(rec.Payload))
	if rec.Type == wal.TypeWrite || rec.Type == wal.TypeCarried {
		widen(&row.MinSeq, &row.MaxSeq, rec)
	}
	if again {
		return nil
	}
	s := w.streams[rec.Stream]
	if s == nil {
		s = w.newStream(rec.Stream)
		w.streams[rec.Stream] = s
	}
	s.Records++
	s.PayloadBytes += int64(len(rec.Payload))
	switch rec.Type {
	case wal.TypeWrite:
		s.Operations += int64(rec.Count)
		widen(&s.MinSeq, &s.MaxSeq, rec)
	case wal.TypeCarried:
		s.Carried++
		widen(&s.MinSeq, &s.MaxSeq, rec)
	}
	s.Unflushed = s.Unflushed || !s.Dropped && s.Stream != 0 && s.MaxSeq > s.FlushedSeq
	if !w.listRecords {
		return nil
	}
	if w.json {
		return w.out.object(&recordRow{
			header: newHeader("record"), File: row.File, Offset: rec.Offset, Kind: rec.Type.String(), Stream: rec.Stream,
			Seq: rec.Seq, Count: rec.Count, Bytes: len(rec.Payload), Vouched: rec.Vouched,
		})
	}
	if row.Records == 1 {
		w.out.printf("%s\n%14s  %-7s  %8s  %16s  %8s  %12s\n", row.File, "offset", "type", "stream", "sequence", "writes", "payload")
	}
	w.out.printf("%14s  %-7s  %8d  %16s  %8d  %12s\n", humanize.Count(rec.Offset), rec.Type, rec.Stream, humanize.Count(rec.Seq), rec.Count, humanize.Bytes(len(rec.Payload)))
	return nil
}

// widen makes a range of sequences include those of a record. Of a carried
// record only the highest one is known.
func widen(lo, hi *uint64, rec *wal.Record) {
	if *lo == 0 || rec.Seq < *lo {
		*lo = rec.Seq
	}
	*hi = max(*hi, rec.Last())
}

func (w *logView) newStream(id wal.Stream) *streamRow {
	s := &streamRow{header: newHeader("stream"), Stream: id, Dropped: id != 0}
	for _, c := range w.layout.Containers {
		for _, p := range c.Partitions {
			if wal.Stream(p.ID) == id {
				s.Container, s.FlushedSeq, s.Dropped = c.Name, p.Files.FlushedSeq, false
			}
			for _, in := range p.Files.Inherits {
				if wal.Stream(in.Stream) == id { // needed as far as the one that has flushed least
					if s.Dropped || in.FlushedSeq < s.FlushedSeq {
						s.FlushedSeq = in.FlushedSeq
					}
					s.Container, s.Dropped = c.Name, false
				}
			}
		}
	}
	return s
}

// unsealed looks for files that end without a seal although a later one is noted or has
// records that were synced: that is done after the files before it were sealed and
// synced. A writer may have sealed a file since it was read, so
// it is read again.
func (w *logView) unsealed(ctx context.Context) error {
	last := len(w.rows) - 1
	for last >= 0 && !w.rows[last].vouches {
		last--
	}
	for i := range max(last, 0) {
		row := &w.rows[i]
		if row.sealed || row.Noted != nil || row.Problem != nil || row.Number < w.layout.State.LogFirst {
			continue
		}
		info, err := wal.ReadFile(w.files.FS, manifest.LogDir, row.Number, -1, func(*wal.Record) error { return ctx.Err() })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && info.Sealed {
			continue
		}
		state, _, stateErr := w.files.LoadStore(ctx)
		if stateErr != nil {
			return stateErr
		}
		noted := slices.ContainsFunc(state.LogClosed, func(c wal.Closed) bool { return c.File == row.Number })
		if noted || row.Number < state.LogFirst {
			continue // another process opened the store, or let the file go
		}
		found := w.files.Finding(row.File, row.Length, "%s without a seal, but a later file vouches for it", cmp.Or(row.TornReason, "the records end"))
		row.Problem, row.State = &found, "damaged"
	}
	return nil
}

// missing adds the files that the manifest wants and that are not there.
func (w *logView) missing(numbers []uint64) {
	state := &w.layout.State
	want := make(map[uint64]bool)
	for _, c := range state.LogClosed {
		want[c.File] = c.File >= state.LogFirst
	}
	if len(numbers) > 0 && state.LogFirst > 0 {
		for n := state.LogFirst; n < numbers[len(numbers)-1]; n++ {
			if len(want) > maxMissing {
				break
			}
			want[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if !want[n] || slices.Contains(numbers, n) {
			continue
		}
		if layout.Replaced(w.files.StoreManifests(), w.layout.Generation) {
			return // let go meanwhile
		}
		name := path.Join(manifest.LogDir, wal.FileName(n))
		found := w.files.Finding(name, -1, "log file is missing")
		w.rows = append(w.rows, logRow{
			header: newHeader("log_file"), File: name, Number: n, State: "damaged", Types: map[string]int64{},
			Problem: &found,
		})
	}
	slices.SortFunc(w.rows, func(a, b logRow) int { return cmp.Compare(a.Number, b.Number) })
}

// maxMissing bounds how many missing files are listed.
const maxMissing = 1000
