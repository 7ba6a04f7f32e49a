package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReshapeWaited: what waits for a split of its container ends with its context.
func TestReshapeWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true})
		calls := map[string]func(context.Context) error{
			"SetDefaultTTL": func(ctx context.Context) error { return c.SetDefaultTTL(ctx, time.Hour) },
			"DropContainer": func(ctx context.Context) error { return db.DropContainer(ctx, "c") },
			"Backup":        func(ctx context.Context) error { return second(db.Backup(ctx, io.Discard, nil)) },
			"Checkpoint":    func(ctx context.Context) error { return second(db.Checkpoint(ctx, "copy")) },
		}
		db.opts.checkpointRoot = func(string) (vfs.FS, error) { return vfs.NewMem(), nil }
		taken, over := make(chan error), make(chan struct{})
		go func() { // the split: locks know who has them
			taken <- c.reshapeMu.Lock(t.Context())
			<-over
			c.reshapeMu.Unlock()
		}()
		must(t, <-taken)
		for name, call := range calls {
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			end()
		}
		close(over)
		synctest.Wait()
		for _, name := range []string{"SetDefaultTTL", "Backup", "Checkpoint", "DropContainer"} {
			if err := calls[name](t.Context()); err != nil {
				t.Errorf("%s afterwards: %v", name, err)
			}
		}
	})
}
