package index

import (
	"context"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestBoth compares what postings of all kinds of containers have in common, in
// whole and in ranges, with plain lists.
func TestBoth(t *testing.T) {
	rng := randtest.New(t)
	const items = 150_000
	names := []string{"dense", "thin", "sparse", "runs", "mixed", "few", "one"}
	has := func(name string, o int) bool {
		switch name {
		case "dense":
			return rng.IntN(2) == 0
		case "thin": // a bitmap here, an array in CRoaring
			return rng.IntN(25) == 0
		case "sparse":
			return rng.IntN(100) == 0
		case "runs":
			return o/1000%3 == 0
		case "mixed":
			return o < 65536 && rng.IntN(200) == 0 || o >= 131072 && rng.IntN(3) > 0
		case "few":
			return rng.IntN(1000) == 0
		}
		return o == items/2
	}
	b := NewBuilder(mustCompile(t, All()), 0, nil)
	defer b.Close()
	lists := make(map[string][]uint32)
	for o := range items {
		doc := []byte(`{"z":1`)
		for _, name := range names {
			if has(name, o) {
				doc = append(doc, `,"`+name+`":true`...)
				lists[name] = append(lists[name], uint32(o))
			}
		}
		if err := b.Add(uint32(o), append(doc, '}')); err != nil {
			t.Fatal(err)
		}
	}
	r := mustOpen(t, written(t, b, items))
	postings := make(map[string]Posting)
	for _, name := range names {
		p, ok, err := r.Lookup(Equal(Path{}.Member(name), BoolValue(true)).From)
		if err != nil || !ok || p.Len() != len(lists[name]) {
			t.Fatalf("%s: %d, %t, %v", name, p.Len(), ok, err)
		}
		postings[name] = p
	}
	for _, a := range names {
		for _, b := range names {
			lo, hi := uint32(0), uint32(items)
			if rng.IntN(3) > 0 {
				lo = rng.Uint32N(items)
				hi = lo + rng.Uint32N(items-lo+1)
			}
			p, q := postings[a], postings[b]
			var want []uint32
			for _, o := range lists[a] {
				if _, ok := slices.BinarySearch(lists[b], o); ok {
					want = append(want, o)
				}
			}
			from, _ := slices.BinarySearch(want, lo)
			to, _ := slices.BinarySearch(want, hi)
			var s Set
			s.Reset(lo, hi)
			if p.Kind() == Large && q.Kind() == Large {
				if n, err := p.CountBoth(&q); n != len(want) || err != nil {
					t.Fatalf("%s and %s: %d, %v, not %d", a, b, n, err, len(want))
				}
				if err := p.AddBoth(&q, &s); err != nil || !slices.Equal(s.AppendTo(nil), want[from:to]) {
					t.Fatalf("%s and %s from %d to %d: %d ordinals, %v, not %d", a, b, lo, hi, s.Count(), err, to-from)
				}
			}
			s.Reset(lo, hi)
			if err := p.AddTo(&s); err != nil {
				t.Fatal(err)
			}
			if err := q.Retain(&s); err != nil || !slices.Equal(s.AppendTo(nil), want[from:to]) {
				t.Fatalf("%s with %s from %d to %d: %d ordinals, %v, not %d", a, b, lo, hi, s.Count(), err, to-from)
			}
			s.Reset(lo, hi)
			part, both := 1+rng.IntN(400), int64(0)
			for _, o := range lists[a] {
				if o >= lo && o < hi && rng.IntN(part) == 0 {
					s.Add(o)
					if _, ok := slices.BinarySearch(lists[b], o); ok {
						both++
					}
				}
			}
			if n, err := r.CountIn(context.Background(), Exists(Path{}.Member(b)), &s); n != both || err != nil {
				t.Fatalf("%s in %d of %s from %d to %d: %d, %v, not %d", b, s.Count(), a, lo, hi, n, err, both)
			}
		}
	}
}
