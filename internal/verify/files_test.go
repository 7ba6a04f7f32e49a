package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// statFS calls before ahead of the first Stat of a segment file.
type statFS struct {
	vfs.FS
	before func()
}

func (f *statFS) Stat(name string) (vfs.Info, error) {
	if strings.HasSuffix(name, manifest.SegmentName(1)) && f.before != nil {
		f.before()
		f.before = nil
	}
	return f.FS.Stat(name)
}

// flushed returns a partition with two segment files, numbered from 1.
func flushed(t *testing.T) (*physicaltest.Store, *physical.Partition) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	for i := range 2 {
		s.Write(p, physicaltest.KeyIn(physicaltest.Whole()), fmt.Sprint(i), false)
		p.Freeze()
		s.OK(p.FlushOldest(t.Context()))
	}
	return s, p
}

// TestListedFiles: a file that is open and has lost its name, or is another one by its
// length, is found. What a writer lets go of meanwhile is not.
func TestListedFiles(t *testing.T) {
	for what, test := range map[string]struct {
		do   func(mem *vfs.Mem, name string, let func()) error
		late bool // it is done when the check comes to the file
		want string
	}{
		"as it is": {do: func(*vfs.Mem, string, func()) error { return nil }},
		"removed":  {do: func(mem *vfs.Mem, name string, _ func()) error { return mem.Remove(name) }, want: "it is not there"},
		"replaced": {do: func(mem *vfs.Mem, name string, _ func()) error {
			return errors.Join(mem.Remove(name), mem.WriteFile(name, []byte("garbage")))
		}, want: "it has 7 bytes"},
		"let go": {do: func(mem *vfs.Mem, name string, let func()) error {
			let()
			return mem.Remove(name)
		}, late: true},
	} {
		s, p := flushed(t)
		name := segmentName(&p.Tree, 1)
		do := func() {
			s.OK(test.do(s.Mem, name, func() {
				m := s.Manifest(p)
				m.Runs = slices.DeleteFunc(m.Runs, func(r manifest.Run) bool { return r.Files[0].Number == 1 })
				d := manifest.NewDir(s.Mem, p.Dir, manifest.PartitionKind)
				s.OK(d.Load(new(manifest.Files)))
				s.OK(d.Store(&m))
			}))
		}
		fs := &statFS{FS: s.Mem}
		if test.late {
			fs.before = do
		} else {
			do()
		}
		var found []string
		c := New(context.Background(), fs, false, func(file string, _ int64, what string) { found = append(found, file+": "+what) })
		c.Partition(&p.Tree, func(func(*lsm.Tree) bool) {})
		if test.want == "" && len(found) > 0 || test.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], s.Mem.Path(name)) || !strings.Contains(found[0], test.want)) {
			t.Errorf("%s: %q, want %q", what, found, test.want)
		}
		if fs.before != nil {
			t.Errorf("%s: the check did not come to the file", what)
		}
	}
}
