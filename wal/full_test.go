package wal

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCopyOnWriteFull: where an overwrite needs space and there is none, those whose
// records were appended learn that the outcome is unknown, later ones that the disk
// is full and nothing was done; with space again the log goes on, and has all records.
func TestCopyOnWriteFull(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("mapped=%v,sync=%v", mapped, sync), func(t *testing.T) {
				mem, o, st := newMem(t), smallOptions(1), State{}
				mem.SetCopyOnWrite(true)
				mem.SetMapped(mapped)
				l, _ := mustOpen(t, mem, &st, o)
				var want []entry
				var pos Position
				add := func() error {
					e, end, err := appended(l, filler(len(want), 700))
					if err != nil {
						return err
					}
					want, pos = append(want, e), end
					return l.Wait(pos, sync)
				}
				for l.Newest() < 4 { // in files that were used before
					must(t, add())
					must(t, l.MakeSpare(t.Context()))
					must(t, l.Drop(l.FirstNeeded(func(Stream, uint64) uint64 { return math.MaxUint64 })))
				}
				must(t, l.Sync())
				st.First, want = l.Newest(), want[len(want)-1:]
				durable := pos
				if l.Stats().Recycled == 0 || mapped && !sync != (l.mu.file.memory != nil) {
					t.Fatalf("recycled %d, memory %v", l.Stats().Recycled, l.mu.file.memory)
				}
				for round := range 3 {
					mem.SetCapacity(0)
					err := add()
					if !errors.Is(err, ErrStalled) || !errors.Is(err, fault.ErrOutcomeUnknown) || errors.Is(err, fault.ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) {
						t.Fatalf("round %d, the write that meets it: %v", round, err)
					}
					if err := l.Wait(pos, sync); !errors.Is(err, ErrStalled) {
						t.Fatalf("Wait again: %v", err)
					}
					must(t, l.Wait(durable, true))
					last := l.LastSeq()
					for what, err := range map[string]error{"Append": add(), "Sync": l.Sync(), "Rotate": l.Rotate(), "Vouch": l.Vouch(), "MakeSpare": l.MakeSpare(t.Context())} {
						if err == nil && what == "MakeSpare" {
							continue // there was one, and little to sync
						}
						if !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrOutcomeUnknown) || errors.Is(err, fault.ErrFailed) {
							t.Errorf("%s on a full disk: %v", what, err)
						}
					}
					if l.LastSeq() != last {
						t.Error("a refused record has a sequence")
					}
					for how, image := range images(mem, uint64(round)*10) {
						got, _, err := replay(image, st, o)
						if err != nil {
							t.Fatalf("%s: %v", how, err)
						}
						wantEntries(t, got, want[:max(len(got), len(want)-1)])
					}
					mem.SetCapacity(math.MaxInt64)
					must(t, add())
					must(t, l.Sync())
					durable = pos
					got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
					wantEntries(t, got, want)
				}
				mustClose(t, l, &st)
				got, _ := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
				wantEntries(t, got, want)
			})
		}
	}
}

func appended(l *Log, payload string) (entry, Position, error) {
	seq, pos, err := l.Append(1, TypeWrite, 1, []byte(payload), nil)
	return entry{1, TypeWrite, seq, 1, payload}, pos, err
}

// TestCopyOnWriteFullAtEachCall has the disk full at each call of a story in turn, for
// that call and for all that follow until there is space again: the log never fails for it, and
// when there is space all that was appended becomes durable.
func TestCopyOnWriteFullAtEachCall(t *testing.T) {
	seed := randtest.Seed(t)
	for _, sticky := range []bool{false, true} {
		atEachCall(t, seed, 60,
			func(w *world, n int64) {
				w.mem.SetCopyOnWrite(true)
				w.mem.SetMapped(n%2 == 0)
			},
			func(w *world, ago int64) error {
				if ago == 0 {
					w.mem.SetCapacity(0)
				} else if !sticky {
					w.mem.SetCapacity(math.MaxInt64)
				}
				return nil
			},
			func(w *world) {
				w.fs.SetHook(nil)
				w.mem.SetCapacity(math.MaxInt64)
				if w.log == nil {
					return
				}
				if f := w.log.failed.Load(); f != nil {
					w.fatal("the log has failed: %v", f.cause)
				}
				w.append()
				if err := w.log.Sync(); err != nil {
					w.fatal("with space again: %v", err)
				}
				w.afterSync(nil)
			})
	}
}
