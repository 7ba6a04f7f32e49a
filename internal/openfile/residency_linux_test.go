//go:build linux && !race

package openfile

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
	v := &View{Data: m.Data, mapping: m}
	var h Residency
	h.Init(100, int64(len(m.Data)), false)
	if h.Ask(v, 200) || h.Has(200, 1) {
		t.Error("a hole is in memory")
	}
	for range missesAsked - 1 {
		if h.Ask(v, hole) {
			t.Fatal("asked again at once")
		}
	}
	for _, off := range []int64{hole + 5, hole + wordBytes + 5} {
		if !h.Ask(v, off) {
			t.Errorf("not in memory at %d", off)
		}
	}
	if !h.Has(hole, wordBytes+pageLen) || h.Has(hole-1, 1) {
		t.Error("the wrong pages were noted")
	}
}
