package wal

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestJournalAborts has the journal of the file system fail before each call of a
// story in turn: whatever was acknowledged is there after a power cut, in space that
// the log had written before or not.
func TestJournalAborts(t *testing.T) {
	seed := randtest.Seed(t)
	for i := range uint64(3) {
		atEachCall(t, seed+i, 40,
			func(*world, int64) {},
			func(w *world, ago int64) error {
				if ago == 0 {
					w.mem.AbortJournal()
				}
				return nil
			},
			func(*world) {})
	}
}

// TestJournalAbortsUnderSync: a sync of records in space that was only reserved is not
// believed if the journal has failed; one of records in space that was filled needs
// no journal, also in a file that is used again.
func TestJournalAbortsUnderSync(t *testing.T) {
	for _, c := range []struct {
		name   string
		busy   bool // the file is filled
		reuse  bool // the file was used before
		needed bool // the journal is
	}{
		{"reserved", false, false, true},
		{"filled", true, false, false},
		{"used again", false, true, false},
		{"filled and used again", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, o, st := newMem(t), smallOptions(1), State{}
			l, _ := mustOpen(t, mem, &st, o)
			var want []entry
			add := func() error {
				e, pos := put(t, l, 1, filler(len(want), 1000))
				err := l.Wait(pos, true)
				if err == nil {
					want = append(want, e)
				}
				return err
			}
			advance := func() {
				must(t, add())
				if c.busy {
					l.count.waits.Add(fewWaits)
				} else {
					l.maker.waits, l.maker.busy = l.count.waits.Load(), false
				}
				must(t, l.MakeSpare(t.Context()))
				must(t, l.Rotate())
			}
			advance()
			if c.reuse {
				for l.Newest() == 2 {
					must(t, add())
				}
				st.First = l.Newest()
				must(t, l.Drop(st.First))
				advance()
				if l.Stats().Recycled != 1 {
					t.Fatal("no file was used again")
				}
			}
			must(t, add())
			mem.AbortJournal()
			err := add()
			if c.needed && (!errors.Is(err, fault.ErrOutcomeUnknown) || !errors.Is(err, syscall.EROFS)) || !c.needed && err != nil {
				t.Errorf("sync: %v", err)
			}
			got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
			if len(got) > len(want) {
				t.Errorf("%d records, want %d", len(got), len(want))
			}
			wantEntries(t, got, want[len(want)-len(got):])
			if last := got[len(got)-1]; last != want[len(want)-1] {
				t.Errorf("the last one is %v", last)
			}
		})
	}
}
