package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestBackupIsOfWhatIsDurable: a power cut after a backup takes back nothing that
// the backup has. The next incremental backup, and a restored store, go on from there.
func TestBackupIsOfWhatIsDurable(t *testing.T) {
	mem, db, _ := bufferedStore(t)
	var stream bytes.Buffer
	must(t, second(db.Backup(context.Background(), &stream, nil)))
	must(t, holds(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 10))
}

// TestFinishedCopyIsDurable: a power cut after Finish leaves the copy with all that
// the source had.
func TestFinishedCopyIsDurable(t *testing.T) {
	ctx := context.Background()
	mem, _, c := bufferedStore(t)
	p, err := c.CopyTo(ctx, "copy", byK)
	must(t, err)
	must(t, second(p.Finish(ctx)))
	db, err := Open(ctx, "crashed", testOptions(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})))
	must(t, err)
	defer db.Close()
	copied, err := db.Container("copy")
	must(t, err)
	n := 0
	for _, err := range copied.ScanAll(ctx, nil) {
		must(t, err)
		n++
	}
	if n != 10 {
		t.Errorf("%d items of 10", n)
	}
	must(t, second(copied.Upsert(ctx, doc("more", "a", 1), nil)))
}
