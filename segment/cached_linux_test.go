//go:build linux && !race

package segment

import (
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestAsk: pages that the system has in memory are known without being read,
// those around them too; where it has not, it is left alone for a while.
func TestAsk(t *testing.T) {
	fsys, err := vfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const hole = 2 * wordBytes
	if _, err := f.WriteAt(make([]byte, wordBytes+pageLen), hole); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	var h residency
	h.init(Section{Off: 100, Len: int64(len(m.Data)) - 100}, 0, false)
	if h.ask(m, 200) || h.has(200, 1) {
		t.Error("a hole is in memory")
	}
	for range missesAsked - 1 {
		if h.ask(m, hole) {
			t.Fatal("asked again at once")
		}
	}
	for _, off := range []int64{hole + 5, hole + wordBytes + 5} {
		if !h.ask(m, off) {
			t.Errorf("not in memory at %d", off)
		}
	}
	if !h.has(hole, wordBytes+pageLen) || h.has(hole-1, 1) {
		t.Error("the wrong pages were noted")
	}
}
