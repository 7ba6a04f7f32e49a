package engine

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

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

// TestSnapshotClosedAtAdmission: so does a scan whose snapshot is closed between the question whether it is open and the admission.
func TestSnapshotClosedAtAdmission(t *testing.T) {
	ctx, key := t.Context(), StringKey("a")
	opts := testOptions(vfs.NewMem())
	var lose func() // called once, when the clock is read: by the meter that admits the scan
	at := time.Unix(1_700_000_000, 0)
	opts.clock = func() time.Time {
		if fn := lose; fn != nil {
			lose = nil
			fn()
		}
		at = at.Add(time.Second)
		return at
	}
	_, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Throughput: 1000})
	const items = 3
	for i := range items {
		upsert(t, c, fmt.Sprint(i), 10)
	}
	s, err := c.Snapshot(ctx)
	must(t, err)
	lose = func() {
		must(t, s.Close())
		must(t, c.DeleteLogicalPartition(ctx, key, nil))
		p := c.routing.Load().parts[0]
		p.Freeze()
		must(t, p.FlushAlone(ctx)) // which drops what no reader needs
	}
	found, err := collectItems(s.Scan(ctx, key, IDRange{}, nil))
	if lose != nil || len(found) != items && !errors.Is(err, ErrClosed) {
		t.Errorf("%d items of %d, %v; lost: %v", len(found), items, err, lose == nil)
	}
}
