package engine

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReadOnlyAfterFailedSync: a sync that fails leaves records in memory that are not on
// the disk. A reader shows none of them, beside the writer that failed and behind it, as the next
// open will not.
func TestReadOnlyAfterFailedSync(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	db, c := openStore(t, testOptions(faulty))
	_, err := c.Upsert(ctx, doc("kept", "a", 1), nil)
	must(t, err)
	faulty.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpSync && strings.HasPrefix(call.Name, "wal/") {
			return syscall.EIO
		}
		return nil
	})
	if _, err = c.Upsert(ctx, doc("lost", "a", 2), nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	faulty.SetHook(nil)
	look := func(when string, readOnly bool) {
		t.Helper()
		opts := testOptions(mem)
		opts.ReadOnly = readOnly
		db, err := Open(ctx, "lost", opts)
		must(t, err)
		defer db.Close()
		c, err := db.Container("c")
		must(t, err)
		if _, err := c.Read(ctx, StringKey("a"), "kept"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := c.Read(ctx, StringKey("a"), "lost"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: what a failed sync lost: %v", when, err)
		}
	}
	look("beside the writer", true)
	db.Close()
	look("behind the writer", true)
	look("opened for writing", false)
}
