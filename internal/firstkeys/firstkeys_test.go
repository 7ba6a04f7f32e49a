package firstkeys

import (
	"bytes"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestOrder: what a table says of two ids is their order, whatever the ids that it was made
// with, and it tells most ids apart that begin alike.
func TestOrder(t *testing.T) {
	rng := randtest.New(t)
	id := func() []byte {
		b := []byte("item-")[:5-rng.IntN(4)*rng.IntN(2)]
		for range rng.IntN(12) {
			b = append(b, byte(rng.IntN(4)*85))
		}
		return b
	}
	told := 0
	for range 2000 {
		table := New(10, id(), id())
		a, b := id(), id()
		table.Note(4, a)
		switch got, want := table.Compare(4, table.Lead(b)), bytes.Compare(a, b); {
		case got == want && got != 0:
			told++
		case got != 0:
			t.Fatalf("%q and %q: %d; common %q", a, b, got, table.common)
		}
	}
	if told < 1000 {
		t.Errorf("%d of 2,000 pairs were told apart", told)
	}
}

// TestEvery: only one of so many groups is remembered, and nothing of the others is known.
func TestEvery(t *testing.T) {
	table := New(10, []byte("a"), []byte("z"))
	for group := range int64(10) {
		if table.Compare(group, table.Lead([]byte("b"))) != 0 {
			t.Errorf("group %d is known before it was noted", group)
		}
		table.Note(group, []byte("m"))
		want := 0
		if group%Every == 0 {
			want = 1
		}
		if got := table.Compare(group, table.Lead([]byte("b"))); got != want {
			t.Errorf("group %d: %d, want %d", group, got, want)
		}
	}
}
