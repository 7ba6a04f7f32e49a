package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
)

// whole is the key space.
var whole = partmap.Range{Max: partmap.MaxEPK()}

func commandID(n uint64) (id command.ID) {
	binary.LittleEndian.PutUint64(id[:], n)
	return id
}

// TestStateAnywhere: two replicas that begin at different bases of one log judge each command
// in the same way, and encode the same state at the same entry.
func TestStateAnywhere(t *testing.T) {
	for _, most := range []uint64{0, 1, 8, 25} {
		t.Run(fmt.Sprint(most), func(t *testing.T) { testStateAnywhere(t, most) })
	}
}

func testStateAnywhere(t *testing.T, most uint64) {
	rng := randtest.New(t)
	const window, entries = 10, 300
	begin := FirstBase([]uint64{1, 2, 3}, window)
	var long state
	if err := long.load(&begin, whole); err != nil {
		t.Fatal(err)
	}
	long.most = most
	followers := []*state{}
	duplicates, expired := 0, 0
	for i := uint64(Bootstrap + 1); i < entries; i++ {
		var noted []command.ID
		for range 1 + rng.IntN(3) { // commands of the entry
			c := &command.Command{ID: commandID(rng.Uint64N(i/4 + 1)), After: i - 1 - min(i-1, rng.Uint64N(window+3))}
			before, err := long.judge(c, i)
			for k, f := range followers {
				if b, e := f.judge(c, i); b != before || (e == nil) != (err == nil) {
					t.Fatalf("entry %d: replica %d says %d, %v; the first one %d, %v", i, k, b, e, before, err)
				}
			}
			switch {
			case err != nil:
				expired++
			case before != 0:
				duplicates++
			case !slices.Contains(noted, c.ID):
				noted = append(noted, c.ID)
			}
		}
		for _, id := range noted {
			for _, s := range append(followers, &long) {
				s.note(id, i)
			}
		}
		if rng.IntN(20) == 0 {
			for _, s := range append(followers, &long) {
				s.confs = append(s.confs, confAt{i, &pb.ConfState{Voters: []uint64{i}}})
			}
		}
		for _, s := range append(followers, &long) {
			s.applied = i
		}
		if rng.IntN(10) == 0 {
			// One that begins at an entry a while ago has to be told what came since; here it
			// begins now, with the state that the first replica gives it.
			b := long.at(i, 1)
			s := new(state)
			if err := s.load(&b, whole); err != nil {
				t.Fatal(err)
			}
			followers = append(followers, s)
		}
		if len(followers) > 0 && rng.IntN(5) == 0 {
			f := followers[rng.IntN(len(followers))]
			base := f.confs[0].index
			to := base + rng.Uint64N(i-base+1)
			want := long.at(to, 1)
			if got := f.at(to, 1); string(got.State) != string(want.State) || got.ConfState.String() != want.ConfState.String() {
				t.Fatalf("at entry %d, from base %d: %x %v, want %x %v", to, base, got.State, got.ConfState, want.State, want.ConfState)
			}
			if rng.IntN(2) == 0 && to > base {
				f.forget(to)
				f.confs[0].index = to // what a truncation makes the base
			}
		}
	}
	if duplicates < 10 && most != 1 || expired < 10 || len(followers) < 10 {
		t.Errorf("%d duplicates, %d expired, %d replicas: the test does too little", duplicates, expired, len(followers))
	}
}

// TestStateBounded: however many commands an entry has, the ids of no more than so many are kept, in memory and in the base of a log.
func TestStateBounded(t *testing.T) {
	b := FirstBase([]uint64{1}, 20_000)
	var s state
	if err := s.load(&b, whole); err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for i := uint64(2); i < 200; i++ {
		for range gatherOps {
			n++
			s.note(commandID(n), i)
		}
		s.applied = i
		if i%20 == 0 {
			s.forget(i)
		}
	}
	const most = 6 << 20
	if size := len(s.at(s.applied, 1).State); size > most {
		t.Errorf("after %d commands the state has %d bytes, at most %d are expected", n, size, most)
	}
	s.forget(s.applied)
	if len(s.index) > 1<<18 || len(s.commands) != len(s.index) {
		t.Errorf("%d and %d commands are remembered", len(s.commands), len(s.index))
	}
}

// TestAtMostOnce: of the proposals of one command at most one is carried out, wherever they
// come to lie in the log.
func TestAtMostOnce(t *testing.T) {
	rng := randtest.New(t)
	for range 2000 {
		window := 1 + rng.Uint64N(8)
		b := FirstBase([]uint64{1}, window)
		var s state
		if err := s.load(&b, whole); err != nil {
			t.Fatal(err)
		}
		if s.most = rng.Uint64N(6); s.most == 0 {
			s.most = mostCommands
		}
		after := rng.Uint64N(15)
		times := 0
		for i := uint64(2); i < 30; i++ {
			c := &command.Command{ID: commandID(1), After: after}
			if rng.IntN(3) > 0 {
				c = &command.Command{ID: commandID(100 + i), After: i - 1}
			}
			before, err := s.judge(c, i)
			if err == nil && before == 0 {
				s.note(c.ID, i)
				if c.ID == commandID(1) {
					times++
				}
			}
			for k := range rng.Uint64N(4) { // others in the entry
				s.note(commandID(1000*i+k), i)
			}
			s.applied = i
			if rng.IntN(4) == 0 {
				base := s.at(i, 1)
				s = state{}
				if err := s.load(&base, whole); err != nil {
					t.Fatal(err)
				}
			}
		}
		if times > 1 {
			t.Fatalf("window %d, after %d: carried out %d times", window, after, times)
		}
	}
}

// TestJudgeRefuses: a command that names an entry to come would be remembered too short.
func TestJudgeRefuses(t *testing.T) {
	b := FirstBase([]uint64{1}, 5)
	var s state
	if err := s.load(&b, whole); err != nil {
		t.Fatal(err)
	}
	if _, err := s.judge(&command.Command{ID: commandID(1), After: 7}, 7); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("after 7 in entry 7: %v", err)
	}
	if _, err := s.judge(&command.Command{ID: commandID(1), After: 2}, 8); !errors.Is(err, ErrExpired) {
		t.Errorf("after 2 in entry 8, window 5: %v", err)
	}
	if before, err := s.judge(&command.Command{ID: commandID(1), After: 2}, 7); before != 0 || err != nil {
		t.Errorf("after 2 in entry 7, window 5: %d, %v", before, err)
	}
}

// FuzzState: nothing panics, and a state that loads is encoded as it was.
func FuzzState(f *testing.F) {
	b := FirstBase([]uint64{1}, 5)
	f.Add(b.State)
	var s state
	if err := s.load(&b, whole); err != nil {
		f.Fatal(err)
	}
	s.note(commandID(rand.Uint64()), 1)
	f.Add(s.at(1, 1).State)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := FirstBase([]uint64{1}, 5)
		b.Index, b.State = 100, in
		var s state
		if s.load(&b, whole) != nil {
			return
		}
		base := s.at(100, 1)
		var again state
		if err := again.load(&base, whole); err != nil {
			t.Fatal(err)
		}
		if third := again.at(100, 1); string(third.State) != string(base.State) {
			t.Errorf("%x became %x", base.State, third.State)
		}
	})
}

// TestAnnounceSparesState: a snapshot that Raft asks for is announced without what the group remembers, which SnapshotAt adds.
func TestAnnounceSparesState(t *testing.T) {
	r := single(t, vfs.NewMem(), 1000)
	announce := func() float64 {
		return testing.AllocsPerRun(5, func() {
			s, err := storage{r.g.cfg.Log, r.g}.Snapshot()
			if m := s.GetMetadata(); err != nil || m.GetIndex() != r.g.Held() || m.GetTerm() != r.g.Term() || len(m.GetConfState().GetVoters()) != 1 {
				t.Fatalf("%v, %v", s, err)
			}
		})
	}
	before := announce()
	for n := range uint64(1000) {
		r.g.state.note(commandID(n), r.g.Applied())
	}
	if after := announce(); after > before {
		t.Errorf("%.0f allocations, %.0f without commands", after, before)
	}
}

// TestTruncateSparesState: a group that remembers many commands does not write them anew for few entries, unless the entries are
// old. When it has had enough entries, its log is truncated.
func TestTruncateSparesState(t *testing.T) {
	const remembered = 1000
	b := FirstBase([]uint64{1}, 1000)
	var s state
	must(t, s.load(&b, whole))
	for n := range uint64(remembered) {
		s.note(commandID(1_000_000+n), Bootstrap)
	}
	b = s.at(Bootstrap, 1)
	faulty := vfs.NewFaulty(vfs.NewMem())
	r, err := open(t, faulty, 1, &b)
	must(t, err)
	r.lead()
	written, logged := int64(0), int64(0)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpWrite && path.Dir(c.Name) == "raft" && path.Ext(c.Name) != ".log" {
			written += c.Len
		}
		return nil
	})
	truncate := func(old uint64) {
		t.Helper()
		must(t, r.g.TruncateFlushed(r.g.Held(), old))
		must(t, r.log.Note())
	}
	begin, first := r.g.cfg.Log.Base().Index, r.g.Applied()
	for n := range uint64(400) {
		before := r.g.cfg.Log.Bytes()
		r.ask(upsert(1+n, r.g.Applied(), "i"))
		logged += r.g.cfg.Log.Bytes() - before
		truncate(0)
	}
	if moved := r.g.cfg.Log.Base().Index; moved == begin || written > 2*logged+400*300 {
		t.Errorf("the base is at %d, was at %d; %d bytes were written for %d of entries", moved, begin, written, logged)
	}
	r.ask(upsert(1000, r.g.Applied(), "i"))
	truncate(r.g.Applied())
	if at := r.g.cfg.Log.Base().Index; at != r.g.Applied() || at <= first {
		t.Errorf("the base is at %d, entries up to %d are old", at, r.g.Applied())
	}
}
