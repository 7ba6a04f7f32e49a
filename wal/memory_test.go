package wal

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// mappedLog is a log in the file system of the system whose second file is
// mapped, with records in both.
func mappedLog(t *testing.T) (fs vfs.FS, o Options, st State, l *Log, want []entry) {
	t.Helper()
	fs, err := vfs.OpenRoot(t.TempDir())
	must(t, err)
	must(t, fs.Mkdir(logDir))
	o = smallOptions(1)
	l, _ = mustOpen(t, fs, &st, o)
	for i := 0; l.Stats().Rotations == 0; i++ {
		must(t, l.MakeSpare(t.Context()))
		e, pos := put(t, l, 1, filler(i, 500))
		must(t, l.Wait(pos, false))
		want = append(want, e)
	}
	if l.mu.file.memory == nil {
		t.Skip("no mapping for writing here")
	}
	return fs, o, st, l, want
}

// TestWriteThroughMemory writes records in all ways, in files that are mapped.
func TestWriteThroughMemory(t *testing.T) {
	fs, o, st, l, want := mappedLog(t)
	writes := func(sync bool, size int) {
		t.Helper()
		e, pos := put(t, l, 1, filler(len(want), size))
		must(t, l.Wait(pos, sync))
		want = append(want, e)
		if got, _ := mustReplay(t, fs, st, o); len(got) != len(want) {
			t.Fatalf("%d records are read, %d were written", len(got), len(want))
		}
	}
	rotations := l.Stats().Rotations
	for i := 0; l.Stats().Rotations < rotations+3; i++ {
		must(t, l.MakeSpare(t.Context()))
		writes(i%7 == 6, 100+i%20*300)
	}
	writes(false, memoryAtMost+1)
	must(t, l.MakeSpare(t.Context()))
	writes(false, int(o.MaxFileBytes)+1) // the file made ahead is mapped, and too small
	writes(false, 10)
	got, _ := mustReplay(t, fs, st, o)
	wantEntries(t, got, want)
	mustClose(t, l, &st)
	got, _ = mustReplay(t, fs, st, o)
	wantEntries(t, got, want)
}

// TestMappedFileShrunk cuts a file under the log: that fails the log, and
// nothing else.
func TestMappedFileShrunk(t *testing.T) {
	_, _, _, l, _ := mappedLog(t)
	must(t, l.mu.file.Truncate(0))
	_, pos := put(t, l, 1, "lost")
	if err := l.Wait(pos, false); !errors.Is(err, fault.ErrOutcomeUnknown) || !errors.Is(err, fault.ErrIO) {
		t.Errorf("written where the file has shrunk: %v", err)
	}
	if _, _, err := l.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("append to a failed log: %v", err)
	}
	if _, err := l.Close(); err == nil {
		t.Error("Close of a failed log says nothing")
	}
}
