package index

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestOrdered: an order has its ordinals by their strings and then by number, says which strings are
// the same, and begins each as it is. It leaves out what is no such ordinal or comes again, and knows
// which ordinals it lacks.
func TestOrdered(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	for range 200 {
		const items = 1000
		var all, rest, lacking Set
		all.Reset(0, items)
		rest.Reset(0, items)
		lacking.Reset(0, items)
		var list, want []Rest
		same := bytes.Repeat([]byte("a"), rng.IntN(12))
		for at := range uint32(items) {
			text := fmt.Appendf(bytes.Clone(same), "%d\x00\x01", rng.IntN(300)<<rng.IntN(40))
			switch rng.IntN(4) {
			case 0:
				all.Add(at)
				want = append(want, Rest{at, text})
				list = append(list, Rest{at, text}, Rest{at, text})
			case 1:
				all.Add(at)
				lacking.Add(at)
			case 2:
				list = append(list, Rest{at, text})
			default:
				rest.Add(at)
			}
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		slices.SortFunc(want, func(a, b Rest) int {
			return cmp.Or(bytes.Compare(a.Text, b.Text), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		o := NewOrdered(list, &all)
		if o.Len() != len(want) || o.Covers(&lacking) || !o.Covers(&rest) {
			t.Fatalf("%d ordinals, want %d; covers what it lacks: %v, and others: %v", o.Len(), len(want), o.Covers(&lacking), o.Covers(&rest))
		}
		for i, w := range want {
			head := o.AppendHead(nil, i)
			n := min(len(head), len(w.Text))
			if o.At(i) != w.Ordinal || !bytes.Equal(head[:n], w.Text[:n]) || len(head) < min(8, n) {
				t.Fatalf("place %d: ordinal %d, %q; want %d, %q", i, o.At(i), head, w.Ordinal, w.Text)
			}
			if tied := i > 0 && bytes.Equal(w.Text, want[i-1].Text); o.Tied(i) != tied {
				t.Fatalf("place %d is tied: %v, want %v", i, o.Tied(i), tied)
			}
		}
	}
}

// TestKeptOrders: orders that are kept are counted, are found by their question, and make place for
// others; one that is too large is not kept.
func TestKeptOrders(t *testing.T) {
	var k Kept
	r := &Reader{info: Info{Items: 1 << 20}}
	order := func(n uint32) *Ordered {
		var all Set
		all.Reset(0, n)
		all.Fill()
		list := make([]Rest, n)
		for i := range list {
			list[i] = Rest{uint32(i), []byte("rest")}
		}
		return NewOrdered(list, &all)
	}
	some := order(100_000)
	for i := range uint64(2 * KeptBytes / 1_200_000) {
		k.KeepOrder(r, question(i), some)
		if k.Bytes() > KeptBytes || k.Order(r, question(i)) != some {
			t.Fatalf("%d bytes with order %d, which is kept: %v", k.Bytes(), i, k.Order(r, question(i)) == some)
		}
	}
	if k.Order(r, question(0)) != nil {
		t.Error("the oldest is still there")
	}
	if k.KeepOrder(r, question(99), order(MostOrdered+100_000)); k.Order(r, question(99)) != nil {
		t.Error("an order of more than half of the bound is kept")
	}
}
