package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// everyCall makes one call of each kind and returns their errors.
func everyCall(fsys FS, f File) []error {
	var errs []error
	one := func(err error) { errs = append(errs, err) }
	closeFile := func(f File, err error) {
		if err == nil {
			_ = f.Close()
		}
		one(err)
	}
	closeFile(fsys.Create("new"))
	closeFile(fsys.Open("new"))
	closeFile(fsys.OpenWrite("new"))
	one(second(f.ReadAt(make([]byte, 2), 1)))
	one(second(f.WriteAt([]byte("abc"), 4)))
	one(f.Sync())
	one(fsys.SyncDir("."))
	one(fsys.Rename("new", "d"))
	one(fsys.Link("d", "e"))
	one(fsys.Remove("e"))
	one(fsys.Mkdir("dir"))
	_, err := fsys.List(".")
	one(err)
	_, err = f.Stat()
	one(err)
	one(f.Truncate(7))
	one(f.Allocate(8))
	m, err := f.Map()
	one(err)
	if err == nil {
		_ = m.Unmap()
	}
	dir, err := fsys.OpenDir(".")
	one(err)
	if err == nil {
		_ = dir.Close()
	}
	lock, err := fsys.Lock("LOCK", "")
	one(err)
	if err == nil {
		_ = lock.Close()
	}
	_, err = fsys.Free()
	one(err)
	return errs
}

func faultyMem(t *testing.T) (*Mem, *Faulty, File) {
	t.Helper()
	m := NewMem()
	put1(t, m, "base", "base")
	f := NewFaulty(m)
	file, err := f.OpenWrite("base")
	check(t, err)
	return m, f, file
}

func TestFaultyCounts(t *testing.T) {
	_, f, file := faultyMem(t)
	var calls []Call
	f.SetHook(func(c Call) error {
		calls = append(calls, c)
		return nil
	})
	for i, err := range everyCall(f, file) {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if f.Calls() != 1+int64(opCount) || len(calls) != int(opCount) {
		t.Fatalf("%d calls, %d seen", f.Calls(), len(calls))
	}
	for i, c := range calls {
		if c.N != int64(i)+2 || c.Op != Op(i) {
			t.Errorf("call %d: %+v", i, c)
		}
		want := int64(1)
		if c.Op == OpOpenWrite {
			want = 2
		}
		if n := f.CallsOf(c.Op); n != want {
			t.Errorf("%v was called %d times", c.Op, n)
		}
	}
	for op, want := range map[Op]Call{
		OpRead:     {N: 5, Op: OpRead, Name: "base", Off: 1, Len: 2},
		OpWrite:    {N: 6, Op: OpWrite, Name: "base", Off: 4, Len: 3},
		OpRename:   {N: 9, Op: OpRename, Name: "new", To: "d"},
		OpTruncate: {N: 15, Op: OpTruncate, Name: "base", Len: 7},
	} {
		if calls[op] != want {
			t.Errorf("%v: %+v", op, calls[op])
		}
	}
	seen := map[string]bool{}
	for op := range opCount {
		seen[op.String()] = true
	}
	if len(seen) != int(opCount) || Op(-1).String() != "Op(-1)" || opCount.String() == "" {
		t.Errorf("names %v", seen)
	}
}

// TestFailAt fails each call of a run in turn, once and from there on.
func TestFailAt(t *testing.T) {
	for n := range int64(opCount) {
		_, f, file := faultyMem(t)
		f.FailAt(n+2, syscall.EIO, false)
		for i, err := range everyCall(f, file) {
			if failed := errors.Is(err, syscall.EIO); failed != (i == int(n)) {
				t.Errorf("fail at %v: %v gives %v", Op(n), Op(i), err)
			}
		}

		_, f, file = faultyMem(t)
		f.FailAt(n+2, syscall.ENOSPC, true)
		for i, err := range everyCall(f, file) {
			if failed := errors.Is(err, fault.ErrDiskFull); failed != (i >= int(n)) {
				t.Errorf("fail from %v: %v gives %v", Op(n), Op(i), err)
			}
			var ioErr *fault.IOError
			if err != nil && !errors.As(err, &ioErr) {
				t.Errorf("%v: %T", Op(i), err)
			}
		}
		if err := file.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestFailedCallDoesNothing compares the inner file system around each failure.
func TestFailedCallDoesNothing(t *testing.T) {
	m, f, file := faultyMem(t)
	put1(t, m, "new", "new")
	before := describeMem(t, m)
	f.SetHook(func(Call) error { return syscall.EIO })
	for i, err := range everyCall(f, file) {
		if !errors.Is(err, fault.ErrIO) {
			t.Errorf("%v: %v", Op(i), err)
		}
	}
	if _, err := f.Stat("new"); !errors.Is(err, fault.ErrIO) {
		t.Errorf("stat: %v", err)
	}
	f.SetHook(nil)
	if after := describeMem(t, m); after != before {
		t.Errorf("failed calls changed\n%s to\n%s", before, after)
	}
	if _, err := m.Stat("dir"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed mkdir made a directory: %v", err)
	}
}

func TestShortWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, inner FS) {
		f := NewFaulty(inner)
		file := create(t, f, "a", "........")
		defer file.Close()
		f.SetShortWrite(true)
		f.FailAt(f.Calls()+1, syscall.ENOSPC, false)
		n, err := file.WriteAt([]byte("12345"), 1)
		refused(t, f, "a", err, fault.ErrDiskFull)
		if n != 2 {
			t.Errorf("wrote %d bytes", n)
		}
		wantContent(t, f, "a", ".12.....")
	})
}

func TestStopAt(t *testing.T) {
	m, f, file := faultyMem(t)
	var image *Mem
	runs := 0
	stop := 1 + int64(OpWrite) + 1
	f.SetShortWrite(true)
	f.StopAt(stop, func() {
		runs++
		image = m.Clone()
	})
	for i, err := range everyCall(f, file) {
		if stopped := errors.Is(err, ErrStopped); stopped != (i >= int(OpWrite)) {
			t.Errorf("%v: %v", Op(i), err)
		}
	}
	if runs != 1 || describeMem(t, image) != describeMem(t, m) {
		t.Errorf("%d callbacks; the image is\n%s, the end\n%s", runs, describeMem(t, image), describeMem(t, m))
	}
	wantContent(t, image, "base", "base")
	f.StopAt(0, nil)
	check(t, file.Sync())
	wantContent(t, f, "base", "base")
}

// TestFailedSyncLosesData: after a sync that failed the next one succeeds, and
// the bytes are not there after a power cut; what is written later is.
func TestFailedSyncLosesData(t *testing.T) {
	m := NewMem()
	f := NewFaulty(m)
	file := create(t, f, "a", strings.Repeat("1", 2*sectorBytes))
	check(t, f.SyncDir("."))
	f.FailAt(f.Calls()+1, syscall.EIO, false)
	refused(t, f, "a", file.Sync(), fault.ErrIO)
	check(t, file.Sync())
	wantContent(t, f, "a", strings.Repeat("1", 2*sectorBytes))
	wantContent(t, m.Crash(CrashOptions{Keep: KeepAll}), "a", strings.Repeat("\x00", 2*sectorBytes))
	_, err := file.WriteAt([]byte("2"), sectorBytes)
	check(t, err)
	check(t, file.Sync())
	wantContent(t, m.Crash(CrashOptions{}), "a",
		strings.Repeat("\x00", sectorBytes)+"2"+strings.Repeat("1", sectorBytes-1))
	// What was not written again goes when the cache drops what it takes for clean.
	killed := m.Kill()
	file.Advise(sectorBytes, 0, DontNeed)
	wantContent(t, f, "a", strings.Repeat("1", sectorBytes)+"2"+strings.Repeat("1", sectorBytes-1))
	file.Advise(0, 0, DontNeed)
	wantContent(t, f, "a", strings.Repeat("\x00", sectorBytes)+"2"+strings.Repeat("1", sectorBytes-1))
	again, err := killed.Open("a")
	check(t, err)
	again.Advise(0, 0, DontNeed)
	wantContent(t, killed, "a", strings.Repeat("\x00", sectorBytes)+"2"+strings.Repeat("1", sectorBytes-1))
}

// TestWriteFileAtomicFails fails each call of a replacement: the file is always
// the old one or the new one, it is the old one where the error does not say that
// the outcome is unknown, and the next attempt succeeds.
func TestWriteFileAtomicFails(t *testing.T) {
	for n := int64(1); ; n++ {
		m := NewMem()
		f := NewFaulty(m)
		check(t, WriteFileAtomic(f, "M.tmp", "M", []byte("old")))
		before := f.Calls()
		f.SetShortWrite(true)
		f.FailAt(before+n, syscall.EIO, false)
		err := WriteFileAtomic(f, "M.tmp", "M", []byte("new"))
		f.FailAt(0, nil, false)
		possible := func(got string) bool {
			switch {
			case err == nil:
				return got == "new"
			case errors.Is(err, fault.ErrOutcomeUnknown):
				return got == "old" || got == "new"
			}
			return got == "old"
		}
		if got := content(t, f, "M"); !possible(got) {
			t.Errorf("call %d: %q, %v", n, got, err)
		}
		for _, opt := range images(10) {
			if got := content(t, m.Crash(opt), "M"); !possible(got) {
				t.Errorf("call %d, %+v: %q, %v", n, opt, got, err)
			}
		}
		check(t, WriteFileAtomic(f, "M.tmp", "M", []byte("newest")))
		wantContent(t, m.Crash(CrashOptions{}), "M", "newest")
		wantNames(t, m.Crash(CrashOptions{}), "M")
		if err == nil {
			if n != 7 {
				t.Errorf("a replacement takes %d calls", n-1)
			}
			return
		}
	}
}

// TestWriteFileAtomicInUse: Windows does not rename a file that another process has opened, such as a
// virus scanner. Then nothing has changed.
func TestWriteFileAtomicInUse(t *testing.T) {
	m := NewMem()
	f := NewFaulty(m)
	check(t, WriteFileAtomic(f, "M.tmp", "M", []byte("old")))
	f.SetHook(func(c Call) error {
		if c.Op == OpRename {
			return syscall.EBUSY
		}
		return nil
	})
	if err := WriteFileAtomic(f, "M.tmp", "M", []byte("new")); !InUse(err) || errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("in use: %v", err)
	}
	wantContent(t, m, "M", "old")
	wantNames(t, m, "M")
	f.SetHook(nil)
	check(t, WriteFileAtomic(f, "M.tmp", "M", []byte("newest")))
	wantContent(t, m, "M", "newest")
}

// TestHelpersPassErrorsOn fails each call of ReadFile and MkdirSync.
func TestHelpersPassErrorsOn(t *testing.T) {
	for name, run := range map[string]func(FS) error{
		"ReadFile": func(fsys FS) error {
			_, err := ReadFile(fsys, "a", 10)
			return err
		},
		"MkdirSync":       func(fsys FS) error { return MkdirSync(fsys, "d") },
		"MkdirSync again": func(fsys FS) error { return MkdirSync(fsys, "there") },
	} {
		for n := int64(1); ; n++ {
			m := NewMem()
			put1(t, m, "a", "data")
			check(t, m.Mkdir("there"))
			f := NewFaulty(m)
			f.FailAt(n, fmt.Errorf("injected: %w", syscall.EIO), false)
			err := run(f)
			if f.Calls() < n {
				check(t, err)
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s, call %d: %v", name, n, err)
			}
		}
	}
}
