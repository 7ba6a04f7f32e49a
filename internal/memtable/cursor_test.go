package memtable

import (
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
)

// TestCursorWithin: a movement over keys without a visible version ends behind the bounds,
// and not before.
func TestCursorWithin(t *testing.T) {
	table := newTable(t, 100)
	keys := make([]item.Key, 100)
	for i := range keys {
		keys[i] = makeKey(1, "k", fmt.Sprintf("%02d", i))
		seq := uint64(100 + i) // not visible
		if i == 5 || i == 50 || i == 55 || i == 95 {
			seq = uint64(i)
		}
		mustPut(t, table, &keys[i], &item.Version{Seq: seq})
	}
	c := table.Cursor(99)
	c.Within(&keys[40], &keys[60])
	at := func(ok bool) string {
		if !ok {
			return ""
		}
		return string(c.Key().ID)
	}
	for _, step := range []struct {
		name string
		move func() bool
		want string
	}{
		{"at the lower bound", func() bool { return c.SeekGE(&keys[40]) }, "50"},
		{"on", c.Next, "55"},
		{"past the upper bound", c.Next, ""},
		{"at the upper bound", func() bool { return c.SeekLT(&keys[60]) }, "55"},
		{"back", c.Prev, "50"},
		{"past the lower bound", c.Prev, ""},
	} {
		if got := at(step.move()); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	c.Reset(table, 99)
	c.SeekGE(&keys[55])
	if got := at(c.Next()); got != "95" {
		t.Errorf("without bounds: %q", got)
	}
}
