package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCheckpointHoldsFiles: while a checkpoint links files no set of files, no
// container and no partition can change.
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
	copies := 0
	target := vfs.NewFaulty(vfs.NewMem())
	target.SetHook(func(call vfs.Call) error {
		if call.Op != vfs.OpCreate || !strings.HasSuffix(call.Name, ".seg") && !strings.HasPrefix(call.Name, "wal/") {
			return nil
		}
		copies++
		locks := map[string]lock{"structure": &db.storeManifest, "creating": &db.creating, "shape": &c.reshapeMu}
		for _, p := range db.partitions() {
			locks[p.Dir] = &p.Install
		}
		for what, l := range locks {
			if l.TryLock() {
				l.Unlock()
				t.Errorf("%s is not locked while %s is copied", what, call.Name)
			}
		}
		return nil
	})
	db.opts.checkpointRoot = func(string) (vfs.FS, error) { return target, nil }
	must(t, second(db.Checkpoint(ctx, "copy")))
	if copies < 3 {
		t.Errorf("%d files copied", copies)
	}
}
