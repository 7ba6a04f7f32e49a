package raftlog

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRemove: a group that was removed is gone for good, one that gets its id later begins
// anew, and the files of the log do not wait for it.
func TestRemove(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	_, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	_, err = s.Create(2, 1, base(1, 1))
	must(t, err)
	_, err = s.Group(1).Append(hard(3, 1, 1), entries(2, 20, 3, 5000))
	must(t, err)
	must(t, s.Remove(1))
	if err := s.Remove(1); !errors.Is(err, fault.ErrMissing) || s.Group(1) != nil {
		t.Errorf("%v", err)
	}
	mem = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	s = open(t, mem)
	if s.Group(1) != nil {
		t.Fatal("it is there")
	}
	g, err := s.Create(1, 2, Base{})
	must(t, err)
	want := describe(g)
	other := s.Group(2)
	for next := uint64(2); next < 100; next += 2 {
		_, err := other.Append(hard(3, 1, next), entries(next, 2, 3, 5000))
		must(t, err)
		must(t, s.log.Sync())
		must(t, other.Truncate(base(next, 3)))
	}
	if first := s.log.First(); first < 3 {
		t.Errorf("the log begins with file %d", first)
	}
	s = open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
	if got := describe(s.Group(1)); got != want {
		t.Errorf("%s, was %s", got, want)
	}
}

// TestRemovedStays: a replica that was removed is not made again, also after a restart; another
// one of its group is.
func TestRemovedStays(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open(t.Context(), mem, "raft", Options{Fresh: true})
	must(t, err)
	again := func() {
		t.Helper()
		if _, err := s.Create(7, 3, Base{}); !errors.Is(err, ErrRemoved) {
			t.Errorf("made again: %v", err)
		}
	}
	_, err = s.Create(7, 3, Base{})
	must(t, err)
	must(t, s.Remove(7))
	again()
	must(t, s.Close())
	s, err = Open(t.Context(), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), "raft", Options{})
	must(t, err)
	again()
	_, err = s.Create(7, 4, Base{})
	must(t, err)
	_, err = s.Create(8, 3, Base{})
	must(t, err)
	if g := s.Groups(); len(g) != 2 || g[0].ID() != 7 || g[0].Replica() != 4 || g[0].Store() != s {
		t.Errorf("%d groups", len(g))
	}
	must(t, s.Close())
}

// TestDiscard: the logs of all groups of a container go at once, and what was remembered of removed
// replicas; those of others stay. After a crash at any call of the file system the groups are all there
// or none.
func TestDiscard(t *testing.T) {
	of := func(id uint64) bool { return id>>32 == 7 }
	from := vfs.NewMem()
	s := open(t, from)
	for _, id := range []uint64{1, 7<<32 | 1, 7<<32 | 2, 8 << 32} {
		_, err := s.Create(id, 3, base(1, 1))
		must(t, err)
		_, err = s.Group(id).Append(hard(3, 1, 1), entries(2, 3, 3, 100))
		must(t, err)
	}
	_, err := s.Create(7<<32|9, 3, Base{})
	must(t, err)
	must(t, s.Remove(7<<32|9))
	must(t, s.Close())
	ids := func(s *Store) (out []uint64) {
		for _, g := range s.Groups() {
			out = append(out, g.ID())
		}
		return out
	}
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		s := open(t, faulty)
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		err := s.Discard(of)
		done := image == nil
		if done {
			must(t, err)
			image = mem
		}
		again := open(t, image.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		if got := ids(again); len(got) != 4 && len(got) != 2 || done && len(got) != 2 {
			t.Fatalf("call %d: %v", n, got)
		}
		must(t, again.Discard(of))
		if got := ids(again); len(got) != 2 || got[0] != 1 || got[1] != 8<<32 || len(again.mu.manifest.removed) != 0 {
			t.Fatalf("call %d, again: %v", n, got)
		}
		must(t, again.Close())
		if done {
			return
		}
	}
}

// eachFailure makes a change of a store that prepare has made ready, and has each call of the file system fail in turn that the
// change makes: at least so many fail it. Then it calls check, with the file system, the store and the error of the change.
func eachFailure(t *testing.T, least int, prepare func(*Store), change func(*Store) error, check func(call int64, mem *vfs.Mem, s *Store, failed error)) {
	t.Helper()
	failures := 0
	for n, done := int64(1), false; !done; n++ {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.SetShortWrite(true)
		s := open(t, faulty)
		prepare(s)
		at := faulty.Calls() + n
		faulty.FailAt(at, syscall.ENOSPC, false)
		err := change(s)
		done = faulty.Calls() < at
		faulty.FailAt(0, nil, false)
		if err != nil {
			failures++
		}
		check(n, mem, s, err)
	}
	if failures < least {
		t.Errorf("%d failures: the test reached too little", failures)
	}
}

// TestCreateFails: a log whose making has failed, at whichever call of the file system, is not there. A later call makes it,
// and what that one appends is there after a crash.
func TestCreateFails(t *testing.T) {
	create := func(s *Store) error { return second(s.Create(3, 2, base(1, 1))) }
	prepare := func(s *Store) { must(t, second(s.Create(5, 1, base(1, 1)))) }
	eachFailure(t, 4, prepare, create, func(n int64, mem *vfs.Mem, s *Store, failed error) {
		if failed != nil {
			if err := create(s); err != nil && !errors.Is(err, fault.ErrExists) { // host and group take ErrExists for success
				t.Fatalf("call %d: %v", n, err)
			}
		}
		g := s.Group(3)
		if groups := s.Groups(); g == nil || len(groups) != 2 || groups[0] != g {
			t.Fatalf("call %d: %d groups", n, len(groups))
		}
		pos, err := g.Append(hard(3, 2, 1), entries(2, 3, 3, 10))
		must(t, err)
		must(t, s.Wait(pos))
		want := describe(g)
		s = open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		if g = s.Group(3); g == nil {
			t.Fatalf("call %d: what was durable is gone with its group", n)
		}
		if got := describe(g); got != want {
			t.Errorf("call %d: %s, was %s", n, got, want)
		}
	})
}

// TestRemoveFails: a Remove that has failed, at whichever call of the file system, can be made again, and the log is gone then.
func TestRemoveFails(t *testing.T) {
	prepare := func(s *Store) { must(t, second(s.Create(5, 1, base(1, 1)))) }
	remove := func(s *Store) error { return s.Remove(5) }
	eachFailure(t, 4, prepare, remove, func(n int64, mem *vfs.Mem, s *Store, failed error) {
		if failed != nil {
			if err := remove(s); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		again := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		if _, err := again.Create(5, 1, Base{}); again.Group(5) != nil || !errors.Is(err, ErrRemoved) {
			t.Errorf("call %d: it is there, or can be made: %v", n, err)
		}
		if err := remove(s); !errors.Is(err, fault.ErrMissing) {
			t.Errorf("call %d: removed once more: %v", n, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }
