package cleavetest

import (
	"errors"

	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrCrashed is why calls fail on a store whose process has died. It comes inside of an
// *engine.IOError.
var ErrCrashed = errors.New("the process has died: cleavetest")

// Kill kills the process. All that it has written is there, synced or not: the system
// has it. Calls under way fail, or have succeeded by then. Afterwards the store is not
// open, and handles of the former one are dead. After a crash that CrashAt brought about,
// the disk is as it was then.
func (s *Store) Kill() { s.crash(func(m *vfs.Mem) *vfs.Mem { return m }) }

// PowerOption is an option of CutPower.
type PowerOption func(*vfs.CrashOptions)

// Seed chooses by chance what survives of that which was not synced: any sectors, lengths
// and names, and a part of the last write. One seed gives one outcome.
func Seed(seed uint64) PowerOption {
	return func(o *vfs.CrashOptions) { o.Keep, o.Seed, o.TornLast = vfs.KeepRandom, seed, seed%2 == 1 }
}

// CutPower cuts the power of the machine. What was synced is there; of the rest nothing,
// or what a Seed chooses. Afterwards the store is not open, as after Kill. So all that
// was acknowledged with engine.Synced, the default, must be there when the store is opened
// again, and what was written with engine.Buffered may be gone.
func (s *Store) CutPower(opts ...PowerOption) {
	o := vfs.CrashOptions{Keep: vfs.KeepNone}
	for _, set := range opts {
		set(&o)
	}
	s.crash(func(m *vfs.Mem) *vfs.Mem { return m.Crash(o) })
}

// crash ends the present life, and begins another with what after makes of the disk.
func (s *Store) crash(after func(*vfs.Mem) *vfs.Mem) {
	s.faults.mu.Lock()
	s.faults.crashAt = 0
	s.faults.mu.Unlock()
	old := s.present()
	disk := after(old.die())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != old {
		return // another call was faster
	}
	s.life = newLife(s, disk)
	var dying []testenv.Store
	for th := range s.things {
		if th.store.On() == old {
			if th.what == aStore {
				dying = append(dying, th.store)
			}
			delete(s.things, th) // what was open died with the process
		}
	}
	for _, d := range dying {
		s.dying.Go(func() { _ = d.Close() })
	}
	s.db = nil
}

// CrashAt has the process die before its nth change of the disk from now on: the nth
// write, sync, rename, creation, removal, … From then on all calls fail. Kill or CutPower
// go on from that moment, so a test can try each moment of what a program does:
//
//	for n := 1; ; n++ {
//		s := cleavetest.New(t, cleavetest.NoBackground())
//		accounts := open(s.DB())
//		s.CrashAt(n)
//		err := accounts.Transfer(ctx, "ann", "bob", 10)
//		if !s.Crashed() {
//			break // it needs fewer than n changes
//		}
//		s.CutPower()
//		check(open(s.DB()), err)
//	}
func (s *Store) CrashAt(n int) {
	s.t.Helper()
	if n < 1 {
		s.t.Fatalf("cleavetest: CrashAt(%d): the first change is number 1", n)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.crashAt = s.faults.changes + n
}

// Crashed says whether a crash has come that CrashAt has planted, and no Kill or CutPower
// after it.
func (s *Store) Crashed() bool { return s.present().dead.Load() }
