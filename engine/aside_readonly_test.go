package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReadOnlyBesideNonsense: the manifest of a partition has a right checksum and says
// what cannot be. Who opens the store to read it is told so of that partition, and reads
// the others, as one that opens it for writing.
func TestReadOnlyBesideNonsense(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, testOptions(mem))
	upsert(t, c, "x", 10)
	other, err := db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}})
	must(t, err)
	upsert(t, other, "x", 10)
	must(t, db.Flush(ctx))
	p := c.routing.Load().parts[0]
	must(t, db.Close())
	var files manifest.Files
	dir := manifest.NewDir(mem, p.Dir, manifest.PartitionKind)
	must(t, dir.Load(&files))
	files.Inherits = []manifest.Inherited{{Stream: 999}}
	must(t, dir.Store(&files))
	for _, readOnly := range []bool{true, false} {
		opts := testOptions(mem)
		opts.ReadOnly = readOnly
		db, err := Open(ctx, "mem", opts)
		if err != nil {
			t.Errorf("read only %t: %v", readOnly, err)
			continue
		}
		for name, want := range map[string]error{"c": ErrCorrupt, "other": nil} {
			c, err := db.Container(name)
			must(t, err)
			if _, err := c.Read(ctx, StringKey("a"), "x"); !errors.Is(err, want) {
				t.Errorf("read only %t, container %s: %v", readOnly, name, err)
			}
		}
		must(t, db.Close())
	}
}
