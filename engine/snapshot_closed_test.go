package engine

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSnapshotClosedMeanwhile: what reads a snapshot that is closed meanwhile, and whose items are gone since, ends with ErrClosed:
// it leaves nothing out in silence.
func TestSnapshotClosedMeanwhile(t *testing.T) {
	ctx, key := t.Context(), StringKey("a")
	for name, read := range map[string]func(s *Snapshot, lose func()) error{
		"query in an order": func(s *Snapshot, lose func()) (failed error) {
			for _, err := range s.Query(ctx, AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/id"}}}).All() {
				lose()
				failed = err
			}
			return failed
		},
		"read": func(s *Snapshot, lose func()) error {
			return second(s.Read(&refreshingContext{ctx, lose}, key, "1"))
		},
	} {
		db, c := openStore(t, testOptions(vfs.NewMem()))
		for i := range 3 {
			upsert(t, c, fmt.Sprint(i), 10)
		}
		s, err := c.Snapshot(ctx)
		must(t, err)
		lose := sync.OnceFunc(func() {
			must(t, s.Close())
			must(t, c.DeleteLogicalPartition(ctx, key, nil))
			must(t, db.Compact(ctx))
		})
		if err := read(s, lose); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
