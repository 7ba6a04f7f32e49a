package copypass

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// place is where an item lies.
type place struct{ key, id string }

// state is a container: documents "old key,new key" by place.
type state map[place]string

func (s state) item(at place) Item {
	return Item{Key: partmap.String(at.key), ID: at.id, Body: []byte(s[at])}
}

func (s state) Read(_ context.Context, key partmap.Key, id string, buf []byte) (Item, bool, error) {
	for at := range s {
		if partmap.String(at.key) == key && at.id == id {
			it := s.item(at)
			it.Body = append(buf, it.Body...)
			return it, true, nil
		}
	}
	return Item{}, false, nil
}

func (s state) items(all func(place) bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		order := func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) }
		for _, at := range slices.SortedFunc(maps.Keys(s), order) {
			if all(at) && !yield(s.item(at), nil) {
				return
			}
		}
	}
}

func (s state) Scan(_ context.Context, key partmap.Key) iter.Seq2[Item, error] {
	return s.items(func(at place) bool { return partmap.String(at.key) == key })
}

func keyAt(doc []byte, i int) (partmap.Key, error) {
	return partmap.String(strings.Split(string(doc), ",")[i]), nil
}

type source struct{}

func (source) KeyOf(doc []byte) (partmap.Key, error) { return keyAt(doc, 0) }
func (source) Expired(expires int64) bool            { return false }

type destination struct {
	state
	id    func() string // of the item whose document was taken
	taken string
}

func (d *destination) All(context.Context) iter.Seq2[Item, error] {
	return d.items(func(place) bool { return true })
}

func (d *destination) KeyOf(doc []byte, take bool) (partmap.Key, error) {
	if take {
		d.taken = string(doc)
	}
	return keyAt(doc, 1)
}

func (d *destination) Put(context.Context, int64) error {
	d.state[place{strings.Split(d.taken, ",")[1], d.id()}] = d.taken
	return nil
}

func (d *destination) Remove(_ context.Context, key partmap.Key, id string) error {
	maps.DeleteFunc(d.state, func(at place, _ string) bool { return partmap.String(at.key) == key && at.id == id })
	return nil
}

// pass makes one pass over all items of two states.
func pass(t *testing.T, d *destination, before, now state) error {
	var copied, removed int64
	p := Pass{Src: source{}, Dst: d, Next: now, Copied: &copied, Removed: &removed}
	if before != nil {
		p.At = before
	} else if err := p.Weed(t.Context()); err != nil {
		return err
	}
	all := maps.Clone(now)
	for at := range before {
		if _, ok := all[at]; !ok {
			all[at] = "" // deleted
		}
	}
	for it := range all.items(func(place) bool { return true }) {
		d.id = func() string { return it.ID }
		if err := p.Change(t.Context(), &it); err != nil {
			return err
		}
	}
	return nil
}

// TestPasses: after each of many passes the destination equals the source, whatever was
// written, deleted or given another key in between. A collision is an error; the next pass
// is a first pass, as after any error.
func TestPasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letter := func() string { return string(rune('a' + rng.IntN(4))) }
	d := &destination{state: state{{"stray", "x"}: "gone,stray"}}
	var before state
	now := state{}
	collisions, equal := 0, 0
	for range 2000 {
		for range 1 + rng.IntN(5) {
			at := place{letter(), letter()}
			if rng.IntN(3) == 0 {
				delete(now, at)
			} else {
				now[at] = at.key + "," + letter()
			}
		}
		want := state{}
		collide := false
		for at, doc := range now {
			to := place{strings.Split(doc, ",")[1], at.id}
			_, twice := want[to]
			collide = collide || twice
			want[to] = doc
		}
		err := pass(t, d, before, now)
		var collision *CollisionError
		if collide != errors.As(err, &collision) || !collide && err != nil {
			t.Fatalf("collision %v: %v", collide, err)
		}
		if collide {
			collisions++
			before = nil
			continue
		}
		if equal++; !maps.Equal(d.state, want) {
			t.Fatalf("%v\nwant %v", d.state, want)
		}
		before = maps.Clone(now)
	}
	if collisions < 100 || equal < 100 {
		t.Errorf("%d collisions, %d equal", collisions, equal)
	}
}
