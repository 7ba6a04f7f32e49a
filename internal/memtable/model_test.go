package memtable

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

// model is the reference: entries in key order, versions newest first.
type model []*modelEntry

type modelEntry struct {
	key      item.Key
	versions []item.Version
}

func (m model) search(k *item.Key) (int, bool) {
	return slices.BinarySearchFunc(m, k, func(e *modelEntry, k *item.Key) int { return item.Compare(&e.key, k) })
}

func (m model) put(k *item.Key, v item.Version) model {
	i, found := m.search(k)
	if !found {
		m = slices.Insert(m, i, &modelEntry{key: k.Clone()})
	}
	if e := m[i]; len(e.versions) == 0 || e.versions[0].Seq < v.Seq {
		e.versions = slices.Insert(e.versions, 0, v)
	}
	return m
}

func (e *modelEntry) visible(maxSeq uint64) *item.Version {
	for i := range e.versions {
		if e.versions[i].Seq <= maxSeq {
			return &e.versions[i]
		}
	}
	return nil
}

// keySource draws keys that collide in every way: few hashes, some close to
// each other, equal EPKs of different keys, ids that are prefixes.
type keySource struct {
	rnd    *rand.Rand
	hashes []uint64
}

func newKeySource(rnd *rand.Rand, n int) *keySource {
	s := &keySource{rnd: rnd, hashes: []uint64{0, math.MaxUint64}}
	for range n {
		h := rnd.Uint64()
		s.hashes = append(s.hashes, h, h+1, h>>2, h&0xffff)
	}
	return s
}

func (s *keySource) draw() item.Key {
	k := makeKey(s.hashes[s.rnd.IntN(len(s.hashes))], "", "")
	for range s.rnd.IntN(3) {
		k.EPK = append(k.EPK, bytes.Repeat([]byte{byte(s.rnd.IntN(2))}, 16)...)
	}
	k.PK = bytes.Repeat([]byte{'p'}, s.rnd.IntN(3))
	k.ID = fmt.Appendf(nil, "%b", s.rnd.IntN(200))
	return k
}

func sameVersion(a, b *item.Version) bool {
	return a.Seq == b.Seq && a.Modified == b.Modified && a.Expires == b.Expires &&
		a.Flags == b.Flags && bytes.Equal(a.Body, b.Body)
}

func TestModel(t *testing.T) {
	rnd := randtest.New(t)
	configurations := []struct {
		r      Range
		expect int
		hashes int
		puts   int
	}{
		{Range{}, 0, 1, 300},
		{Range{}, 1 << 20, 200, 3000},
		{Range{Lo: 1 << 62, Hi: 0}, 5000, 50, 2000},
		{Range{Lo: 1000, Hi: 1010}, 3000, 5, 1500},
		{Range{Lo: 9, Hi: 9}, 1000, 300, 2000},
		{Range{Lo: 0, Hi: 1 << 62}, 100, 2, 2000},
	}
	for _, c := range configurations {
		if testing.Short() {
			c.puts /= 4
		}
		t.Run(fmt.Sprintf("%x-%x/%d", c.r.Lo, c.r.Hi, c.puts), func(t *testing.T) {
			table := New(dirtyPool(t), c.r, c.expect, item.NewSeed())
			defer table.Release()
			source := newKeySource(rnd, c.hashes)
			var m model
			var seq uint64
			raw, versions := int64(0), int64(0)
			for i := range c.puts {
				k := source.draw()
				seq += uint64(rnd.IntN(3))
				v := item.Version{Seq: seq + 1, Modified: rnd.Int64(), Expires: rnd.Int64()}
				if rnd.IntN(5) == 0 {
					v.Flags = item.Tombstone
				} else {
					v.Body = bytes.Repeat([]byte{byte(i)}, rnd.IntN(40))
				}
				if e, found := m.search(&k); !found || m[e].versions[0].Seq < v.Seq {
					raw += int64(len(v.Body))
					versions++
				}
				m = m.put(&k, v)
				mustPut(t, table, &k, &v)
			}
			if table.Items() != int64(len(m)) || table.Versions() != versions || table.RawBytes() != raw {
				t.Fatalf("counts: %d items, %d versions, %d bytes; want %d, %d, %d",
					table.Items(), table.Versions(), table.RawBytes(), len(m), versions, raw)
			}
			for _, maxSeq := range []uint64{0, 1, seq / 3, seq, seq + 1, math.MaxUint64} {
				checkWalk(t, table, m, maxSeq)
				checkCursor(t, table, m, maxSeq, source)
				checkGets(t, table, m, maxSeq, source)
			}
		})
	}
}

func checkGets(t *testing.T, table *Table, m model, maxSeq uint64, source *keySource) {
	t.Helper()
	check := func(k *item.Key) {
		var want *item.Version
		if i, found := m.search(k); found {
			want = m[i].visible(maxSeq)
		}
		var v item.Version
		if ok := table.Get(k.Lookup(), maxSeq, &v); ok != (want != nil) || ok && !sameVersion(&v, want) {
			t.Fatalf("Get(%x %x %s, %d) = %v %v, want %v", k.EPK, k.PK, k.ID, maxSeq, ok, v, want)
		}
	}
	for _, e := range m {
		check(&e.key)
	}
	for range 500 {
		k := source.draw()
		check(&k)
	}
}

func checkWalk(t *testing.T, table *Table, m model, maxSeq uint64) {
	t.Helper()
	w := table.Walk(maxSeq)
	for _, e := range m {
		for i := range e.versions {
			if e.versions[i].Seq > maxSeq {
				continue
			}
			if !w.Next() {
				t.Fatalf("Walk(%d) ends early", maxSeq)
			}
			if item.Compare(w.Key(), &e.key) != 0 || !sameVersion(w.Version(), &e.versions[i]) {
				t.Fatalf("Walk(%d): %v %v, want %v %v", maxSeq, w.Key(), w.Version(), e.key, e.versions[i])
			}
		}
	}
	for range 2 {
		if w.Next() {
			t.Fatalf("Walk(%d) goes on", maxSeq)
		}
	}
}

// checkCursor moves a cursor and an index into the visible part of the model at
// random and compares them.
func checkCursor(t *testing.T, table *Table, m model, maxSeq uint64, source *keySource) {
	t.Helper()
	var seen model
	for _, e := range m {
		if e.visible(maxSeq) != nil {
			seen = append(seen, e)
		}
	}
	c := table.Cursor(maxSeq)
	at, rnd := -1, source.rnd
	for range 2000 {
		var op string
		var got bool
		switch rnd.IntN(16) {
		case 0:
			op, got, at = "First", c.First(), 0
		case 1:
			op, got, at = "Last", c.Last(), len(seen)-1
		case 2, 3:
			k := source.draw()
			op, got = "SeekGE", c.SeekGE(&k)
			at, _ = seen.search(&k)
		case 4, 5:
			k := source.draw()
			op, got = "SeekLT", c.SeekLT(&k)
			at, _ = seen.search(&k)
			at--
		case 6, 7, 8, 9, 10:
			op, got = "Next", c.Next()
			if at >= 0 {
				at++
			}
		default:
			op, got = "Prev", c.Prev()
			if at >= 0 {
				at--
			}
		}
		if at < 0 || at >= len(seen) {
			at = -1
		}
		if got != (at >= 0) || c.Valid() != got {
			t.Fatalf("%s at %d of %d (bound %d): %v, valid %v", op, at, len(seen), maxSeq, got, c.Valid())
		}
		if !got {
			continue
		}
		if e := seen[at]; item.Compare(c.Key(), &e.key) != 0 || !sameVersion(c.Version(), e.visible(maxSeq)) {
			t.Fatalf("%s: %v %v, want %v %v", op, c.Key(), c.Version(), e.key, e.visible(maxSeq))
		}
	}
}

// sorted returns m in key order.
func sorted(m model) model {
	slices.SortFunc(m, func(a, b *modelEntry) int { return item.Compare(&a.key, &b.key) })
	return m
}
