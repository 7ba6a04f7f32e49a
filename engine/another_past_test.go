package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestFileOfAnotherPast puts into a store the file that it would have made of other
// writes: store, number and length are right, each checksum in the file is too.
func TestFileOfAnotherPast(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	db, _ := openStore(t, opts)
	must(t, db.Close())
	write := func(mem *vfs.Mem, id string) (name string, file []byte) {
		db, c := openStore(t, testOptions(mem))
		upsert(t, c, id, 100)
		must(t, db.Flush(ctx))
		must(t, db.Close())
		return firstSegment(t, mem)
	}
	otherName, other := write(mem.Clone(), "y")
	name, file := write(mem, "x")
	if name != otherName || len(file) != len(other) || string(file) == string(other) {
		t.Fatalf("%s of %d bytes, %s of %d", name, len(file), otherName, len(other))
	}
	must(t, mem.WriteFile(name, other))
	db, err := Open(ctx, "other", opts)
	must(t, err)
	defer db.Close()
	c, err := db.Container("c")
	must(t, err)
	for _, id := range []string{"x", "y"} {
		if _, err := c.Read(ctx, StringKey("a"), id); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
