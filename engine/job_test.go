package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// anyJob is what an embedder may demand of a job, whatever it does.
type anyJob interface {
	Wait(context.Context) error
	Cancel()
}

// TestJobsEndAlike waits for jobs of all kinds that are held up, then cancels them, closes
// their store, or lets them go on.
func TestJobsEndAlike(t *testing.T) {
	ctx := context.Background()
	begin := map[string]func(c *Container) (j anyJob, letGo func(), err error){
		"reshape": func(c *Container) (anyJob, func(), error) {
			p := c.routing.Load().parts[0]
			must(t, p.Flushing.Lock(ctx))
			j, err := c.Split(ctx, p.ID, nil)
			return j, p.Flushing.Unlock, err
		},
		"index": func(c *Container) (anyJob, func(), error) {
			p := c.routing.Load().parts[0]
			must(t, p.Compacting.Lock(ctx))
			j, err := c.SetIndexPolicy(ctx, IndexAll())
			return j, func() {
				p.Compacting.Unlock()
				c.db.work.RewriteSoon()
			}, err
		},
		"copy": func(c *Container) (anyJob, func(), error) {
			must(t, c.SetThroughput(ctx, 1))
			c.routing.Load().parts[0].Charge(nil, 1e9)
			j, err := c.CopyTo(ctx, "copy", ContainerDef{PartitionKey: []string{"/id"}})
			return j, func() { must(t, c.SetThroughput(ctx, 0)) }, err
		},
	}
	for kind, begin := range begin {
		for name, end := range map[string]struct {
			do   func(db *DB, j anyJob, letGo func())
			want error
		}{
			"cancel": {func(_ *DB, j anyJob, letGo func()) { j.Cancel(); defer letGo(); _ = j.Wait(ctx) }, context.Canceled},
			"close":  {func(db *DB, _ anyJob, letGo func()) { defer letGo(); must(t, db.Close()) }, ErrClosed},
			"go on":  {func(_ *DB, _ anyJob, letGo func()) { letGo() }, nil},
		} {
			if kind == "copy" && name != "cancel" {
				continue // its wait for throughput is long
			}
			t.Run(kind+", "+name, func(t *testing.T) {
				db, c := openStore(t, &Options{fs: vfs.NewMem(), MemoryBudget: minMemoryBudget})
				for _, id := range []string{"a", "b", "c", "d"} {
					must(t, second(c.Upsert(ctx, smallDocument(id, id, 50), nil)))
				}
				must(t, db.Flush(ctx))
				j, letGo, err := begin(c)
				must(t, err)
				over, cancel := context.WithCancel(ctx)
				cancel()
				if err := j.Wait(over); err != context.Canceled {
					t.Errorf("Wait with a context that has ended: %v", err)
				}
				end.do(db, j, letGo)
				for range 2 {
					if err := j.Wait(ctx); !errors.Is(err, end.want) {
						t.Errorf("Wait: %v, want %v", err, end.want)
					}
					j.Cancel() // changes nothing any more
				}
			})
		}
	}
}

// TestCancelIndexJob: after a cancel the background leaves the files as they are, until
// another policy is set or Compact is called.
func TestCancelIndexJob(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, &Options{fs: vfs.NewMem(), MemoryBudget: minMemoryBudget})
	must(t, second(c.Upsert(ctx, smallDocument("a", "a", 50), nil)))
	must(t, db.Flush(ctx))
	p := c.routing.Load().parts[0]
	must(t, p.Compacting.Lock(ctx)) // nobody indexes it
	j, err := c.SetIndexPolicy(ctx, IndexAll())
	must(t, err)
	j.Cancel()
	if err := j.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	p.Compacting.Unlock()
	if done, err := p.reindexOne(ctx, false); done || err != nil {
		t.Errorf("the background writes a file anew: %v, %v", done, err)
	}
	if files, _, _ := c.stale(); files != 1 {
		t.Errorf("%d files without an index", files)
	}
	if j, err = c.SetIndexPolicy(ctx, IndexAll()); err != nil || j.Wait(ctx) != nil {
		t.Errorf("set again: %v", err)
	}
}
