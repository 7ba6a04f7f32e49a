package raftlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

const dir = "raft"

var small = Options{FirstFileBytes: 64 << 10, MaxFileBytes: 64 << 10, MemoryBytes: 20 << 10, Fresh: true}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(context.Background(), fs, dir, small)
	must(t, err)
	return s
}

// entries makes entries of one term with data of some length.
func entries(first uint64, n int, term uint64, length int) (out []*pb.Entry) {
	for i := range n {
		data := []byte(strings.Repeat("x", length) + fmt.Sprintf("%d of %d", first+uint64(i), term))
		out = append(out, &pb.Entry{Index: new(first + uint64(i)), Term: new(term), Type: pb.EntryNormal.Enum(), Data: data})
	}
	return out
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

// describe tells all that a group has.
func describe(g *Group) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	state := func(b []byte) string { return fmt.Sprintf("%.20q/%d/%x", b, len(b), crc32.ChecksumIEEE(b)) }
	fmt.Fprintf(&b, "replica %d hard %v base %d/%d %v %s", g.replica, g.mu.hard, g.mu.base.Index, g.mu.base.Term, g.mu.base.ConfState, state(g.mu.base.State))
	g.mu.Unlock()
	first, _ := g.FirstIndex()
	last, _ := g.LastIndex()
	for first <= last { // some at a time, as they come
		some, err := g.Entries(first, last+1, math.MaxUint64)
		if err != nil {
			g.mu.Lock()
			return err.Error()
		}
		for _, e := range some {
			fmt.Fprintf(&b, " %d/%d/%v/%d/%.10q", e.GetIndex(), e.GetTerm(), e.GetType(), len(e.GetData()), e.GetData())
		}
		first += uint64(len(some))
	}
	g.mu.Lock()
	if in := g.mu.installing; in != nil {
		fmt.Fprintf(&b, " installing %d/%d %v %s", in.Index, in.Term, in.ConfState, state(in.State))
	}
	return b.String()
}

// base makes a base. Its state is in a file of its own if the index is odd.
func base(index, term uint64) Base {
	state := fmt.Sprintf("state at %d", index)
	if index%2 > 0 {
		state = strings.Repeat(state, inlineBytes/len(state)+1)
	}
	return Base{Index: index, Term: term, ConfState: &pb.ConfState{Voters: []uint64{1, 2, index + 3}}, State: []byte(state)}
}

// step does something with a group, by chance. It returns whether all that the group has
// been told is durable.
func step(s *Store, g *Group, rng *rand.Rand) (durable bool, err error) {
	g.mu.Lock()
	last, h, b, installing := g.lastLocked(), g.mu.hard, g.mu.base, g.mu.installing != nil
	g.mu.Unlock()
	if installing {
		return true, g.EndInstall(rng.IntN(2) == 0)
	}
	term := max(h.term, b.Term)
	switch rng.IntN(12) {
	case 0: // a vote
		_, err := g.Append(hard(term+1, uint64(rng.IntN(3)), h.commit), nil)
		return false, err
	case 1, 2: // a new leader replaces what was not committed
		first := max(h.commit, b.Index) + 1
		first += rng.Uint64N(last + 2 - first)
		pos, err := g.Append(hard(term+1, 0, h.commit), entries(first, 1+rng.IntN(4), term+1, rng.IntN(5000)))
		if err == nil && rng.IntN(2) == 0 {
			return true, s.Wait(pos)
		}
		return false, err
	case 3: // a commit
		if last == b.Index {
			return false, nil
		}
		_, err := g.Append(hard(term, h.vote, max(h.commit, b.Index+1+rng.Uint64N(last-b.Index))), nil)
		return false, err
	case 4:
		if h.commit <= b.Index {
			return false, nil
		}
		to := b.Index + 1 + rng.Uint64N(h.commit-b.Index)
		t, err := g.Term(to)
		if err != nil {
			return false, err
		}
		return true, g.Truncate(base(to, t))
	case 5:
		if rng.IntN(4) > 0 {
			return false, nil
		}
		return true, g.BeginInstall(hard(term+1, 0, last), base(last+1+uint64(rng.IntN(5)), term+1))
	case 6:
		return true, s.log.Sync()
	}
	if h.term == 0 {
		return false, nil
	}
	pos, err := g.Append(nil, entries(last+1, 1+rng.IntN(3), h.term, rng.IntN(9000)))
	if err == nil && rng.IntN(3) == 0 {
		return true, s.Wait(pos)
	}
	return false, err
}

// history is what a group has been, step by step.
type history struct {
	states  []string
	durable int // the newest state that is durable
}

// play plays a script on a new store and notes what the groups were.
func play(fs vfs.FS, seed uint64, steps int, notes map[uint64]*history) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := small
	o.MemoryBytes = 1 << 30 // describe reads no file, which may have stopped
	s, err := Open(context.Background(), fs, dir, o)
	if err != nil {
		return err
	}
	for id := uint64(1); id <= 3; id++ {
		g, err := s.Create(id, 10+id, base(id, 1))
		if err != nil {
			return err
		}
		notes[id] = &history{states: []string{describe(g)}}
	}
	for range steps {
		id := 1 + rng.Uint64N(3)
		g, h := s.Group(id), notes[id]
		durable, err := step(s, g, rng)
		// What a step that failed was about may be there.
		h.states = append(h.states, describe(g))
		if err != nil {
			return err
		}
		if durable {
			h.durable = len(h.states) - 1
		}
	}
	return nil
}

// TestCrash stops a script at each call of the file system, in all ways of losing what was
// not synced. Each group is then as it was after some step, no earlier than the last one
// that was durable. It goes on from there, and a second crash right after the open changes
// nothing.
func TestCrash(t *testing.T) {
	seed := randtest.Seed(t)
	steps, stride := 120, int64(1)
	if testing.Short() {
		stride = 7
	}
	stops := 0
	for n := int64(1); ; n += stride {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		var image *vfs.Mem
		notes, atStop := make(map[uint64]*history), make(map[uint64]int)
		faulty.StopAt(n, func() {
			image = mem.Clone()
			for id, h := range notes {
				atStop[id] = h.durable
			}
		})
		err := play(faulty, seed, steps, notes)
		if image == nil {
			must(t, err)
			break
		}
		stops++
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: seed + uint64(n)}} {
			left := image.Crash(keep)
			s, err := Open(context.Background(), left, dir, small)
			if err != nil {
				t.Fatalf("call %d, %+v: %v", n, keep, err)
			}
			again := open(t, left.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for id, h := range notes {
				g := s.Group(id)
				if g == nil {
					t.Fatalf("call %d, %+v: group %d is gone", n, keep, id)
				}
				is := describe(g)
				found := false
				for _, was := range h.states[atStop[id]:] {
					found = found || was == is
				}
				if !found {
					t.Fatalf("call %d, %+v: group %d is\n%s\nsince the last durable step it was\n%s", n, keep, id, is, strings.Join(h.states[atStop[id]:], "\n"))
				}
				if got := describe(again.Group(id)); got != is {
					t.Fatalf("call %d, %+v: group %d is %s, after another crash %s", n, keep, id, is, got)
				}
				for range 5 {
					if _, err := step(s, g, rng); err != nil {
						t.Fatalf("call %d, %+v: group %d goes on: %v", n, keep, id, err)
					}
				}
			}
			must(t, s.Close())
			checkStates(t, open(t, left))
		}
	}
	if stops < 20 {
		t.Errorf("%d stops: the test reached too little", stops)
	}
}

// TestFilesAreDropped: a log whose groups truncate keeps few files, and what was in those
// that were dropped is not missed: hard states of groups that say nothing any more.
func TestFilesAreDropped(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	idle, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	busy, err := s.Create(2, 1, base(1, 1))
	must(t, err)
	_, err = idle.Append(hard(7, 2, 1), nil)
	must(t, err)
	for next := uint64(2); next < 200; next += 2 {
		_, err := busy.Append(hard(3, 1, next), entries(next, 2, 3, 5000))
		must(t, err)
		must(t, s.log.Sync())
		must(t, busy.Truncate(base(next, 3)))
	}
	if first := s.log.First(); first < 5 {
		t.Errorf("the log begins with file %d", first)
	}
	wantIdle, wantBusy := describe(idle), describe(busy)
	must(t, s.Close())
	s = open(t, mem)
	if got := describe(s.Group(1)); got != wantIdle {
		t.Errorf("idle: %s, was %s", got, wantIdle)
	}
	if got := describe(s.Group(2)); got != wantBusy {
		t.Errorf("busy: %s, was %s", got, wantBusy)
	}
}

// TestVoteBesideNote: a vote that becomes durable while a manifest is written, which does not have it yet, is there after a
// crash, also if its file was filled meanwhile and has nothing else that is needed.
func TestVoteBesideNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		s := open(t, faulty)
		idle, err := s.Create(1, 1, base(1, 1))
		must(t, err)
		busy, err := s.Create(2, 1, base(1, 1))
		must(t, err)
		pos, err := busy.Append(hard(3, 1, 1), entries(2, 8, 3, 5000))
		must(t, err)
		must(t, s.Wait(pos))
		must(t, busy.Cut(base(9, 3)))
		must(t, s.MakeSpare(t.Context()))
		going := make(chan struct{})
		faulty.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpSync && isLog(path.Base(c.Name)) {
				<-going
			}
			return nil
		})
		ended := make(chan error, 3)
		wait := func(pos wal.Position, err error) {
			t.Helper()
			must(t, err)
			go func() { ended <- s.Wait(pos) }()
			synctest.Wait()
		}
		wait(busy.Append(hard(4, 1, 9), nil)) // a sync is under way
		_, err = busy.Append(hard(5, 1, 9), nil)
		must(t, err)
		go func() { ended <- s.Note() }() // it waits for the next one
		synctest.Wait()
		_, err = idle.Append(hard(7, 2, 1), nil)
		must(t, err)
		wait(busy.Append(nil, entries(10, 5, 5, 6000))) // in the next file
		close(going)
		for range cap(ended) {
			must(t, <-ended)
		}
		want := describe(idle)
		again := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		if got := describe(again.Group(1)); got != want {
			t.Errorf("%s, was %s", got, want)
		}
		must(t, s.Note()) // now the file may go
		if s.log.First() < 2 {
			t.Error("the first file is still there")
		}
		must(t, s.Close())
	})
}

// TestReplacedSuffix: entries that were replaced before the log was truncated past them do
// not come back from the files that still have them.
func TestReplacedSuffix(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	for _, a := range []struct {
		hard    *pb.HardState
		entries []*pb.Entry
	}{
		{hard(3, 0, 1), entries(2, 59, 3, 10)},
		{hard(4, 0, 1), entries(43, 2, 4, 10)},
		{hard(4, 0, 50), entries(45, 6, 4, 10)},
	} {
		_, err := g.Append(a.hard, a.entries)
		must(t, err)
	}
	must(t, g.Truncate(base(50, 4)))
	want := describe(g)
	s = open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
	if got := describe(s.Group(1)); got != want {
		t.Errorf("%s, was %s", got, want)
	}
}

// TestStorage: a group answers as raft.Storage says.
func TestStorage(t *testing.T) {
	s := open(t, vfs.NewMem())
	g, err := s.Create(1, 5, base(10, 2))
	must(t, err)
	_, err = g.Append(hard(3, 5, 10), entries(11, 5, 3, 100))
	must(t, err)
	if h, conf, err := g.InitialState(); err != nil || h.GetTerm() != 3 || h.GetVote() != 5 || h.GetCommit() != 10 || len(conf.GetVoters()) != 3 {
		t.Errorf("InitialState: %v, %v, %v", h, conf, err)
	}
	first, _ := g.FirstIndex()
	if last, _ := g.LastIndex(); first != 11 || last != 15 {
		t.Errorf("from %d to %d", first, last)
	}
	for _, c := range []struct {
		at, term uint64
		err      error
	}{{9, 0, raft.ErrCompacted}, {10, 2, nil}, {11, 3, nil}, {15, 3, nil}, {16, 0, raft.ErrUnavailable}} {
		if term, err := g.Term(c.at); term != c.term || err != c.err {
			t.Errorf("Term(%d): %d, %v", c.at, term, err)
		}
	}
	for _, c := range []struct {
		lo, hi, size uint64
		n            int
		err          error
	}{
		{10, 12, math.MaxUint64, 0, raft.ErrCompacted}, {11, 17, math.MaxUint64, 0, raft.ErrUnavailable},
		{11, 16, math.MaxUint64, 5, nil}, {11, 16, 0, 1, nil}, {11, 16, 300, 2, nil}, {13, 14, 1, 1, nil},
	} {
		if got, err := g.Entries(c.lo, c.hi, c.size); len(got) != c.n || err != c.err {
			t.Errorf("Entries(%d, %d, %d): %d, %v", c.lo, c.hi, c.size, len(got), err)
		}
	}
	if _, err := g.Snapshot(); err != raft.ErrSnapshotTemporarilyUnavailable {
		t.Errorf("Snapshot: %v", err)
	}
}

// TestRefusals: what would break the log is refused and changes nothing.
func TestRefusals(t *testing.T) {
	s := open(t, vfs.NewMem())
	g, err := s.Create(1, 5, base(10, 2))
	must(t, err)
	_, err = g.Append(hard(3, 5, 10), entries(11, 5, 3, 10))
	must(t, err)
	want := describe(g)
	for name, f := range map[string]func() error{
		"gap":             func() error { _, err := g.Append(nil, entries(17, 1, 3, 1)); return err },
		"in the base":     func() error { _, err := g.Append(nil, entries(10, 1, 3, 1)); return err },
		"term falls":      func() error { _, err := g.Append(nil, entries(16, 1, 2, 1)); return err },
		"hard term falls": func() error { _, err := g.Append(hard(2, 0, 10), nil); return err },
		"another vote":    func() error { _, err := g.Append(hard(3, 1, 10), nil); return err },
		"truncate back":   func() error { return g.Truncate(base(10, 2)) },
		"truncate ahead":  func() error { return g.Truncate(base(16, 3)) },
		"wrong term":      func() error { return g.Truncate(base(12, 2)) },
		"install back":    func() error { return g.BeginInstall(nil, base(9, 2)) },
		"install own":     func() error { return g.BeginInstall(nil, base(12, 3)) },
		"end of nothing":  func() error { return g.EndInstall(true) },
		"again":           func() error { _, err := s.Create(1, 6, Base{}); return err },
		"no replica":      func() error { _, err := s.Create(2, 0, Base{}); return err },
	} {
		if f() == nil {
			t.Errorf("%s: not refused", name)
		}
		if got := describe(g); got != want {
			t.Errorf("%s: %s, was %s", name, got, want)
		}
	}
	if err := g.Check(15); err != nil {
		t.Errorf("Check(15): %v", err)
	}
	if h, _, _ := g.InitialState(); h.GetCommit() != 15 {
		t.Errorf("the commit is %d", h.GetCommit())
	}
	if err := g.Check(16); !errors.Is(err, ErrLost) {
		t.Errorf("Check(16): %v", err)
	}
}

// TestAppendIsDecoded: what could not be decoded at the next start is not taken, and what is taken can be.
func TestAppendIsDecoded(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	g, err := s.Create(1, 1, Base{})
	must(t, err)
	entry := func(index, term uint64, kind int32) []*pb.Entry {
		return []*pb.Entry{{Index: new(index), Term: new(term), Type: pb.EntryType(kind).Enum()}}
	}
	for what, take := range map[string]func() error{
		"a type that is none": func() error { _, err := g.Append(hard(1, 0, 0), entry(1, 1, 9)); return err },
		"a type above a byte": func() error { _, err := g.Append(hard(1, 0, 0), entry(1, 1, 256)); return err },
		"an entry of no term": func() error { _, err := g.Append(hard(1, 0, 0), entry(1, 0, 0)); return err },
		"a vote of no term":   func() error { _, err := g.Append(hard(0, 1, 0), nil); return err },
		"a base of no term":   func() error { return g.BeginInstall(nil, base(5, 0)) },
		"a term not known":    func() error { _, err := g.Append(nil, entry(1, 1, 0)); return err },
		"a snapshot of one":   func() error { return g.BeginInstall(nil, base(5, 1)) },
		"an entry above it":   func() error { _, err := g.Append(hard(1, 0, 0), entry(1, 2, 0)); return err },
		"a commit of nothing": func() error { _, err := g.Append(hard(1, 0, 1), nil); return err },
		"a commit above all":  func() error { _, err := g.Append(hard(1, 0, 2), entry(1, 1, 0)); return err },
	} {
		if take() == nil {
			t.Error(what, "was taken")
		}
	}
	index := uint64(0)
	for kind := range pb.EntryType_name {
		index++
		_, err := g.Append(hard(1, 1, 0), entry(index, 1, kind))
		must(t, err)
	}
	must(t, s.Close())
	s = open(t, fs)
	if last, _ := s.Group(1).LastIndex(); last != index {
		t.Errorf("entries up to %d, want %d", last, index)
	}
}

// filled returns a store with entries in several files, closed or as a power cut leaves it,
// with the names of its log files.
func filled(t testing.TB, closed bool) (*vfs.Mem, []string) {
	mem := vfs.NewMem()
	s := open(t, mem)
	g, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	for next := uint64(2); next < 60; next += 2 {
		pos, err := g.Append(hard(3, 1, next), entries(next, 2, 3, 2000))
		must(t, err)
		must(t, s.Wait(pos))
	}
	if closed {
		must(t, s.Close())
	} else {
		must(t, s.Vouch())
		mem = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	}
	var logs []string
	for _, name := range mem.Names() {
		if isLog(path.Base(name)) {
			logs = append(logs, name)
		}
	}
	return mem, logs
}

// TestLost: a log of which a part is missing or damaged is refused, after a crash and after a
// Close.
func TestLost(t *testing.T) {
	for _, closed := range []bool{false, true} {
		refused := func(what string, mem *vfs.Mem) {
			t.Helper()
			_, err := Open(context.Background(), mem, dir, small)
			if !errors.Is(err, ErrLost) {
				t.Errorf("closed %v: %s: %v", closed, what, err)
			}
		}
		mem, logs := filled(t, closed)
		if len(logs) < 2 {
			t.Fatalf("log files %v", logs)
		}
		open(t, mem.Clone())
		without := mem.Clone()
		must(t, without.Remove(path.Join(dir, manifestName)))
		refused("no manifest", without)
		for _, name := range logs[:len(logs)-1] {
			without = mem.Clone()
			must(t, without.Remove(name))
			refused("no "+name, without)
		}
		rng := randtest.New(t)
		for range 200 {
			name := logs[rng.IntN(len(logs))]
			b, err := mem.ReadFile(name)
			must(t, err)
			at := rng.IntN(len(b))
			used := len(b)
			if info, err := wal.ReadFile(mem, dir, number(t, name), -1, func(*wal.Record) error { return nil }); err == nil && !info.Sealed {
				used = int(info.Mark) // what lies behind was vouched for by nothing
				if closed {
					used = int(info.Length)
				}
			}
			if at >= used {
				continue
			}
			b[at] ^= 1 << rng.IntN(8)
			damaged := mem.Clone()
			damaged.WriteFile(name, b)
			s, err := Open(context.Background(), damaged, dir, small)
			if err == nil {
				// A bit that pads a record says nothing.
				if got, want := describe(s.Group(1)), describe(open(t, mem.Clone()).Group(1)); got != want {
					t.Errorf("closed %v: byte %d of %s: %s, was %s", closed, at, name, got, want)
				}
			} else if !errors.Is(err, ErrLost) || !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("closed %v: byte %d of %s: %v", closed, at, name, err)
			}
		}
		b, err := mem.ReadFile(path.Join(dir, manifestName))
		must(t, err)
		for at := range b {
			b[at] ^= 4
			damaged := mem.Clone()
			damaged.WriteFile(path.Join(dir, manifestName), b)
			if _, err := Open(context.Background(), damaged, dir, small); !errors.Is(err, ErrLost) && !errors.Is(err, fault.ErrTooNew) {
				t.Errorf("closed %v: byte %d of the manifest: %v", closed, at, err)
			}
			b[at] ^= 4
		}
	}
	o := small
	o.Fresh = false
	if _, err := Open(context.Background(), vfs.NewMem(), dir, o); !errors.Is(err, ErrLost) {
		t.Errorf("an empty disk: %v", err)
	}
}

func number(t testing.TB, name string) uint64 {
	n, ok := wal.ParseFileName(path.Base(name))
	if !ok {
		t.Fatal(name)
	}
	return n
}

// TestBegin: an empty log that has voted gets a base, at each call of the file system whole or
// not at all, and keeps the vote. A log with entries or a base does not.
func TestBegin(t *testing.T) {
	from := vfs.NewMem()
	s, err := Open(t.Context(), from, "raft", Options{Fresh: true})
	must(t, err)
	g, err := s.Create(7, 3, Base{})
	must(t, err)
	pos, err := g.Append(&pb.HardState{Term: new(uint64(9)), Vote: new(uint64(2)), Commit: new(uint64(0))}, nil)
	must(t, err)
	must(t, s.Wait(pos))
	must(t, s.Close())
	want := base(40, 5)
	began, empty := 0, 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		s, err := Open(t.Context(), faulty, "raft", Options{})
		must(t, err)
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		err = s.Group(7).Begin(want)
		done := image == nil
		if done {
			must(t, err)
			image = mem.Clone()
		}
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
			again, err := Open(t.Context(), image.Crash(keep), "raft", Options{})
			must(t, err)
			g := again.Group(7)
			if in := g.Installing(); in != nil {
				if in.Index != want.Index || done {
					t.Fatalf("call %d, %+v: installing %+v", n, keep, in)
				}
				must(t, g.EndInstall(true))
			}
			hard, _, err := g.InitialState()
			must(t, err)
			switch b := g.Base(); {
			case hard.GetTerm() != 9 || hard.GetVote() != 2:
				t.Fatalf("call %d, %+v: %v", n, keep, hard)
			case b.Index == 0 && !done:
				empty++
				must(t, g.Begin(want))
			case b.Index != want.Index || b.Term != want.Term || string(b.State) != string(want.State) || hard.GetCommit() != want.Index:
				t.Fatalf("call %d, %+v: %+v, %v", n, keep, b, hard)
			default:
				began++
			}
			if err := g.Begin(want); err == nil {
				t.Fatal("a log with a base began again")
			}
			next, err := g.Append(nil, entries(want.Index+1, 1, 9, 3))
			must(t, err)
			must(t, again.Wait(next))
			must(t, again.Close())
		}
		if done {
			break
		}
	}
	if began < 2 || empty < 2 {
		t.Errorf("began %d times, empty %d times", began, empty)
	}
}
