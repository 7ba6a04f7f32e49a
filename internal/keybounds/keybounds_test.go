package keybounds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// keyOf returns the key of an item.
func keyOf(t *testing.T, levels int, pk, id string) item.Key {
	t.Helper()
	k, err := partmap.Join(slices.Repeat([]partmap.Key{partmap.String(pk)}, levels)...)
	if err != nil {
		t.Fatal(err)
	}
	epk := k.EPK()
	return item.Key{Hash: item.HashOf(epk.Bytes()), EPK: slices.Clone(epk.Bytes()), PK: []byte(k.Encoded()), ID: []byte(id)}
}

// list is a cursor over keys in order.
type list struct {
	keys []item.Key
	at   int
}

func (l *list) to(at int) bool {
	l.at = at
	return at >= 0 && at < len(l.keys)
}

func (l *list) lower(k *item.Key) int {
	n, _ := slices.BinarySearchFunc(l.keys, *k, func(a, b item.Key) int { return item.Compare(&a, &b) })
	return n
}

func (l *list) SeekGE(k *item.Key) bool { return l.to(l.lower(k)) }
func (l *list) SeekLT(k *item.Key) bool { return l.to(l.lower(k) - 1) }
func (l *list) Next() bool              { return l.to(l.at + 1) }
func (l *list) Prev() bool              { return l.to(l.at - 1) }
func (l *list) First() bool             { return l.to(0) }
func (l *list) Last() bool              { return l.to(len(l.keys) - 1) }
func (l *list) Key() *item.Key          { return &l.keys[l.at] }
func (l *list) Version() *item.Version  { return nil }

// TestBounds: bounds hold the keys of their range and no others, and cursors move within them as a
// walk over the keys of the range would. The ranges meet at hashes of keys too, right beside them,
// and at what the table of a file has of them.
func TestBounds(t *testing.T) {
	for levels := 1; levels <= item.MaxLevels; levels++ {
		var l list
		for pk := range 40 {
			for id := range 3 {
				l.keys = append(l.keys, keyOf(t, levels, fmt.Sprint("key ", pk), fmt.Sprint(id)))
			}
		}
		slices.SortFunc(l.keys, func(a, b item.Key) int { return item.Compare(&a, &b) })
		ranges := slices.Concat(partmap.Ranges(1), partmap.Ranges(2), partmap.Ranges(7))
		var at []partmap.EPK
		for i := 0; i < len(l.keys); i += 9 {
			k := &l.keys[i]
			near, short := item.Key{EPK: slices.Clone(k.EPK)}, item.Key{EPK: slices.Clone(k.EPK)}
			near.EPK[len(near.EPK)-1] ^= 1
			clear(short.EPK[len(short.EPK)-8:])
			at = append(at, epkOf(t, k), epkOf(t, &near), epkOf(t, &short))
			ranges = append(ranges, partmap.Range{Min: epkOf(t, &short), Max: partmap.MaxEPK()})
		}
		slices.SortFunc(at, func(a, b partmap.EPK) int { return a.Compare(&b) })
		ranges = append(ranges, partmap.Tile(slices.Concat([]partmap.EPK{partmap.MinEPK()}, slices.Compact(at), []partmap.EPK{partmap.MaxEPK()}))...)
		for _, r := range ranges {
			b := New(r, levels)
			var within []item.Key
			for i := range l.keys {
				k := &l.keys[i]
				epk := epkOf(t, k)
				if got := b.Holds(k); got != r.Contains(&epk) {
					t.Fatalf("%v, %d levels: holds a key at %v: %v", r, levels, epk, got)
				}
				if b.Holds(k) {
					within = append(within, *k)
				}
				holds, sure := b.HoldsEntry(k.EPK[:len(k.EPK)-8])
				if sure && holds != b.Holds(k) {
					t.Errorf("%v, %d levels: is sure of %v for a key at %v", r, levels, holds, epk)
				}
			}
			moves(t, &l, b, within)
		}
		moves(t, &l, nil, l.keys)
	}
}

func epkOf(t *testing.T, k *item.Key) partmap.EPK {
	t.Helper()
	epk, err := partmap.EPKFromBytes(k.EPK)
	if err != nil {
		t.Fatal(err)
	}
	return epk
}

// moves compares each movement of a cursor within bounds with the keys that lie within.
func moves(t *testing.T, l *list, b *Bounds, within []item.Key) {
	t.Helper()
	check := func(what string, ok bool, i int) {
		t.Helper()
		if want := i >= 0 && i < len(within); ok != want || ok && item.Compare(l.Key(), &within[i]) != 0 {
			t.Fatalf("%v: %s: %v, want key %d of %d", b, what, ok, i, len(within))
		}
	}
	check("first", b.Start(l, false), 0)
	check("last", b.Start(l, true), len(within)-1)
	for i := range l.keys {
		before := l.keys[i] // no key, right before this one
		before.ID = before.ID[:len(before.ID)-1]
		for _, k := range []item.Key{l.keys[i], before} {
			n, there := slices.BinarySearchFunc(within, k, func(a, b item.Key) int { return item.Compare(&a, &b) })
			after := n
			if there {
				after++
			}
			check("from", b.Seek(l, &k, false, true), n)
			check("after", b.Seek(l, &k, false, false), after)
			check("back from", b.Seek(l, &k, true, true), after-1)
			check("before", b.Seek(l, &k, true, false), n-1)
		}
	}
}

// TestAt: a boundary that is longer than the keys lies behind the key that has its beginning.
func TestAt(t *testing.T) {
	k := keyOf(t, 1, "a", "")
	long := append(slices.Clone(k.EPK), make([]byte, len(k.EPK))...)
	for _, c := range []struct {
		last  byte
		above bool // the key
	}{{0, true}, {1, false}} {
		long[len(long)-1] = c.last
		at, err := partmap.EPKFromBytes(long)
		if err != nil {
			t.Fatal(err)
		}
		lo := At(&at, 1)
		if above := item.Compare(&lo, &k) <= 0; above != c.above {
			t.Errorf("boundary %v: the key at %X is above it: %v", at, k.EPK, above)
		}
	}
}

// TestShare: the share is that of the distance between two keys, from where their EPKs differ on.
func TestShare(t *testing.T) {
	at := func(levels int, b ...byte) item.Key {
		epk := append(b, make([]byte, 16*levels-len(b))...)
		return item.Key{Hash: item.HashOf(epk), EPK: epk}
	}
	tenant := func(b byte) item.Key { return at(2, append(make([]byte, 16), b)...) }
	for _, c := range []struct {
		lo, hi, from, to item.Key
		want             float64
	}{
		{at(1), at(1, 0xFF), at(1, 0x10), at(1, 0x30), 1},
		{at(1), at(1, 0x20), at(1, 0x10), at(1, 0x30), 0.5},
		{at(1, 0x28), at(1, 0xFF), at(1, 0x10), at(1, 0x30), 0.25},
		{at(1, 0x18), at(1, 0x20), at(1, 0x10), at(1, 0x30), 0.25},
		{at(1), at(1, 0x10), at(1, 0x10), at(1, 0x30), 0},
		{at(1), at(1, 0x20), at(1, 0x10), at(1, 0x10), 1},
		{at(2), tenant(0x20), tenant(0x10), tenant(0x30), 0.5},
		{item.Key{}, at(1, 0xFF), item.Key{}, item.Key{}, 1},
	} {
		b := Bounds{Lo: c.lo, Hi: c.hi}
		if got := b.Share(&c.from, &c.to); got != c.want {
			t.Errorf("from %X to %X within %X and %X: %v, want %v", c.from.EPK, c.to.EPK, c.lo.EPK, c.hi.EPK, got, c.want)
		}
	}
}
