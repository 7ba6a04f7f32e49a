package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// failManifests makes the sync of a partition's directory fail that follows the
// rename of a manifest there: nobody knows which one the next open finds. It counts
// the removals of segment files from then on.
func failManifests(faulty *vfs.Faulty) (removed *int) {
	renamed := false
	failed := false
	removed = new(int)
	faulty.SetHook(func(c vfs.Call) error {
		switch {
		case c.Op == vfs.OpRename && strings.HasPrefix(c.To, "p/"):
			renamed = strings.Contains(c.To, "MANIFEST")
		case c.Op == vfs.OpSyncDir && strings.HasPrefix(c.Name, "p/") && renamed:
			failed = true
			return errInjected
		case c.Op == vfs.OpRemove && failed && strings.HasSuffix(c.Name, ".seg"):
			*removed++
		}
		return nil
	})
	return removed
}

// TestUnknownManifest: after a manifest whose outcome is unknown no file is removed
// that it, or the one before it, may name. What it may leave opens, and has all.
func TestUnknownManifest(t *testing.T) {
	ctx := context.Background()
	for name, write := range map[string]func(db *DB) error{
		"flush": func(db *DB) error { return db.Flush(ctx) },
		"merge": func(db *DB) error { return db.Compact(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			faulty := vfs.NewFaulty(mem)
			db, c := openStore(t, testOptions(faulty))
			for i := range 3 {
				for n := range 10 {
					upsert(t, c, fmt.Sprint(i, n), 100)
				}
				if i < 2 || name == "merge" {
					must(t, db.Flush(ctx))
				}
			}
			removed := failManifests(faulty)
			if err := write(db); !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("%v", err)
			}
			_ = db.Close()
			if *removed != 0 {
				t.Errorf("%d files removed", *removed)
			}
			for i, image := range []*vfs.Mem{mem.Kill(), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepAll})} {
				if err := holds(image, 30); err != nil {
					t.Errorf("image %d: %v", i, err)
				}
			}
		})
	}
}

// TestNoRemovalAfterFailure: a merged file that somebody reads while the store fails
// keeps its name when it is let go.
func TestNoRemovalAfterFailure(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, testOptions(mem))
	for i := range 2 {
		upsert(t, c, fmt.Sprint(i), 100)
		must(t, db.Flush(ctx))
	}
	all := func(runs []*lsm.Run, _ bool) (tiers.Plan, error) {
		return tiers.Plan{First: 0, End: len(runs)}, nil
	}
	guard := db.env.Epoch.Enter() // a reader
	done, err := db.partitions()[0].CompactRuns(ctx, all)
	must(t, err)
	names := mem.Names()
	db.fail(errInjected)
	guard.Leave()
	db.env.Reclaim.NowIfManual()
	if now := mem.Names(); !done || !slices.Equal(now, names) {
		t.Errorf("files %v, were %v when the store failed", now, names)
	}
}
