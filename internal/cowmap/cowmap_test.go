package cowmap

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestMap compares a map with one of the language, through random changes, and with it
// each map that came before: none changes.
func TestMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	type past struct {
		m    *Map[int]
		want map[string]*int
	}
	var kept []past
	var m *Map[int]
	want := map[string]*int{}
	for i := range 3000 {
		name := strconv.Itoa(rng.IntN(200))
		if rng.IntN(3) == 0 {
			m = m.Without(name)
			delete(want, name)
		} else {
			v := &i
			m = m.With(name, v)
			want[name] = v
		}
		if m.Get(name) != want[name] {
			t.Fatalf("step %d: %s", i, name)
		}
		if i%100 == 0 {
			kept = append(kept, past{m, maps.Clone(want)})
		}
	}
	for i, p := range kept {
		if got := maps.Collect(p.m.All()); !maps.Equal(got, p.want) || p.m.Len() != len(p.want) {
			t.Errorf("map %d: %d entries, Len %d, want %d", i, len(got), p.m.Len(), len(p.want))
		}
		n := 0
		for range p.m.Values() {
			n++
		}
		if n != len(p.want) {
			t.Errorf("map %d: %d values", i, n)
		}
	}
	if len(m.recent)*len(m.recent) > 4*len(m.settled)+4 {
		t.Errorf("%d recent changes of %d entries", len(m.recent), len(m.settled))
	}
}

// TestNil: the nil map is empty.
func TestNil(t *testing.T) {
	var m *Map[int]
	for range m.All() {
		t.Error("an entry")
	}
	if m.Get("x") != nil || m.Len() != 0 || m.Without("x").Len() != 0 {
		t.Error("not empty")
	}
	one := 1
	if New(map[string]*int{"x": &one}).With("y", &one).Len() != 2 {
		t.Error("Len")
	}
}
