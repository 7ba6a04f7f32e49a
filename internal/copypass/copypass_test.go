package copypass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// place is where an item lies.
type place struct{ key, id string }

// state is a container: documents "old key,new key" by place. A third part is when the item
// expires.
type state map[place]string

// expires returns when the item of a document expires.
func expires(doc string) (at int64) {
	if parts := strings.Split(doc, ","); len(parts) == 3 {
		at, _ = strconv.ParseInt(parts[2], 10, 64)
	}
	return at
}

// lasting returns the documents that compactions may not drop.
func (s state) lasting(purge source) state {
	left := maps.Clone(s)
	maps.DeleteFunc(left, func(_ place, doc string) bool { return expires(doc) != 0 && purge.Purgeable(expires(doc)) })
	return left
}

func (s state) item(at place) Item {
	return Item{Key: partmap.String(at.key), ID: at.id, Body: []byte(s[at]), Expires: expires(s[at])}
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

type source int64 // what had expired by it may be dropped

func (source) KeyOf(doc []byte) (partmap.Key, error) { return keyAt(doc, 0) }
func (s source) Purgeable(expires int64) bool        { return expires <= int64(s) }

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
func pass(t *testing.T, src source, d *destination, before, now state) error {
	var copied, removed int64
	p := Pass{Src: src, Dst: d, Next: now, Copied: &copied, Removed: &removed}
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
// written, deleted or given another key in between, but for items that compactions may drop. A
// collision is an error; the next pass is a first pass, as after any error.
func TestPasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letter := func() string { return string(rune('a' + rng.IntN(4))) }
	d := &destination{state: state{{"stray", "x"}: "gone,stray"}}
	var before state
	now := state{}
	collisions, equal := 0, 0
	for src := range source(2000) {
		for range 1 + rng.IntN(5) {
			at := place{letter(), letter()}
			if rng.IntN(3) == 0 {
				delete(now, at)
			} else {
				now[at] = at.key + "," + letter()
				if rng.IntN(2) == 0 {
					now[at] += fmt.Sprint(",", src+source(rng.IntN(4)))
				}
			}
		}
		want := state{}
		collide := false
		for at, doc := range now.lasting(src) {
			to := place{strings.Split(doc, ",")[1], at.id}
			_, twice := want[to]
			collide = collide || twice
			want[to] = doc
		}
		err := pass(t, src, d, before, now)
		var collision *CollisionError
		if collide != errors.As(err, &collision) || !collide && err != nil {
			t.Fatalf("collision %v: %v", collide, err)
		}
		if collide {
			collisions++
			before = nil
			continue
		}
		if equal++; !maps.Equal(d.state.lasting(src), want) {
			t.Fatalf("%v\nwant %v", d.state, want)
		}
		before = maps.Clone(now)
	}
	if collisions < 100 || equal < 100 {
		t.Errorf("%d collisions, %d equal", collisions, equal)
	}
}
