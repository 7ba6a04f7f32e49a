package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestKilledThenCut kills the process at calls of each story, opens the store
// with what the kernel still holds in memory, writes to it or not, closes it, and
// cuts the power. Whatever the open found must be there then: it let the log go,
// and removed files, for the sake of names that were not durable when the process
// died.
func TestKilledThenCut(t *testing.T) {
	seed := newSeed(t)
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for n := range every(sweep(14, 97, 61), seed) {
				mem := vfs.NewMem()
				faulty := vfs.NewFaulty(mem)
				var killed *vfs.Mem
				faulty.StopAt(n, func() { killed = mem.Kill() })
				s := st.play(t, faulty)
				if killed == nil {
					return // the story ended before call n
				}
				if err := s.killedThenCut(survivors, killed, seed+uint64(n)); err != nil {
					t.Fatalf("killed at call %d (%v): %v", n, s.err, err)
				}
			}
		})
	}
}

func (s *stage) killedThenCut(survivors *survivors, killed *vfs.Mem, seed uint64) error {
	db, err := Open(context.Background(), "killed", testOptions(killed))
	if err != nil {
		return fmt.Errorf("open after the kill: %w", err)
	}
	defer db.Close()
	next := &stage{t: s.t, opts: testOptions(killed), db: db, o: s.o.clone(), rounds: s.rounds, dropped: s.dropped, gone: s.gone}
	if err := next.checkDropped(db, next.o); err != nil {
		return err
	}
	if err := next.o.check(db, func(h *history) int { return h.kernel }); err != nil {
		return fmt.Errorf("after the kill: %w", err)
	}
	if seed%2 == 0 {
		for info := range db.Containers() {
			next.put(info.Name, 3, 50)
		}
	}
	if next.close(); next.err != nil {
		return next.err
	}
	for i, keep := range []vfs.Keep{vfs.KeepNone, vfs.KeepRandom} {
		if err := survivors.check(next, killed.Crash(vfs.CrashOptions{Keep: keep, Seed: seed}), false); err != nil {
			return fmt.Errorf("power cut after the close, image %d: %w", i, err)
		}
	}
	return nil
}
