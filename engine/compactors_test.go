package engine

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// longFS makes a segment file of one directory only when it is told to, after so many others.
type longFS struct {
	vfs.FS
	dir  string
	left atomic.Int32
	open chan struct{}
}

func (f *longFS) Create(name string) (vfs.File, error) {
	if strings.HasPrefix(name, f.dir) && strings.HasSuffix(name, ".seg.tmp") && f.left.Add(-1) < 0 {
		<-f.open
	}
	return f.FS.Create(name)
}

// TestLongCompaction: with four processors, compactions go on in other partitions while one takes
// long.
func TestLongCompaction(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		fsys := &longFS{FS: vfs.NewMem(), open: make(chan struct{})}
		fsys.left.Store(tiers.Runs)
		o := testOptions(fsys)
		o.manual = false
		db, long := openStore(t, o)
		fsys.dir = long.routing.Load().parts[0].Dir
		other, err := db.CreateContainer(t.Context(), "other", byK)
		must(t, err)
		flush := func(c *Container) (runs int) {
			for i := range tiers.Runs {
				must(t, second(c.Upsert(t.Context(), smallDocument(fmt.Sprint(i), "k", 50), nil)))
				must(t, db.Flush(t.Context()))
			}
			synctest.Wait()
			return c.Partitions()[0].Runs
		}
		if runs := flush(long); runs != tiers.Runs {
			t.Errorf("the long compaction has ended: %d runs", runs)
		}
		if runs := flush(other); runs != 1 {
			t.Errorf("beside a long compaction: %d runs", runs)
		}
		close(fsys.open)
		synctest.Wait()
		if runs := long.Partitions()[0].Runs; runs != 1 {
			t.Errorf("after the long compaction: %d runs", runs)
		}
		must(t, db.Close())
	})
}

// TestCompactionsAfterCompact: what a Compact leaves undone, or keeps the compactors from, is done after
// it, though nothing else asks for it.
func TestCompactionsAfterCompact(t *testing.T) {
	for _, test := range []struct {
		name   string
		files  int32 // that Compact makes before it is held up
		cancel bool
		beside func(*testing.T, *DB, *Container) // while it is held up
	}{
		{"cancelled after its flush", 1, true, func(*testing.T, *DB, *Container) {}},
		{"cancelled, an index policy beside it", 0, true, func(t *testing.T, _ *DB, c *Container) {
			must(t, second(c.SetIndexPolicy(t.Context(), IndexAll())))
		}},
		{"flushes beside it", 0, false, func(t *testing.T, db *DB, c *Container) { fillRuns(t, db, c, tiers.Runs+2) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const all = 1 << 30
				fsys := &longFS{FS: vfs.NewMem(), open: make(chan struct{})}
				fsys.left.Store(all)
				o := testOptions(fsys)
				o.manual = false
				db, c := openStore(t, o)
				fillRuns(t, db, c, tiers.Runs-2+int(test.files))
				if test.files > 0 {
					must(t, second(c.Upsert(t.Context(), smallDocument("last", "k", 50), nil)))
				}
				fsys.dir = c.routing.Load().parts[0].Dir
				fsys.left.Store(test.files)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := background(func() error { return db.Compact(ctx) })
				synctest.Wait()
				fsys.left.Store(all) // only the file being made waits
				test.beside(t, db, c)
				if test.cancel {
					cancel()
				}
				close(fsys.open)
				if err := <-done; (err != nil) != test.cancel {
					t.Errorf("Compact: %v", err)
				}
				synctest.Wait()
				if runs := c.Partitions()[0].Runs; runs >= tiers.Runs {
					t.Errorf("%d runs", runs)
				}
				if jobs := db.Jobs(); len(jobs) > 0 {
					t.Errorf("not done: %+v", jobs)
				}
				must(t, db.Close())
			})
		})
	}
}

// fillRuns makes so many runs.
func fillRuns(t *testing.T, db *DB, c *Container, runs int) {
	t.Helper()
	for i := range runs {
		must(t, second(c.Upsert(t.Context(), smallDocument(fmt.Sprint(i), "k", 50), nil)))
		must(t, db.Flush(t.Context()))
	}
	synctest.Wait()
}

// TestFlushPartitionCompacts: partitions that only FlushPartition flushes are compacted.
func TestFlushPartitionCompacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := replicaOptions(vfs.NewMem(), 0)
		o.manual = false
		db, err := Open(t.Context(), "store", o)
		must(t, err)
		c, err := db.CreateContainer(t.Context(), "docs", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
		must(t, err)
		p := c.Partitions()[0].ID
		for i := range uint64(2 * tiers.Runs) {
			b := c.NewBatch(StringKey("a"))
			must(t, b.Upsert(smallDocument(fmt.Sprint(i), "a", 50), nil))
			must(t, second(c.ApplyAt(t.Context(), p, Entry{Index: i + 1, Time: replicaTime, Batches: []*Batch{b}})))
			must(t, second(c.FlushPartition(t.Context(), p)))
			synctest.Wait()
		}
		if runs := c.Partitions()[0].Runs; runs >= tiers.Runs {
			t.Errorf("%d runs", runs)
		}
		must(t, db.Close())
	})
}
