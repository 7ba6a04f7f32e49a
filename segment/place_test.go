package segment

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestGroupOfAnotherPlace reads a group as if it lay elsewhere, as after a write
// that went astray: its bytes are right, and verify at their own place only.
func TestGroupOfAnotherPlace(t *testing.T) {
	fsys := vfs.NewMem()
	write(t, fsys, "a", smallModel(randtest.New(t)), WriterOptions{})
	b := content(t, fsys, "a")
	for _, s := range forge.Sections(b) {
		if SectionKind(s.Kind) != SectionGroups {
			continue
		}
		own := base{file: uint32(binary.LittleEndian.Uint64(b[16:]))}
		var g group
		if err := g.parse(s.In(b), s.Off, &own, false); err != nil {
			t.Fatal(err)
		}
		for _, off := range []int64{0, s.Off + int64(g.size), s.Off + 1<<32} {
			if err := g.parse(s.In(b), off, &own, false); !errors.Is(err, errChecksum) {
				t.Errorf("at %d in place of %d: %v", off, s.Off, err)
			}
		}
		other := base{file: own.file + 1}
		if err := g.parse(s.In(b), s.Off, &other, false); !errors.Is(err, errChecksum) {
			t.Errorf("in another file: %v", err)
		}
		return
	}
	t.Error("the file has no groups")
}
