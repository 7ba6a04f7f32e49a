package wal

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// unsettled are the options of a reader beside a writer.
func unsettled(seed uint64) Options {
	o := smallOptions(seed)
	o.Unsettled = true
	return o
}

// writeFiles appends records until there are that many files, and syncs none of them.
func writeFiles(t *testing.T, l *Log, files int) (all []entry) {
	t.Helper()
	for l.Stats().Files < files {
		e, pos := put(t, l, 1, filler(len(all), 9<<10))
		must(t, l.Wait(pos, false))
		all = append(all, e)
	}
	return all
}

// TestUnsettled recovers a log of several files, none of them synced, beside its writer. What
// Recover delivers is there after a power cut, whichever of its syncs fails.
func TestUnsettled(t *testing.T) {
	const files = 3
	for fails := range files + 1 {
		mem, st := newMem(t), State{}
		l, _ := mustOpen(t, mem, &st, smallOptions(1))
		all := writeFiles(t, l, files)
		faulty := vfs.NewFaulty(mem)
		syncs := 0
		faulty.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpSync {
				if syncs++; syncs == fails {
					return syscall.EIO
				}
			}
			return nil
		})
		got, rec := mustReplay(t, faulty, st, unsettled(2))
		wantEntries(t, got, all[:len(got)])
		if whole := len(got) == len(all); whole != (fails == 0) || whole != (rec.Dropped == Dropped{}) {
			t.Errorf("sync %d fails: %d of %d records, dropped %+v", fails, len(got), len(all), rec.Dropped)
		}
		if fails > 0 && (rec.TornFile != uint64(fails) || !strings.Contains(rec.TornReason, "synced") || rec.Dropped.Records < int64(len(all)-len(got))) {
			t.Errorf("sync %d fails: file %d, %q, dropped %+v of %d", fails, rec.TornFile, rec.TornReason, rec.Dropped, len(all)-len(got))
		}
		after := mem.Crash(vfs.CrashOptions{})
		lasting, _ := mustReplay(t, after, st, smallOptions(2))
		wantEntries(t, lasting[:min(len(got), len(lasting))], got)
	}
}

// advisedFS calls advised before advice about a log file.
type advisedFS struct {
	vfs.FS
	advised func()
}

type advisedFile struct {
	vfs.File
	fs *advisedFS
}

func (a *advisedFS) Open(name string) (vfs.File, error) {
	f, err := a.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return advisedFile{f, a}, nil
}

func (f advisedFile) Advise(off, n int64, advice vfs.Advice) {
	f.fs.advised()
	f.File.Advise(off, n, advice)
}

// TestUnsettledBesideWriter: records that come after the sync of the reader are left out,
// and delivered the next time.
func TestUnsettledBesideWriter(t *testing.T) {
	for _, files := range []int{1, 2} { // the writer stays in its file, or goes on to the next
		mem, st := newMem(t), State{}
		l, _ := mustOpen(t, mem, &st, smallOptions(1))
		first, pos := put(t, l, 1, "first")
		must(t, l.Wait(pos, false))
		var more []entry
		beside := &advisedFS{FS: mem, advised: func() {
			if more == nil {
				e, pos := put(t, l, 1, "second")
				must(t, l.Wait(pos, false))
				more = append([]entry{e}, writeFiles(t, l, files)...)
			}
		}}
		got, rec := mustReplay(t, beside, st, unsettled(2))
		wantEntries(t, got, []entry{first})
		if rec.TornFile != 0 || rec.Dropped != (Dropped{}) {
			t.Errorf("%d files: torn %d, dropped %+v", files, rec.TornFile, rec.Dropped)
		}
		lasting, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, smallOptions(2))
		wantEntries(t, lasting, got)
		got, _ = mustReplay(t, beside, st, unsettled(2))
		wantEntries(t, got, append([]entry{first}, more...))
	}
}

// appearing shows the files of mem, in which the first log file becomes appears when a reader is behind the header, the
// records and the search beyond them. reads counts the reads.
func appearing(mem *vfs.Mem, appears []byte) (faulty *vfs.Faulty, reads *int) {
	faulty, reads = vfs.NewFaulty(mem), new(int)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead {
			if *reads++; *reads == 3 {
				return mem.WriteFile(name(1), appears)
			}
		}
		return nil
	})
	return faulty, reads
}

// TestRecoverWhileWriting: behind the place where a reader found no record, records appear
// that vouch for it. If the record is there at a second look the reader goes on; if it is
// not, that is damage.
func TestRecoverWhileWriting(t *testing.T) {
	mem, st, o := newMem(t), State{}, smallOptions(1)
	o.FirstFileBytes, o.MaxFileBytes = 1<<20, 1<<20 // the search beyond reads anew: the window is smaller
	l, _ := mustOpen(t, mem, &st, o)
	var all []entry
	write := func(n int) {
		for range n {
			e, pos := put(t, l, 1, filler(len(all), 40))
			all = append(all, e)
			must(t, l.Wait(pos, true))
		}
	}
	write(10)
	stop := l.mu.offset
	before, err := mem.ReadFile(name(1))
	must(t, err)
	before[stop+1024] = 1 // a page with data: the search goes through it
	write(5)
	after, err := mem.ReadFile(name(1))
	must(t, err)
	hole := slices.Concat(before[:stop+32], after[stop+32:])
	for _, o := range []Options{smallOptions(2), unsettled(2)} {
		for _, appears := range [][]byte{hole, after} {
			must(t, mem.WriteFile(name(1), before))
			faulty, reads := appearing(mem, appears)
			got, rec, err := replay(faulty, st, o)
			if *reads < 4 {
				t.Errorf("%d reads: the place was not looked at again", *reads)
			}
			if &appears[0] == &hole[0] {
				wantCorrupt(t, err, name(1), stop, "a hole")
				continue
			}
			must(t, err)
			wantEntries(t, got, all)
			if rec.TornFile != 0 || rec.Dropped != (Dropped{}) || rec.Closed[0].Length != l.mu.offset {
				t.Errorf("unsettled %v: %+v", o.Unsettled, rec)
			}
		}
	}
}

// TestUnsettledWhileWriting: records that one write has put where a reader found the end are
// no torn write, though it meets those behind the first before it meets the first.
func TestUnsettledWhileWriting(t *testing.T) {
	mem, st, o := newMem(t), State{}, smallOptions(1)
	o.FirstFileBytes, o.MaxFileBytes = 1<<20, 1<<20 // the search beyond reads anew: the window is smaller
	l, _ := mustOpen(t, mem, &st, o)
	var all []entry
	write := func(n int) []byte {
		var last Position
		for range n {
			e, pos := put(t, l, 1, filler(len(all), 40))
			all, last = append(all, e), pos
		}
		must(t, l.Wait(last, false))
		data, err := mem.ReadFile(name(1))
		must(t, err)
		return data
	}
	write(10)
	must(t, l.Sync())
	stop := l.mu.offset
	before := write(0)
	before[stop+1024] = 1 // a page with data: the search goes through it
	after := write(5)
	must(t, mem.WriteFile(name(1), before))
	faulty, _ := appearing(mem, after)
	got, rec := mustReplay(t, faulty, st, unsettled(2))
	if wantEntries(t, got, all); rec.TornFile != 0 || rec.Dropped != (Dropped{}) {
		t.Errorf("torn file %d, %q, dropped %+v", rec.TornFile, rec.TornReason, rec.Dropped)
	}
	// The first record of a file that is about to be written to is half there.
	must(t, l.Rotate())
	write(1)
	whole, err := mem.ReadFile(name(2))
	must(t, err)
	half, empty := slices.Clone(whole), slices.Clone(whole)
	clear(half[fileHeaderBytes+8:])
	clear(empty[fileHeaderBytes:])
	must(t, mem.WriteFile(name(2), empty))
	reads := 0
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op != vfs.OpRead || !strings.HasSuffix(c.Name, FileName(2)) {
			return nil
		}
		switch reads++; reads {
		case 4: // the header, and no record; the header, and the first record
			return mem.WriteFile(name(2), half)
		case 5:
			return mem.WriteFile(name(2), whole)
		}
		return nil
	})
	got, rec = mustReplay(t, faulty, st, unsettled(2))
	if wantEntries(t, got, all[:len(all)-1]); reads != 5 || rec.TornFile != 0 || rec.Dropped != (Dropped{}) {
		t.Errorf("%d reads, torn file %d, %q, dropped %+v", reads, rec.TornFile, rec.TornReason, rec.Dropped)
	}
}

// TestUnsettledAfterLossOfMapped: a sync fails in a file that the writer writes to through
// memory. A reader beside him finds nothing of what was lost: pages that are mapped would stay
// in the cache.
func TestUnsettledAfterLossOfMapped(t *testing.T) {
	mem, st := newMem(t), State{}
	mem.SetMapped(true)
	faulty := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, faulty, &st, smallOptions(1))
	must(t, l.MakeSpare(t.Context()))
	all := writeFiles(t, l, 2)
	if l.write.at.file.memory == nil {
		t.Fatal("the file is not mapped")
	}
	must(t, l.Sync())
	_, pos := put(t, l, 1, "lost")
	must(t, l.Wait(pos, false))
	faulty.FailAt(faulty.Calls()+1, syscall.EIO, false)
	if err := l.Sync(); err == nil {
		t.Fatal("the sync did not fail")
	}
	got, _ := mustReplay(t, mem, st, unsettled(2))
	wantEntries(t, got, all)
}

// TestUnsettledRecycled: a file that gets another use when a reader has found its end, and is about to deliver its records, is not
// taken for one that has none: the log would go on behind a hole.
func TestUnsettledRecycled(t *testing.T) {
	mem, st, o := newMem(t), State{}, smallOptions(1)
	o.FirstFileBytes, o.MaxFileBytes = 1<<20, 1<<20 // the records are read anew: the window is smaller
	l, _ := mustOpen(t, mem, &st, o)
	all := writeFiles(t, l, 2)
	used, err := mem.ReadFile(name(1))
	must(t, err)
	clear(used[fileHeaderBytes:])
	faulty := vfs.NewFaulty(mem)
	begun := 0
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead && c.Name == name(1) && c.Off == fileHeaderBytes {
			if begun++; begun == 3 { // to find the end, once more behind the sync, and to deliver
				return mem.WriteFile(name(1), used)
			}
		}
		return nil
	})
	got, _, err := replay(faulty, st, unsettled(2))
	if err == nil || begun != 3 {
		t.Fatalf("%d of %d records, begun %d times: %v", len(got), len(all), begun, err)
	}
	wantCorrupt(t, err, name(1), fileHeaderBytes, "a file in another use")
}
