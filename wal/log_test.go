package wal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

func TestRoundTrip(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, got := mustOpen(t, fs, &st, o)
	wantEntries(t, got, nil)
	var want []entry
	for i, size := range []int{0, 1, 15, 16, 17, 31, 32, 33, 4000} {
		e, pos := put(t, l, Stream(i), filler(i, size))
		if e.seq != uint64(i+1) {
			t.Fatalf("sequence %d, want %d", e.seq, i+1)
		}
		want = append(want, e)
		must(t, l.Wait(pos, i%2 == 0))
		if l.Written() < pos || i%2 == 0 && l.Synced() < pos {
			t.Fatalf("after Wait: written %d, synced %d, want %d", l.Written(), l.Synced(), pos)
		}
	}
	seq, _, err := l.Append(3, TypeWrite, 5, []byte("head"), []byte("body"))
	must(t, err)
	want = append(want, entry{3, TypeWrite, seq, 5, "headbody"})
	_, at, err := l.AppendCarried(4, 30, []byte("carried"))
	must(t, err)
	want = append(want, entry{4, TypeCarried, 30, 0, "carried"})
	if at.File != 1 {
		t.Errorf("carried to %+v", at)
	}
	seq, _, err = l.Append(5, TypeFence, 0, nil, nil)
	must(t, err)
	want = append(want, entry{5, TypeFence, seq, 0, ""})
	if seq != 14 || l.LastSeq() != 14 {
		t.Errorf("fence at %d, last sequence %d, want 14", seq, l.LastSeq())
	}
	mustClose(t, l, &st)

	got, rec := mustReplay(t, fs, st, o)
	wantEntries(t, got, want)
	if rec.LastSeq != 30 || rec.Given != 14 || rec.NextFile != 2 || rec.TornFile != 0 || rec.Records != int64(len(want)) || rec.Begins() != 1 {
		t.Errorf("recovery %+v", rec)
	}
	if _, none := mustReplay(t, newMem(t), State{}, o); none.Begins() != none.NextFile {
		t.Errorf("an empty log begins with file %d, want %d", none.Begins(), none.NextFile)
	}
	// The note of Close protects all of the file; without it the records are the same.
	got, _ = mustReplay(t, fs, State{}, o)
	wantEntries(t, got, want)
}

// TestSealIsNotGiven: the end of a full file says its highest sequence, which the log has not given out if a carried
// record has it.
func TestSealIsNotGiven(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, fs, &st, o)
	put(t, l, 1, filler(1, 10))
	_, _, err := l.AppendCarried(4, 30, []byte("carried"))
	must(t, err)
	must(t, l.Rotate())
	mustClose(t, l, &st)
	if _, rec := mustReplay(t, fs, st, o); rec.LastSeq != 30 || rec.Given != 1 {
		t.Errorf("recovery %+v", rec)
	}
}

func TestRotationAndRestart(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(2), State{}
	var want []entry
	for run := range 4 {
		l, got := mustOpen(t, fs, &st, o)
		wantEntries(t, got, want)
		for i := range 200 {
			e, pos := put(t, l, Stream(i%3+1), filler(run*1000+i, i*7))
			want = append(want, e)
			if i%20 == 0 {
				must(t, l.Wait(pos, i%40 == 0))
			}
			if i%50 == 0 && run%2 == 0 {
				must(t, l.MakeSpare(context.Background()))
			}
		}
		if s := l.Stats(); s.Rotations == 0 || s.Made < s.Rotations+1 || s.Files < int(s.Rotations)+1 {
			t.Errorf("stats %+v", s)
		}
		mustClose(t, l, &st)
	}
	got, rec := mustReplay(t, fs, st, o)
	wantEntries(t, got, want)
	for i, f := range rec.Files {
		if f.Number != uint64(i+1) || rec.Closed[i] != (Closed{f.Number, f.Length}) {
			t.Errorf("file %d: %+v, %+v", i, f, rec.Closed[i])
		}
	}
}

// A record larger than a file gets a file of its size.
func TestLargeRecord(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(3), State{}
	o.MaxRecordBytes = 1 << 20
	l, _ := mustOpen(t, fs, &st, o)
	var want []entry
	for i, size := range []int{10, 1 << 20, 10, 300 << 10, minFileBytes, 0, 1 << 20} {
		if i == 3 {
			must(t, l.MakeSpare(context.Background())) // too small: it grows
		}
		e, _ := put(t, l, 1, filler(i, size))
		want = append(want, e)
	}
	if _, _, err := l.Append(1, TypeWrite, 1, make([]byte, 1), make([]byte, 1<<20)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, _, err := l.Append(1, TypeWrite, maxCount+1, nil, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many sequences: %v", err)
	}
	if _, _, err := l.Append(1, TypeSeal, 0, nil, nil); err == nil {
		t.Error("Append took a seal")
	}
	if l.LastSeq() != uint64(len(want)) {
		t.Errorf("refused records got sequences: %d", l.LastSeq())
	}
	mustClose(t, l, &st)
	o.MaxRecordBytes = 0
	got, _ := mustReplay(t, fs, st, o)
	wantEntries(t, got, want)
}

// Rotate leaves a complete file that can be let go of, and an empty one.
func TestRotate(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(11), State{}
	l, _ := mustOpen(t, fs, &st, o)
	must(t, l.Rotate())
	if s := l.Stats(); s.Rotations != 0 {
		t.Errorf("an empty file was sealed: %+v", s)
	}
	e, pos := put(t, l, 1, "a")
	must(t, l.Rotate())
	must(t, l.Rotate())
	if s := l.Stats(); s.Rotations != 1 || l.Synced() <= pos {
		t.Errorf("synced up to %d; %+v", l.Synced(), s)
	}
	crashed := fs.Crash(vfs.CrashOptions{})
	got, rec := mustReplay(t, crashed, st, o)
	wantEntries(t, got, []entry{e})
	if len(rec.Files) != 2 || rec.Files[1].Length != fileHeaderBytes {
		t.Errorf("files %+v", rec.Files)
	}
	if first := l.FirstNeeded(func(Stream, uint64) uint64 { return e.seq }); first != 2 {
		t.Errorf("first needed file %d, want 2", first)
	}
	e2, _ := put(t, l, 1, "b")
	mustClose(t, l, &st)
	if err := l.Rotate(); !errors.Is(err, ErrClosed) {
		t.Errorf("Rotate after Close: %v", err)
	}
	got, _ = mustReplay(t, fs, st, o)
	wantEntries(t, got, []entry{e, e2})
}

// Files go when no stream needs them, and only then.
func TestDrop(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(4), State{}
	l, _ := mustOpen(t, fs, &st, o)
	done := map[Stream]uint64{}
	doneTo := func(s Stream, _ uint64) uint64 { return done[s] }
	var all []entry
	fill := func(files int64) {
		t.Helper()
		for until := l.Stats().Rotations + files; l.Stats().Rotations < until; {
			// Stream 9 writes a record now and then, the others all the time.
			s := Stream(len(all)%3 + 1)
			if len(all)%100 == 0 {
				s = 9
			}
			e, pos := put(t, l, s, filler(len(all), 900))
			all = append(all, e)
			must(t, l.Wait(pos, false))
		}
		must(t, l.Sync()) // what is full is complete
	}
	fill(3)
	if first := l.FirstNeeded(doneTo); first != 1 {
		t.Fatalf("first needed file %d, want 1", first)
	}
	for s := Stream(1); s < 4; s++ {
		done[s] = l.LastSeq()
	}
	if first := l.FirstNeeded(doneTo); first != 1 {
		t.Fatalf("first needed file %d: stream 9 has not gone on", first)
	}
	if s := l.Oldest(); !slices.Equal(s, []Stream{9}) {
		t.Fatalf("oldest streams %d, want 9", s)
	}
	done[9] = 150 // its second record lies in file 2
	first := l.FirstNeeded(doneTo)
	if first < 2 {
		t.Fatalf("first needed file %d, want 2 or more", first)
	}
	must(t, l.Drop(first))
	if l.First() != first {
		t.Errorf("First is %d, want %d", l.First(), first)
	}
	st.First = first
	got, rec := mustReplay(t, fs, st, o)
	if !slices.Equal(got, all[len(all)-len(got):]) || got[0].seq < 100 || rec.First != first {
		t.Fatalf("%d records, from %v, first file %d", len(got), got[0], rec.First)
	}
	// A stream that is gone needs nothing.
	l.Forget(9)
	if len(l.Oldest()) > 0 {
		t.Error("a stream still holds a complete file")
	}
	first = l.FirstNeeded(doneTo)
	if active := uint64(l.Stats().Rotations + 1); first != active {
		t.Fatalf("first needed file %d, want the active one %d", first, active)
	}
	must(t, l.Drop(first))
	st.First = first
	names, err := fs.List(logDir)
	must(t, err)
	logs := slices.DeleteFunc(names, func(s string) bool { return !strings.HasSuffix(s, logSuffix) })
	if len(logs) == 0 || logs[0] != FileName(first) {
		t.Errorf("files %v, want %s first", logs, FileName(first))
	}
	st.Closed = nil
	mustClose(t, l, &st)
	// What was dropped is not missed; what is needed is.
	mustReplay(t, fs, st, o)
	st.First--
	if _, _, err := replay(fs, st, o); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("missing file: %v", err)
	}
}

// The files of earlier runs pin the streams that have records in them.
func TestDropAfterRestart(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(5), State{}
	for range 3 {
		l, _ := mustOpen(t, fs, &st, o)
		put(t, l, 1, "a")
		put(t, l, 2, "b")
		mustClose(t, l, &st)
	}
	l, _ := mustOpen(t, fs, &st, o)
	nothing := func(Stream, uint64) uint64 { return 0 }
	if first := l.FirstNeeded(nothing); first != 1 {
		t.Errorf("first needed %d, want 1", first)
	}
	upTo := func(n uint64) func(Stream, uint64) uint64 { return func(Stream, uint64) uint64 { return n } }
	if first := l.FirstNeeded(upTo(3)); first != 2 {
		t.Errorf("first needed %d, want 2", first)
	}
	if first := l.FirstNeeded(upTo(6)); first != 4 {
		t.Errorf("first needed %d, want 4", first)
	}
	must(t, l.Drop(4))
	if s := l.Stats(); s.Files != 1 {
		t.Errorf("%d files, want 1", s.Files)
	}
	// Drop never takes the file that takes records.
	must(t, l.Drop(9))
	put(t, l, 1, "c")
	if first := l.First(); first != 4 {
		t.Errorf("first %d, want 4", first)
	}
}

// Retired files are used again while synced writes come; a record of the
// earlier use never comes back.
func TestRecycling(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(6), State{}
	o.KeepSpareBytes = 10 * minFileBytes
	seen := int64(0)
	var last uint64
	for run := range 3 {
		l, _ := mustOpen(t, fs, &st, o)
		for i := range 300 {
			e, pos := put(t, l, 1, filler(run*1000+i, 1500))
			must(t, l.Wait(pos, true))
			if first := l.FirstNeeded(func(Stream, uint64) uint64 { return e.seq }); first > st.First {
				st.First = first
				must(t, l.Drop(first))
			}
			last = e.seq
			if i%10 == 0 {
				got, rec := mustReplay(t, fs, st, o)
				if got[len(got)-1] != e || rec.TornFile != 0 {
					t.Fatalf("run %d: the last of %d records is %v, want %v; %+v", run, len(got), got[len(got)-1], e, rec)
				}
			}
		}
		seen += l.Stats().Recycled
		mustClose(t, l, &st)
		st.Closed = st.Closed[len(st.Closed)-1:]
		for _, closed := range []State{st, {First: st.First}} {
			got, rec := mustReplay(t, fs, closed, o)
			for i, e := range got {
				if e.seq != last-uint64(len(got)-1-i) {
					t.Fatalf("run %d: record %d of %d has sequence %d; the last is %d", run, i, len(got), e.seq, last)
				}
			}
			if rec.TornReason != "" {
				t.Fatalf("torn: %s", rec.TornReason)
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d files recycled", seen)
	}
}

// A file that has another name belongs to somebody else too: it is not used
// again and not cut.
func TestLinkedFile(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(7), State{}
	l, _ := mustOpen(t, fs, &st, o)
	must(t, fs.Link(logDir+"/"+FileName(1), logDir+"/kept"))
	var pos Position
	for i := range 100 {
		_, pos = put(t, l, 1, filler(i, 1500))
		must(t, l.Wait(pos, true))
	}
	kept, err := fs.ReadFile(logDir + "/kept")
	must(t, err)
	must(t, l.Drop(l.FirstNeeded(func(Stream, uint64) uint64 { return l.LastSeq() })))
	for i := range 100 {
		_, pos = put(t, l, 1, filler(i, 1500))
		must(t, l.Wait(pos, true))
	}
	now, err := fs.ReadFile(logDir + "/kept")
	must(t, err)
	if string(now) != string(kept) {
		t.Error("a linked file was used again")
	}
	active := l.Stats().Rotations + 1
	must(t, fs.Link(logDir+"/"+FileName(uint64(active)), logDir+"/kept2"))
	mustClose(t, l, &st)
	if info, err := fs.Stat(logDir + "/kept2"); err != nil || info.Size != minFileBytes {
		t.Errorf("linked file after Close: %+v, %v", info, err)
	}
}

func TestVouch(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(8), State{}
	l, _ := mustOpen(t, fs, &st, o)
	must(t, l.Vouch())
	if n := l.Stats().Records; n != 0 {
		t.Errorf("%d records: nothing was to be vouched for", n)
	}
	put(t, l, 1, "a")
	must(t, l.Vouch())
	must(t, l.Vouch())
	if n := l.Stats().Records; n != 2 {
		t.Errorf("%d records, want the write and one vouch", n)
	}
	if l.Synced() != l.Appended() {
		t.Error("Vouch did not sync")
	}
	vouched := map[Type]bool{}
	o.Unsettled = true
	_, err := Recover(context.Background(), fs, logDir, st, o, func(r *Record) error {
		vouched[r.Type] = r.Vouched
		return nil
	})
	must(t, err)
	if !vouched[TypeWrite] || vouched[TypeVouch] {
		t.Errorf("vouched for: %v", vouched)
	}
}

func TestClosed(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(9), State{}
	l, _ := mustOpen(t, fs, &st, o)
	_, pos := put(t, l, 1, "a")
	mustClose(t, l, &st)
	if _, _, err := l.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if _, err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	must(t, l.Wait(pos, true))
	must(t, l.Sync())
	must(t, l.MakeSpare(context.Background()))
	must(t, l.Vouch())
	if names := fs.Names(); len(names) != 1 {
		t.Errorf("files %v, want the log file only", names)
	}
}

// What a run left that did not end is cleaned up, and other files are not
// touched.
func TestAdopt(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(10), State{}
	l, _ := mustOpen(t, fs, &st, o)
	put(t, l, 1, "a")
	mustClose(t, l, &st)
	for _, base := range []string{FileName(7) + tempSuffix, "note", "1.log", "00000000a1.log"} {
		must(t, fs.WriteFile(logDir+"/"+base, []byte("x")))
	}
	must(t, fs.WriteFile(logDir+"/0001.spare", make([]byte, minFileBytes)))
	must(t, fs.WriteFile(logDir+"/0002.spare", make([]byte, 10)))
	l, _ = mustOpen(t, fs, &st, o)
	if n := l.Stats().Recycled; n != 1 {
		t.Errorf("%d files recycled, want the spare", n)
	}
	names, err := fs.List(logDir)
	must(t, err)
	if want := []string{FileName(1), FileName(2), "00000000a1.log", "1.log", "note"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}

func TestDefaults(t *testing.T) {
	fs, st := newMem(t), State{}
	l, _ := mustOpen(t, fs, &st, Options{})
	if info, err := fs.Stat(name(1)); err != nil || info.Size != 1<<20 {
		t.Errorf("first file: %+v, %v", info, err)
	}
	var pos Position
	for i := range 5 {
		_, pos = put(t, l, 1, filler(i, 1<<20))
	}
	// Much is unsynced: MakeSpare syncs ahead.
	must(t, l.MakeSpare(t.Context()))
	if l.Synced() < pos {
		t.Errorf("synced up to %d, want %d", l.Synced(), pos)
	}
	mustClose(t, l, &st)
	o := Options{MaxFileBytes: 1 << 40, FirstFileBytes: 1, MaxRecordBytes: 1 << 40}.withDefaults()
	if o.MaxFileBytes != maxFileBytes || o.FirstFileBytes != minFileBytes || o.MaxRecordBytes != maxPayload {
		t.Errorf("options %+v", o)
	}
	if a, b := randomID(), randomID(); a == b {
		t.Errorf("random numbers %d, %d", a, b)
	}
}

func TestFileNames(t *testing.T) {
	for _, n := range []uint64{1, 9999999999, 10000000000, 1<<64 - 1} {
		if got, ok := ParseFileName(FileName(n)); !ok || got != n {
			t.Errorf("%d: %d, %v", n, got, ok)
		}
	}
	for _, s := range []string{"", ".log", "1.log", "0000000000.log", "00000000001.log", "+000000001.log", "99999999999999999999.log", "0000000001.log.tmp"} {
		if n, ok := ParseFileName(s); ok {
			t.Errorf("%q is file %d", s, n)
		}
	}
}

func TestTypeString(t *testing.T) {
	for typ, want := range map[Type]string{TypeWrite: "write", TypeCarried: "carried", TypeFence: "fence", TypeVouch: "vouch", TypeSeal: "seal", 0: "type 0", 6: "type 6"} {
		if typ.String() != want {
			t.Errorf("%d is %q", uint8(typ), typ)
		}
	}
}

// TestCreateOfNothing: a log that is begun with the zero Recovery, and without a first sequence, is found by the next
// open.
func TestCreateOfNothing(t *testing.T) {
	fs, o := newMem(t), smallOptions(1)
	l, err := Create(fs, logDir, new(Recovery), 0, o)
	must(t, err)
	e, pos := put(t, l, 3, "x")
	must(t, l.Wait(pos, true))
	mustClose(t, l, new(State))
	got, rec := mustReplay(t, fs, State{}, o)
	wantEntries(t, got, []entry{e})
	if e.seq != 1 || rec.Begins() != 1 {
		t.Errorf("sequence %d, the log begins with file %d", e.seq, rec.Begins())
	}
}
