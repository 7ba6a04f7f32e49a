package item

import (
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestIDRange narrows ranges by random bounds and compares what they hold with the
// conditions themselves, for ids that are next to the bounds.
func TestIDRange(t *testing.T) {
	rng := randtest.New(t)
	letters := []byte{0, 'a', 'b', 0xFE, 0xFF}
	text := func() string {
		b := make([]byte, rng.IntN(4))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	held := 0
	for range 20_000 {
		var r IDRange
		var conditions []func(id string) bool
		for range rng.IntN(4) {
			bound, open := text(), rng.IntN(2) == 0
			switch rng.IntN(3) {
			case 0:
				r.From(bound, open)
				conditions = append(conditions, func(id string) bool { return bound == "" || id > bound || id == bound && !open })
			case 1:
				r.To(bound, open)
				conditions = append(conditions, func(id string) bool { return bound == "" || id < bound || id == bound && !open })
			default:
				r.Prefix(bound)
				conditions = append(conditions, func(id string) bool { return strings.HasPrefix(id, bound) })
			}
		}
		id := text() + "a"
		want := !slices.ContainsFunc(conditions, func(c func(string) bool) bool { return !c(id) })
		if got := r.Holds([]byte(id)); got != want {
			t.Fatalf("%+v holds %q: %v, want %v", r, id, got, want)
		}
		if want {
			held++
		}
	}
	if held < 1000 {
		t.Errorf("only %d ids were in their range", held)
	}
}

func TestIDRangeAllocates(t *testing.T) {
	id := []byte("id")
	if n := testing.AllocsPerRun(100, func() {
		var r IDRange
		r.From("a", true)
		r.To("z", false)
		if !r.Holds(id) {
			t.Error("not held")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
