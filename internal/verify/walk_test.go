package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// TestWalk: each partition is a step once, also one that came while the walk was under way,
// between the manifests and the log.
func TestWalk(t *testing.T) {
	mem := store(t, []byte("no operation"))
	must(t, mem.Mkdir("p/photos"))
	w := NewWalk(t.Context(), mem, false)
	first, second, third := new(lsm.Tree), new(lsm.Tree), new(lsm.Tree)
	now, asked := []Part{{Tree: first}, {Tree: second}}, 0
	parts := func() []Part {
		if asked++; asked == 2 { // the first was split
			now = []Part{{Tree: second}, {Tree: third}}
		}
		return now
	}
	var found []string
	steps := 0
	for step := range w.Steps(parts, wal.Options{StoreID: storeID}) {
		steps++
		if steps == 1 || steps == 5 { // the others have no files to be checked
			step()
		}
		for _, f := range w.Take() {
			found = append(found, fmt.Sprintf("step %d: %s", steps, f.File))
		}
	}
	want := []string{"step 1: " + mem.Path("p/photos"), "step 5: " + mem.Path(manifest.LogDir+"/"+wal.FileName(1))}
	if steps != 5 || !slices.Equal(found, want) || asked != 4 {
		t.Errorf("%d steps, asked %d times for partitions, found %q, want %q", steps, asked, found, want)
	}
	if w.Take() != nil {
		t.Error("findings are taken twice")
	}
	for end := range 4 {
		n := 0
		for range w.Steps(func() []Part { return now }, wal.Options{StoreID: storeID}) {
			if n++; n > end {
				break
			}
		}
		if n != end+1 {
			t.Errorf("the walk went on to step %d of %d", n, end+1)
		}
	}
}

// TestMostFindings: the findings of a step are bounded, and the last one says so.
func TestMostFindings(t *testing.T) {
	w := NewWalk(t.Context(), store(t), false)
	for range 2 {
		for i := range maxFindings + 5 {
			w.report("a.seg", int64(i), "wrong")
		}
		found := w.Take()
		if len(found) != maxFindings+1 || found[maxFindings].Offset != -1 || found[maxFindings-1].Offset != maxFindings-1 {
			t.Fatalf("%d findings, the last one %+v", len(found), found[len(found)-1])
		}
	}
}
