package wal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestErrorAtEachCall makes each file-system call of a story fail in turn, once
// and from then on: what was promised is there, an error is never corruption,
// and after a failed write or sync the log takes nothing more.
func TestErrorAtEachCall(t *testing.T) {
	seed := randtest.Seed(t)
	for _, fails := range []struct {
		err    error
		sticky bool
		short  bool
	}{{syscall.EIO, false, false}, {syscall.ENOSPC, false, true}, {syscall.EMFILE, true, true}} {
		atEachCall(t, seed, 40,
			func(w *world, _ int64) { w.fs.SetShortWrite(fails.short) },
			func(_ *world, ago int64) error {
				if ago > 0 && !fails.sticky {
					return nil
				}
				return fails.err
			},
			func(*world) {})
	}
}

// onCall returns a Faulty whose calls of op fail with err while *on is set.
func onCall(fs vfs.FS, op vfs.Op, err error, on *bool) *vfs.Faulty {
	faulty := vfs.NewFaulty(fs)
	faulty.SetHook(func(c vfs.Call) error {
		if *on && c.Op == op {
			return err
		}
		return nil
	})
	return faulty
}

// TestFailedSync: all who wait learn that the outcome is unknown, nothing is
// synced or written again, and what was durable before stays acknowledged.
func TestFailedSync(t *testing.T) {
	mem, o, st, on := newMem(t), smallOptions(1), State{}, false
	fs := onCall(mem, vfs.OpSync, syscall.EIO, &on)
	l, _ := mustOpen(t, fs, &st, o)
	e, durable := put(t, l, 1, "durable")
	must(t, l.Wait(durable, true))
	_, lost := put(t, l, 1, "lost")
	on = true
	for range 2 {
		err := l.Wait(lost, true)
		var ioErr *fault.IOError
		if !errors.Is(err, fault.ErrOutcomeUnknown) || !errors.Is(err, fault.ErrIO) || !errors.As(err, &ioErr) || ioErr.File != "mem/log/"+FileName(1) {
			t.Fatalf("Wait: %v", err)
		}
		on = false // a second sync would succeed
	}
	calls := fs.Calls()
	if err := l.syncExtent(extent{l.mu.file, l.mu.offset, lost}); !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("sync of one who wrote before the failure: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("Sync: %v", err)
	}
	if _, _, err := l.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, fault.ErrFailed) || !errors.Is(err, fault.ErrIO) {
		t.Errorf("Append: %v", err)
	}
	if err := l.MakeSpare(t.Context()); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("MakeSpare: %v", err)
	}
	if err := l.Vouch(); !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("Vouch: %v", err)
	}
	if _, err := l.Close(); !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("Close: %v", err)
	}
	if n := fs.Calls() - calls; n != 0 {
		t.Errorf("%d calls after the failure", n)
	}
	must(t, l.Wait(durable, true))
	got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepAll}), st, o)
	wantEntries(t, got, []entry{e})
}

// TestFailedWrite: a write that fails halfway leaves a log that ends before it.
func TestFailedWrite(t *testing.T) {
	mem, o, st, on := newMem(t), smallOptions(1), State{}, false
	fs := onCall(mem, vfs.OpWrite, syscall.EIO, &on)
	fs.SetShortWrite(true)
	l, _ := mustOpen(t, fs, &st, o)
	e, durable := put(t, l, 1, "durable")
	must(t, l.Wait(durable, true))
	_, lost := put(t, l, 1, filler(1, 3000))
	on = true
	if err := l.Wait(lost, false); !errors.Is(err, fault.ErrOutcomeUnknown) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("Wait: %v", err)
	}
	on = false
	if err := l.Wait(lost, false); !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Fatalf("second Wait: %v", err)
	}
	if _, _, err := l.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("Append: %v", err)
	}
	got, rec := mustReplay(t, mem, st, o)
	wantEntries(t, got, []entry{e})
	if rec.TornFile != 1 || rec.TornBytes == 0 || rec.TornReason == "" {
		t.Errorf("recovery %+v", rec)
	}
}

// TestFailedDirectorySync: whether the name of the next file lasts is unknown,
// so the log has failed, but what is in the file before it can be made durable
// no more either.
func TestFailedDirectorySync(t *testing.T) {
	mem, o, st, on := newMem(t), smallOptions(1), State{}, false
	fs := onCall(mem, vfs.OpSyncDir, syscall.EIO, &on)
	l, _ := mustOpen(t, fs, &st, o)
	e, pos := put(t, l, 1, "durable")
	must(t, l.Wait(pos, true))
	on = true
	if err := l.MakeSpare(t.Context()); !errors.Is(err, fault.ErrFailed) {
		t.Fatalf("MakeSpare: %v", err)
	}
	if _, _, err := l.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("Append: %v", err)
	}
	if _, err := l.Close(); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	for keep := vfs.KeepNone; keep <= vfs.KeepAll; keep++ {
		got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{Keep: keep}), st, o)
		wantEntries(t, got, []entry{e})
	}
}

// TestDropError: what cannot be removed is left for the next call.
func TestDropError(t *testing.T) {
	mem, o, st, on := newMem(t), smallOptions(1), State{}, true
	fs := onCall(mem, vfs.OpRemove, syscall.EIO, &on)
	l, _ := mustOpen(t, fs, &st, o)
	for i := 0; l.Stats().Rotations < 4; i++ {
		_, pos := put(t, l, 1, filler(i, 3000))
		must(t, l.Wait(pos, false))
	}
	must(t, l.Sync())
	first := l.FirstNeeded(func(Stream, uint64) uint64 { return l.LastSeq() })
	if err := l.Drop(first); !errors.Is(err, fault.ErrIO) {
		t.Errorf("Drop: %v", err)
	}
	if l.First() != first || l.Stats().Files != 1 {
		t.Errorf("first file %d of %d, want %d", l.First(), l.Stats().Files, first)
	}
	on = false
	must(t, mem.Remove(name(4))) // one that somebody else removed
	must(t, l.Drop(first))
	if names := mem.Names(); len(names) != 1+maxSpares {
		t.Errorf("files %v", names)
	}
}

// TestDropPastError: a file that cannot be removed holds up no other one.
func TestDropPastError(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	fs := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, fs, &st, o)
	for i := 0; l.Stats().Rotations < 4; i++ {
		_, pos := put(t, l, 1, filler(i, 3000))
		must(t, l.Wait(pos, false))
	}
	must(t, l.Sync())
	fs.SetHook(func(c vfs.Call) error {
		if c.Name == name(1) && (c.Op == vfs.OpRename || c.Op == vfs.OpRemove) {
			return syscall.EIO
		}
		return nil
	})
	first := l.FirstNeeded(func(Stream, uint64) uint64 { return l.LastSeq() })
	if err := l.Drop(first); !errors.Is(err, fault.ErrIO) {
		t.Errorf("Drop: %v", err)
	}
	fs.SetHook(nil)
	for n := uint64(1); n < first; n++ {
		if stays := slices.Contains(mem.Names(), name(n)); stays != (n == 1) {
			t.Errorf("file %d of %d stays: %t", n, first, stays)
		}
	}
	must(t, l.Drop(first))
	if slices.Contains(mem.Names(), name(1)) {
		t.Error("the file stays where it can be removed")
	}
}

// TestDiskFull: a full disk refuses records for lack of the next file, changes
// nothing else, and once there is space again the log goes on.
func TestDiskFull(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	mem.SetCapacity(3*minFileBytes + 100)
	var want []entry
	var err error
	for i := 0; err == nil; i++ {
		var seq uint64
		payload := filler(i, 1000)
		if seq, _, err = l.Append(1, TypeWrite, 1, []byte(payload), nil); err == nil {
			want = append(want, entry{1, TypeWrite, seq, 1, payload})
		}
		must(t, l.Sync())
	}
	if !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrFailed) {
		t.Fatalf("Append on a full disk: %v", err)
	}
	if len(want) < 3*60 {
		t.Fatalf("%d records in three files", len(want))
	}
	if err := l.MakeSpare(t.Context()); !errors.Is(err, fault.ErrDiskFull) {
		t.Errorf("MakeSpare: %v", err)
	}
	for _, name := range mem.Names() {
		if _, ok := ParseFileName(name[len(logDir)+1:]); !ok {
			t.Errorf("%s was left", name)
		}
	}
	// What fits is taken: the rest of the file was reserved.
	e, pos := put(t, l, 1, "small")
	want = append(want, e)
	must(t, l.Wait(pos, true))
	got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
	wantEntries(t, got, want)
	// Space from the log itself is space again.
	st.First = l.FirstNeeded(func(Stream, uint64) uint64 { return 100 })
	must(t, l.Drop(st.First))
	e, pos = put(t, l, 1, filler(0, 1000))
	want = append(want, e)
	must(t, l.Wait(pos, true))
	mustClose(t, l, &st)
	got, _ = mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
	wantEntries(t, got, want[len(want)-len(got):])
}

// TestReadError: a read that fails is not corruption and not the end of the log.
func TestReadError(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	for i := range 200 {
		_, pos := put(t, l, 1, filler(i, 1000))
		must(t, l.Wait(pos, i%10 == 0))
	}
	want, _ := mustReplay(t, mem, st, o)
	for n := int64(1); ; n++ {
		fs := vfs.NewFaulty(mem)
		fs.FailAt(n, syscall.EIO, false)
		got, rec, err := replay(fs, st, o)
		if fs.Calls() < n {
			must(t, err)
			wantEntries(t, got, want)
			return
		}
		if rec != nil || !errors.Is(err, fault.ErrIO) || errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("error at call %d: %v", n, err)
		}
	}
}

// TestFailureWakesAll: those who queue behind a sync that fails get its error.
func TestFailureWakesAll(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	fs := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, fs, &st, o)
	const waiters = 20
	syncing, results := make(chan bool), make(chan error)
	fs.SetHook(func(c vfs.Call) error {
		if c.Op != vfs.OpSync {
			return nil
		}
		syncing <- true
		<-syncing
		return fmt.Errorf("broken: %w", syscall.EIO)
	})
	wait := func(pos Position) { results <- l.Wait(pos, true) }
	_, pos := put(t, l, 1, "first")
	go wait(pos)
	<-syncing
	for range waiters {
		_, pos = put(t, l, 1, "later")
		go wait(pos)
	}
	for l.queued() < waiters {
		runtime.Gosched()
	}
	syncing <- false
	for range waiters + 1 {
		if err := <-results; !errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Errorf("Wait: %v", err)
		}
	}
	if n := fs.CallsOf(vfs.OpSync); n != 2 { // that of the file's header, and the one that failed
		t.Errorf("%d syncs", n)
	}
}

// queued returns how many wait for somebody else's sync.
func (l *Log) queued() (n int) {
	l.group.Lock()
	defer l.group.Unlock()
	for w := l.group.first; w != nil; w = w.next {
		n++
	}
	return n
}
