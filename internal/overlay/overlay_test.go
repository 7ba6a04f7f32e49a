package overlay

import (
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ id, body string }

func scanOf(items []item, err error) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
		if err != nil {
			yield(item{}, err)
		}
	}
}

// TestScan compares scans with random changes over them with a map.
func TestScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	stopped := 0
	for range 5000 {
		want := map[string]item{}
		var below []item
		for _, id := range "abcdefgh" {
			if rng.IntN(2) == 0 {
				it := item{string(id), "below"}
				below, want[it.id] = append(below, it), it
			}
		}
		var changes []Change[item]
		for _, i := range rng.Perm(8)[:rng.IntN(5)] {
			c := Change[item]{ID: string(rune('a' + i)), Deleted: rng.IntN(3) == 0}
			c.Item = item{c.ID, "over"}
			changes, want[c.ID] = append(changes, c), c.Item
			if c.Deleted {
				delete(want, c.ID)
			}
		}
		reverse := rng.IntN(2) == 0
		ids := slices.Sorted(maps.Keys(want))
		if reverse {
			slices.Reverse(ids)
			slices.Reverse(below)
		}
		Sort(changes, reverse)
		limit, leave := rng.IntN(6), rng.IntN(9)
		var got []item
		s := Scan[item]{Changes: changes, Reverse: reverse, Limit: limit, ID: func(it *item) string { return it.id }, Yield: func(it item) bool {
			got = append(got, it)
			return len(got) != leave
		}}
		if err := s.Run(scanOf(below, nil)); err != nil {
			t.Fatal(err)
		}
		n := len(ids)
		if limit > 0 {
			n = min(n, limit)
		}
		if leave > 0 {
			n = min(n, leave)
		}
		if len(got) != n {
			t.Fatalf("%d items of %v, limit %d, left after %d", len(got), ids, limit, leave)
		}
		for i, it := range got {
			if it != want[ids[i]] {
				t.Fatalf("item %d is %v, want %v", i, it, want[ids[i]])
			}
		}
		ends := n > 0 && (n == limit || n == leave)
		if s.Stopped != ends || ends && s.Last != ids[n-1] {
			t.Fatalf("stopped %v at %q, %d of %v, limit %d, left after %d", s.Stopped, s.Last, n, ids, limit, leave)
		}
		if ends {
			stopped++
		}
	}
	if stopped < 1000 {
		t.Errorf("only %d scans were stopped", stopped)
	}
}

// TestError: an error of the scan ends it; changes behind it do not come.
func TestError(t *testing.T) {
	bad := errors.New("bad")
	n := 0
	s := Scan[item]{Changes: []Change[item]{{ID: "z"}}, ID: func(it *item) string { return it.id }, Yield: func(item) bool { n++; return true }}
	if err := s.Run(scanOf([]item{{"a", ""}}, bad)); err != bad || n != 1 {
		t.Errorf("%v after %d items", err, n)
	}
}
