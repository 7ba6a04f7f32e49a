package memtable

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
)

// TestArrivals puts versions in order, and restores some out of it.
func TestArrivals(t *testing.T) {
	const n = 1000
	rng := rand.New(rand.NewPCG(1, 1))
	keys := makeKeys(50, 3)
	table := New(arena.NewPool(1<<22), Range{}, 50, item.NewSeed())
	defer table.Release()
	if from, to, ok := table.Arrivals(0); from != 0 || to != 0 || !ok {
		t.Fatalf("an empty table has %d to %d, in order: %v", from, to, ok)
	}
	put := make(map[uint64]*item.Key)
	restore := func(seq uint64) {
		t.Helper()
		k := put[seq]
		if k == nil {
			k = &keys[rng.IntN(len(keys))]
			put[seq] = k
		}
		if err := table.Restore(k, &item.Version{Seq: seq, Body: []byte{byte(seq)}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(after uint64) {
		t.Helper()
		var want, got []uint64
		for seq := range put {
			if seq > after {
				want = append(want, seq)
			}
		}
		slices.Sort(want)
		from, to, ok := table.Arrivals(after)
		if !ok {
			table.Refs(after, 1<<63, func(_ Ref, seq uint64) { got = append(got, seq) })
			slices.Sort(got)
		}
		for ; ok && from < to; from++ {
			r, seq := table.Arrival(from)
			got = append(got, seq)
			var k item.Key
			var v item.Version
			table.Borrow(r, &k, &v)
			if v.Seq != seq || item.Compare(&k, put[seq]) != 0 || v.Body[0] != byte(seq) {
				t.Fatalf("sequence %d is another version", seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("above %d: %d versions, want %d", after, len(got), len(want))
		}
		upTo := after + rng.Uint64N(n)
		want = slices.DeleteFunc(want, func(seq uint64) bool { return seq > upTo })
		got = got[:0]
		for _, a := range table.InOrder(after, upTo) {
			got = append(got, a.Seq)
			var k item.Key
			var v item.Version
			table.Borrow(a.Ref, &k, &v)
			if v.Seq != a.Seq {
				t.Fatalf("sequence %d is version %d", a.Seq, v.Seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("above %d, up to %d: %d versions, want %d", after, upTo, len(got), len(want))
		}
	}
	for seq := uint64(2); seq <= n; seq += 2 {
		restore(seq)
	}
	for range 20 {
		after := rng.Uint64N(n)
		if _, _, ok := table.Arrivals(after); !ok {
			t.Fatal("not in order")
		}
		check(after)
	}
	for range 200 { // older ones, some of them known
		restore(1 + rng.Uint64N(n))
	}
	if _, _, ok := table.Arrivals(n - 1); ok {
		t.Error("in order, after older versions were restored")
	}
	for seq := uint64(n + 1); seq <= n+300; seq++ {
		restore(seq)
	}
	if _, _, ok := table.Arrivals(n); !ok {
		t.Error("the newest are not in order")
	}
	for range 40 {
		check(rng.Uint64N(n + 300))
	}
	if table.Versions() != int64(len(put)) {
		t.Errorf("%d versions, want %d", table.Versions(), len(put))
	}
	var v item.Version
	for seq, k := range put {
		if !table.Get(k.Lookup(), seq, &v) || v.Seq != seq {
			t.Fatalf("version %d is not found", seq)
		}
	}
}
