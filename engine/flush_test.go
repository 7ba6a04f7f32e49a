package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// renameFS calls renamed after each rename.
type renameFS struct {
	vfs.FS
	renamed func(to string)
}

func (f *renameFS) Rename(from, to string) error {
	err := f.FS.Rename(from, to)
	f.renamed(to)
	return err
}

// TestFlushBesideWriter: a writer who fills a memtable during each flush does not
// keep Flush from coming to its end.
func TestFlushBesideWriter(t *testing.T) {
	ctx := context.Background()
	fsys := &renameFS{FS: vfs.NewMem(), renamed: func(string) {}}
	opts := testOptions(fsys)
	opts.Durability = Buffered
	db, c := openStore(t, opts)
	upsert(t, c, "first", 100)
	p := db.partitions()[0]
	flushes := 0
	fsys.renamed = func(to string) {
		if !strings.HasSuffix(to, ".seg") || flushes == 50 {
			return
		}
		flushes++
		for i := 0; len(p.Version.Load().Frozen) < 2; i++ {
			upsert(t, c, fmt.Sprint("i", flushes, "-", i), 1000)
		}
	}
	must(t, db.Flush(ctx))
	if flushes != 1 {
		t.Errorf("%d flushes of one memtable", flushes)
	}
	fsys.renamed = func(string) {}
	must(t, db.Flush(ctx))
	if n := p.Version.Load().TableVersions(); n != 0 {
		t.Errorf("%d versions in memtables after a flush without writers", n)
	}
}
