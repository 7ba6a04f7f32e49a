package cleavetest

import (
	"errors"
	"math"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
)

// FillDisk fills the disk. The next write of an open store fails with engine.ErrDiskFull,
// also where the log had space ahead: that is used up, too. Reads go on. There is space again
// after FreeDisk, and as much as files give back that the store removes. The writes of a
// store that has failed before return engine.ErrFailed, as they did.
func (s *Store) FillDisk() {
	s.t.Helper()
	s.present().disk().SetCapacity(0)
	for _, open := range s.stores() {
		if err := open.UseUpLog(); err != nil && !errors.Is(err, engine.ErrFailed) {
			s.t.Fatalf("cleavetest: fill the log: %v", err)
		}
	}
	s.LeaveSpace(0)
}

// LeaveSpace leaves the disk so many bytes that are free. An open store has space in its
// log as well, of up to two files of Options.LogFileBytes.
func (s *Store) LeaveSpace(bytes int64) {
	l := s.present()
	l.mu.Lock()
	defer l.mu.Unlock()
	disk := l.diskLocked()
	disk.SetCapacity(math.MaxInt64)
	free, _ := disk.Free()
	disk.SetCapacity(math.MaxInt64 - int64(free) + max(0, bytes))
}

// FreeDisk ends what FillDisk and LeaveSpace have begun: there is space without a limit.
func (s *Store) FreeDisk() { s.present().disk().SetCapacity(math.MaxInt64) }

// Files returns the names of the files of the store, sorted.
func (s *Store) Files() []string { return s.present().disk().Names() }

// Damage changes bytes of all files that match a pattern, as a dying disk does, one byte in
// each 512, and returns their names. LogFiles, SegmentFiles and ManifestFiles are patterns. A
// store that is open has read parts of its files already; so Kill or Close it first. If
// no file matches, the test ends: flush what the store has in memory with DB.Flush.
func (s *Store) Damage(pattern string) []string {
	s.t.Helper()
	l := s.present()
	l.mu.Lock()
	defer l.mu.Unlock()
	var damaged []string
	disk := l.diskLocked()
	for _, name := range disk.Names() {
		if !matches(pattern, name) {
			continue
		}
		b, err := disk.ReadFile(name)
		for i := range b {
			if i%512 == min(256, len(b)/2) {
				b[i] ^= 0x55
			}
		}
		if err == nil {
			err = disk.WriteFile(name, b)
		}
		if err != nil {
			s.t.Fatalf("cleavetest: damage %s: %v", name, err)
		}
		damaged = append(damaged, name)
	}
	if len(damaged) == 0 {
		s.t.Fatalf("cleavetest: Damage(%q): no file matches; there are %q", pattern, disk.Names())
	}
	return damaged
}

// stores returns the stores that are open.
func (s *Store) stores() (open []testenv.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for th := range s.things {
		if th.what == aStore {
			open = append(open, th.store)
		}
	}
	return open
}
