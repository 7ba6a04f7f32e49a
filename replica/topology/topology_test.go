package topology

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

func epk(t testing.TB, text string) partmap.EPK {
	e, err := partmap.ParseEPK(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var all = partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}

// TestChanges: a group moves from one node to another and splits, and refuses what does not
// fit; the descriptor before a change stays as it was.
func TestChanges(t *testing.T) {
	g := New(1, "orders", all, 11, 12, 13)
	before := g.Append(nil)
	moving, err := g.Add(14, Incoming)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := moving.Moving(); !ok || r != (Replica{ID: 4, Node: 14, Role: Incoming}) || moving.Voters() != 3 || moving.Epoch != 2 {
		t.Fatalf("after Add: %+v", moving)
	}
	if _, _, err = moving.Split(epk(t, "10"), 2); !errors.Is(err, ErrInvalid) {
		t.Errorf("a split while a replica is incoming: %v", err)
	}
	moved, err := moving.Promote(4)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err = moved.Remove(1); err != nil {
		t.Fatal(err)
	}
	if _, on := moved.On(11); on || moved.Voters() != 3 || moved.Epoch != 4 {
		t.Fatalf("after the move: %+v", moved)
	}
	back, err := moved.Add(11, Learner)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := back.On(11); r.ID != 5 {
		t.Errorf("the node came back as replica %d", r.ID)
	}
	left, right, err := back.Split(epk(t, "10"), 2)
	if err != nil {
		t.Fatal(err)
	}
	if left.ID != 1 || right.ID != 2 || left.Epoch != back.Epoch+1 || right.Epoch != back.Epoch+1 ||
		!left.Range.Adjacent(right.Range) || !reflect.DeepEqual(left.Replicas, right.Replicas) {
		t.Errorf("halves %+v and %+v", left, right)
	}
	if string(g.Append(nil)) != string(before) {
		t.Error("a change has changed the group before it")
	}

	for name, change := range map[string]func() error{
		"a second replica":      func() error { _, err := g.Add(12, Learner); return err },
		"a new voter":           func() error { _, err := g.Add(15, Voter); return err },
		"a second incoming":     func() error { _, err := moving.Add(15, Incoming); return err },
		"promote a voter":       func() error { _, err := g.Promote(1); return err },
		"promote nobody":        func() error { _, err := g.Promote(9); return err },
		"remove nobody":         func() error { _, err := g.Remove(9); return err },
		"remove the last voter": func() error { _, err := New(1, "c", all, 5).Remove(1); return err },
		"cut at the beginning":  func() error { _, _, err := g.Split(partmap.MinEPK(), 2); return err },
		"cut at the end":        func() error { _, _, err := g.Split(partmap.MaxEPK(), 2); return err },
		"its own id":            func() error { _, _, err := g.Split(epk(t, "10"), 1); return err },
	} {
		if err := change(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecode: a descriptor comes back, and no cut or changed one panics or breaks a rule.
func TestDecode(t *testing.T) {
	g, err := New(7, "orders", partmap.Range{Min: epk(t, "0102"), Max: partmap.MaxEPK()}, 1, 300, 70000).Add(9, Incoming)
	if err != nil {
		t.Fatal(err)
	}
	p := g.Append(nil)
	if got, err := Decode(p); err != nil || !reflect.DeepEqual(got, g) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range p {
		if _, err := Decode(p[:n]); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%d bytes of %d: %v", n, len(p), err)
		}
	}
	if _, err := Decode(append(p[:len(p):len(p)], 0)); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	newer := append([]byte{version + 1}, p[1:]...)
	if _, err := Decode(newer); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(New(7, "orders", all, 1, 2, 3).Append(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		g, err := Decode(p)
		if err != nil {
			return
		}
		if again, err := Decode(g.Append(nil)); err != nil || !reflect.DeepEqual(again, g) {
			t.Errorf("%+v decodes as %+v, %v", g, again, err)
		}
	})
}

// TestMap: whatever the order in which a map hears of splits and moves, it ends with the
// newest groups, shows none that overlap, and never goes back.
func TestMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		live := []*Group{New(1, "c", all, 1, 2, 3)}
		history := []*Group{live[0]}
		for id := GroupID(2); id < 40; {
			i := r.IntN(len(live))
			g := live[i]
			if r.IntN(2) == 0 {
				moved, err := g.Add(NodeID(10+r.IntN(1000)), Learner)
				if err == nil {
					live[i] = moved
					history = append(history, moved)
				}
				continue
			}
			left, right, err := g.Split(partmap.Midpoint(g.Range), id)
			if err != nil {
				t.Fatal(err)
			}
			id++
			live[i] = left
			live = append(live, right)
			history = append(history, left, right)
		}
		m := NewMap()
		tell := func(g *Group) {
			var e partmap.EPK = g.Range.Min
			before := m.Find("c", &e)
			m.Update(g)
			if after := m.Find("c", &e); before != nil && after != nil && after.Epoch < before.Epoch {
				t.Fatalf("seed %d: the map went back from %+v to %+v", seed, before, after)
			}
			row := m.Groups("c")
			for i := 1; i < len(row); i++ {
				if row[i-1].Range.Overlaps(row[i].Range) {
					t.Fatalf("seed %d: %v and %v overlap", seed, row[i-1].Range, row[i].Range)
				}
			}
			if len(row) != m.Len() {
				t.Fatalf("seed %d: %d groups in the row, %d by id", seed, len(row), m.Len())
			}
		}
		for _, i := range r.Perm(len(history)) {
			tell(history[i])
			if r.IntN(3) == 0 {
				tell(history[r.IntN(len(history))])
			}
		}
		for _, g := range live {
			e := g.Range.Min
			if found := m.Find("c", &e); found != g || m.Group(g.ID) != g {
				t.Fatalf("seed %d: at %v the map has %+v, not %+v", seed, e, found, g)
			}
		}
		if m.Len() != len(live) {
			t.Fatalf("seed %d: %d groups, not %d", seed, m.Len(), len(live))
		}
	}
}

// TestFind: an EPK outside of what the map knows has no group.
func TestFind(t *testing.T) {
	m := NewMap()
	e := epk(t, "11")
	if m.Find("c", &e) != nil || m.Group(1) != nil {
		t.Error("an empty map knows a group")
	}
	m.Update(New(1, "c", partmap.Range{Min: epk(t, "10"), Max: epk(t, "20")}, 1))
	for text, want := range map[string]GroupID{"": 0, "0F": 0, "10": 1, "1FFF": 1, "20": 0, "3F": 0} {
		e := epk(t, text)
		var got GroupID
		if g := m.Find("c", &e); g != nil {
			got = g.ID
		}
		if got != want {
			t.Errorf("%q: group %d, want %d", text, got, want)
		}
	}
	if m.Find("d", &e) != nil {
		t.Error("another container has the group")
	}
}

// TestMadeAgain: the groups of a container that was made again under a name take the place of those of
// the one before, whatever the epochs say, and these do not come back.
func TestMadeAgain(t *testing.T) {
	m := NewMap()
	before := New(1<<32|1, "c", partmap.Range{Min: epk(t, ""), Max: epk(t, "FF")}, 1)
	before.Epoch = 1000
	left, right, err := before.Split(epk(t, "20"), 1<<32|2)
	if err != nil {
		t.Fatal(err)
	}
	now := New(7<<32|1, "c", partmap.Range{Min: epk(t, ""), Max: epk(t, "10")}, 2)
	if !m.Update(left) || !m.Update(right) || !m.Update(now) || m.Update(right) || m.Update(left) {
		t.Error("what was news is none, or the other way round")
	}
	if got := m.Groups("c"); len(got) != 1 || got[0] != now || m.Len() != 1 || m.Group(left.ID) != nil {
		t.Errorf("%v, %d groups", got, m.Len())
	}
	m.Drop(left.ID)
	if e := epk(t, "0F"); m.Find("c", &e) != now {
		t.Error("the group is not found")
	}
}
