package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCheckpointHoldsFiles: while a checkpoint copies the log no set of files, no
// container and no partition can change. While it copies segment files to another file
// system all of them can, and the copy is that of before.
func TestCheckpointHoldsFiles(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 3 {
		upsert(t, c, fmt.Sprint(i), 100)
		must(t, db.Flush(ctx))
	}
	type lock interface {
		TryLock() bool
		Unlock()
	}
	copies, compacted := 0, false
	mem := vfs.NewMem()
	target := vfs.NewFaulty(mem)
	target.SetHook(func(call vfs.Call) error {
		if call.Op != vfs.OpCreate || !strings.HasSuffix(call.Name, ".seg") && !strings.HasPrefix(call.Name, "wal/") {
			return nil
		}
		copies++
		log := strings.HasPrefix(call.Name, "wal/")
		locks := map[string]lock{"structure": &db.storeManifest, "creating": &db.creating, "shape": &c.reshapeMu}
		for _, p := range db.partitions() {
			locks[p.Dir] = &p.Install
		}
		for what, l := range locks {
			free := l.TryLock()
			if free {
				l.Unlock()
			}
			if free == log {
				t.Errorf("%s is free: %v, while %s is copied", what, free, call.Name)
			}
		}
		if !log && !compacted && !t.Failed() {
			compacted = true
			must(t, c.Delete(ctx, StringKey("a"), "0", nil))
			must(t, db.Compact(ctx))
			if held := db.holders(); len(held) != 1 || held[0].What != pins.Backup.String() {
				t.Errorf("files are held by %v", held)
			}
		}
		return nil
	})
	db.opts.checkpointRoot = func(string) (vfs.FS, error) { return target, nil }
	must(t, second(db.Checkpoint(ctx, "copy")))
	if copies < 3 || !compacted {
		t.Errorf("%d files copied, beside a compaction: %v", copies, compacted)
	}
	must(t, db.Close())
	_, c = openStore(t, testOptions(mem))
	for i := range 3 {
		must(t, second(c.Read(ctx, StringKey("a"), fmt.Sprint(i))))
	}
}
