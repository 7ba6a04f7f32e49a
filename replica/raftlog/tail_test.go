package raftlog

import (
	"errors"
	"math"
	"path"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// TestOld: which entries lie in files behind which others have been begun, before and after a restart and a truncation.
func TestOld(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	if n := g.Old(0); n != 0 {
		t.Errorf("of no entries %d", n)
	}
	for next := uint64(2); next < 60; next += 2 {
		_, err := g.Append(hard(3, 1, next), entries(next, 2, 3, 5000))
		must(t, err)
	}
	check := func() {
		t.Helper()
		last, _ := g.LastIndex()
		newest := s.log.Newest()
		for files := range newest + 2 {
			want := uint64(0)
			for i, slot := range g.mu.slots {
				if slot.File+files <= newest {
					want = g.mu.base.Index + 1 + uint64(i)
				}
			}
			if got := g.Old(files); got != want || files == 0 && got != last {
				t.Errorf("%d files: %d, want %d", files, got, want)
			}
		}
	}
	check()
	must(t, g.Truncate(base(40, 3)))
	check()
	must(t, s.Close())
	s = open(t, mem)
	g = s.Group(1)
	check()
}

// TestColdEntries: entries that are in files only are read as they were, from files that are
// full and from the newest one, also those that have replaced others.
func TestColdEntries(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	other, err := s.Create(2, 1, base(1, 1))
	must(t, err)
	want := make(map[uint64]*pb.Entry)
	put := func(some []*pb.Entry) {
		t.Helper()
		pos, err := g.Append(hard(some[0].GetTerm(), 0, 1), some)
		must(t, err)
		must(t, s.Wait(pos))
		_, err = other.Append(hard(some[0].GetTerm(), 0, 1), entries(2, 1, some[0].GetTerm(), 100))
		must(t, err)
		for _, e := range some {
			want[e.GetIndex()] = e
		}
	}
	for next := uint64(2); next < 100; next += 3 {
		put(entries(next, 5, 2+next/10, 1500)) // replaces the last two of those before
	}
	check := func() {
		t.Helper()
		last, _ := g.LastIndex()
		for _, size := range []uint64{0, 4000, math.MaxUint64} {
			for lo := uint64(2); lo <= last; {
				some, err := g.Entries(lo, last+1, size)
				must(t, err)
				if size == 0 && len(some) != 1 {
					t.Fatalf("%d entries of no size", len(some))
				}
				for _, e := range some {
					w := want[e.GetIndex()]
					if e.GetIndex() != lo || e.GetTerm() != w.GetTerm() || string(e.GetData()) != string(w.GetData()) {
						t.Fatalf("entry %d of term %d at %d, want term %d", e.GetIndex(), e.GetTerm(), lo, w.GetTerm())
					}
					lo++
				}
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.mu.cache > small.MemoryBytes || g.mu.bytes < 100*1500 || g.mu.hot == 0 {
			t.Errorf("%d of %d bytes are in memory, all from slot %d on", g.mu.cache, g.mu.bytes, g.mu.hot)
		}
	}
	check()
	s = open(t, mem.Kill())
	g = s.Group(1)
	check()
	must(t, s.Close())
	s = open(t, s.fs)
	g = s.Group(1)
	check()
	// A file that has gone is no entry of zeros.
	g.mu.Lock()
	file := g.mu.slots[0].File
	g.mu.ahead = nil
	g.mu.Unlock()
	must(t, s.fs.Remove(path.Join(dir, wal.FileName(file))))
	if some, err := g.Entries(2, 3, 0); !errors.Is(err, fault.ErrMissing) && !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%v, %v", some, err)
	}
}

// TestMemoryOfAll: groups that are made later, and those that are there then, have the memory of all groups together, after a
// restart too. When groups have gone, the others may have more again.
func TestMemoryOfAll(t *testing.T) {
	const groups, all, length = 4, 512 << 10, 16 << 10
	o := small
	o.MemoryBytes, o.AllMemoryBytes = 400<<10, all
	fs := vfs.NewMem()
	s, err := Open(t.Context(), fs, dir, o)
	must(t, err)
	check := func(least int64) {
		t.Helper()
		sum := int64(0)
		for _, g := range s.Groups() {
			sum += g.mu.cache
		}
		if sum < least || sum > all {
			t.Errorf("%d groups have %d bytes in memory, want %d to %d", len(s.Groups()), sum, least, all)
		}
	}
	next := make(map[uint64]uint64)
	write := func(id uint64) {
		for range o.MemoryBytes/length + 2 {
			next[id]++
			pos, err := s.Group(id).Append(hard(1, 1, 0), entries(next[id], 1, 1, length-100))
			must(t, err)
			must(t, s.Wait(pos))
		}
	}
	for id := uint64(1); id <= groups; id++ {
		_, err := s.Create(id, 1, Base{})
		must(t, err)
		write(id)
		check(o.MemoryBytes / 2)
	}
	must(t, s.Close())
	s, err = Open(t.Context(), fs, dir, o)
	must(t, err)
	check(all / 2)
	must(t, s.Discard(func(id uint64) bool { return id > 2 }))
	must(t, s.Remove(2))
	write(1)
	check(o.MemoryBytes / 2)
	must(t, s.Close())
}

// TestReplayMemory: while a log is read at a start, no more of it is in memory than later. All entries are there, and those
// that were replaced are not.
func TestReplayMemory(t *testing.T) {
	const memory, length = 10_000, 1000
	r := replay{state: groupState{base: base(5, 5)}, memory: memory}
	for first := uint64(2); first < 100; first += 3 {
		d := &record{kind: kindAppend, hard: hardState{first, 1, 5}, first: first, entries: entries(first, 5, first, length)}
		must(t, r.add(d, wal.Ref{File: 1, Offset: int64(first)}))
		sum := 0
		for _, s := range r.tail.slots {
			sum += len(s.entry.GetData())
		}
		if sum > memory || first > 20 && sum < memory/2 {
			t.Fatalf("%d bytes are in memory at entry %d, want %d at most", sum, first, memory)
		}
	}
	g, err := r.finish(new(Store))
	must(t, err)
	last, _ := g.LastIndex()
	for i := uint64(6); i <= last; i++ {
		want := (min(i, 100)-2)/3*3 + 2 // the newest record with it
		if term, err := g.Term(i); term != want || g.mu.slots[i-6].Offset != int64(want) {
			t.Errorf("entry %d is of term %d at %+v, want %d, %v", i, term, g.mu.slots[i-6].place, want, err)
		}
	}
	if last != 102 {
		t.Errorf("the last entry is %d", last)
	}
}

// TestReadAhead: what was read ahead is in memory until its last entry was handed out, cut off or replaced.
func TestReadAhead(t *testing.T) {
	s := open(t, vfs.NewMem())
	g, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	for next := uint64(2); next < 40; next++ {
		pos, err := g.Append(hard(2, 0, 1), entries(next, 1, 2, 1000))
		must(t, err)
		must(t, s.Wait(pos))
	}
	for _, end := range []struct {
		what string
		drop func() error
	}{
		{"handed out", func() error { _, err := g.Entries(3, 40, math.MaxUint64); return err }},
		{"replaced", func() error {
			pos, err := g.Append(hard(3, 0, 1), entries(36, 1, 3, 10))
			must(t, err)
			return s.Wait(pos)
		}},
		{"cut off", func() error { return g.Cut(base(36, 3)) }},
	} {
		first, _ := g.FirstIndex()
		last, _ := g.LastIndex()
		g.mu.shrink(0, math.MaxInt64) // all are in their files
		some, err := g.Entries(first, last+1, 0)
		if err != nil || len(some) != 1 || len(g.mu.ahead) < 2 {
			t.Fatalf("before they are %s: %d entries, %d read ahead, %v", end.what, len(some), len(g.mu.ahead), err)
		}
		must(t, end.drop())
		if n := len(g.mu.ahead); n > 0 {
			t.Errorf("%d entries that were %s are in memory", n, end.what)
		}
	}
	must(t, s.Close())
}

// TestColdEntriesOfMany: what a follower that is behind makes a leader read is what its group
// has written, whatever the other groups of the node have.
func TestColdEntriesOfMany(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s := open(t, faulty)
	var groups []*Group
	for id := range uint64(20) {
		g, err := s.Create(id+1, 1, base(1, 1))
		must(t, err)
		groups = append(groups, g)
	}
	const rounds, length = 60, 2000
	for n := range uint64(rounds) {
		for _, g := range groups {
			pos, err := g.Append(hard(2, 0, 1), entries(2+n, 1, 2, length))
			must(t, err)
			must(t, s.Wait(pos))
		}
	}
	read := int64(0)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead {
			read += c.Len
		}
		return nil
	})
	g := groups[7]
	bytes := int64(0)
	for lo, last := uint64(2), uint64(rounds+1); lo <= last; {
		some, err := g.Entries(lo, last+1, 1<<20)
		must(t, err)
		lo += uint64(len(some))
		for _, e := range some {
			bytes += int64(len(e.GetData()))
		}
	}
	// A read is of 16 KiB, the shortest that is worth a call, and has one entry here.
	if bytes < rounds*length || read > rounds*(16<<10)+100*64 {
		t.Errorf("%d bytes were read for %d of entries, of %d in the log", read, bytes, rounds*length*len(groups))
	}
	faulty.SetHook(nil)
	must(t, s.Close())
}

// TestLongAppend: an append of many entries is read piece by piece without reading all of it for each. After a crash the log has the
// first ones of its entries, with its term and no commit beyond them, and all if it was durable.
func TestLongAppend(t *testing.T) {
	const n, length = 4, 400 << 10
	o := small
	o.FirstFileBytes, o.MaxFileBytes = 4<<20, 4<<20
	parts := make(map[uint64]bool)
	for call := int64(1); ; call++ {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		s, err := Open(t.Context(), faulty, dir, o)
		must(t, err)
		g, err := s.Create(1, 1, base(2, 1))
		must(t, err)
		_, err = g.Append(hard(2, 1, 2), entries(3, 3, 2, 10))
		must(t, err)
		must(t, s.log.Sync())
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+call, func() { image = mem.Clone() })
		pos, err := g.Append(hard(3, 2, n+2), entries(3, n, 3, length))
		if err == nil {
			err = s.Wait(pos)
		}
		done := image == nil
		if done {
			must(t, err)
			image = mem
		}
		keep := vfs.KeepAll
		if done {
			keep = vfs.KeepNone
		}
		again := open(t, image.Crash(vfs.CrashOptions{Keep: keep})).Group(1)
		last, _ := again.LastIndex()
		h, _, _ := again.InitialState()
		switch term, err := again.Term(3); {
		case err != nil || last > n+2 || done && last != n+2 || h.GetTerm() != term || h.GetVote() != term-1:
			t.Fatalf("call %d: %v, entries of term %d up to %d, %v", call, h, term, last, err)
		case term == 3:
			parts[last] = true
			if h.GetCommit() != last {
				t.Fatalf("call %d: %v, entries up to %d", call, h, last)
			}
		}
		if !done {
			continue
		}
		read := int64(0)
		faulty.StopAt(0, nil)
		g.shrink()
		faulty.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpRead {
				read += c.Len
			}
			return nil
		})
		for lo := uint64(3); lo < n+3; {
			some, err := g.Entries(lo, n+3, length)
			must(t, err)
			lo += uint64(len(some))
		}
		if read < n*length || read > n*length*5/4 {
			t.Errorf("%d bytes were read for %d of entries", read, n*length)
		}
		faulty.SetHook(nil)
		must(t, s.Close())
		break
	}
	if len(parts) < 2 {
		t.Errorf("the logs end at %v: the test reached too little", parts)
	}
}

// BenchmarkColdEntries reads a MiB of a group's entries from the files of a log in which eight
// groups have written by turns.
func BenchmarkColdEntries(b *testing.B) {
	fs, err := vfs.CreateRoot(b.TempDir())
	must(b, err)
	s, err := Open(b.Context(), fs, dir, Options{MemoryBytes: 64 << 10, Fresh: true})
	must(b, err)
	var groups []*Group
	for id := range uint64(8) {
		g, err := s.Create(id+1, 1, base(1, 1))
		must(b, err)
		groups = append(groups, g)
	}
	const rounds, length = 4000, 4000
	for n := range uint64(rounds) {
		var pos wal.Position
		for _, g := range groups {
			pos, err = g.Append(hard(2, 0, 1), entries(2+n, 1, 2, length))
			must(b, err)
		}
		must(b, s.log.Wait(pos, false))
	}
	b.SetBytes(1 << 20)
	lo := uint64(2)
	for b.Loop() {
		some, err := groups[3].Entries(lo, rounds, 1<<20)
		must(b, err)
		if lo += uint64(len(some)); lo > rounds*3/4 {
			lo = 2
		}
	}
	must(b, s.Close())
}
