package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// File numbers go on after a reopen also where the newest files are gone: a file
// below the floor of the manifest would not be known to be left over if a crash
// came before its commit.
func TestFileNumbersGoOn(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.manual = false
	db, c := openStore(t, opts)
	_, err := c.Upsert(ctx, []byte(`{"id":"a","k":"a"}`), nil)
	err = errors.Join(err, db.Flush(ctx), c.Delete(ctx, StringKey("a"), "a", nil), db.Flush(ctx), db.Compact(ctx))
	if err != nil {
		t.Fatal(err)
	}
	p := c.routing.Load().parts[0]
	if runs := p.Version.Load().Runs; len(runs) != 0 {
		t.Fatalf("%d runs are left", len(runs))
	}
	last := db.env.NextFile.Load()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(ctx, "store", opts); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c, err = db.Container("c"); err != nil {
		t.Fatal(err)
	}
	if n := c.routing.Load().parts[0].NewFileNumber(); n <= last || last < 2 {
		t.Errorf("file %d, the last one before was %d", n, last)
	}
}
