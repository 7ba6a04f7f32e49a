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

// TestBackupWaitedFor: a backup, and a checkpoint, that waits for another one that waits for a
// split ends with its own context.
func TestBackupWaitedFor(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	db.opts.checkpointRoot = func(string) (vfs.FS, error) { return vfs.NewMem(), nil }
	taken, over, done := make(chan error), make(chan struct{}), make(chan error)
	go func() { // the split
		taken <- c.reshapeMu.Lock(t.Context())
		<-over
		c.reshapeMu.Unlock()
	}()
	must(t, <-taken)
	go func() { done <- second(db.Backup(t.Context(), io.Discard, nil)) }()
	until(func() bool { // it is the other one
		free := db.checkpoints.TryLock()
		if free {
			db.checkpoints.Unlock()
		}
		return !free
	})
	for name, call := range map[string]func(context.Context) error{
		"Backup":     func(ctx context.Context) error { return second(db.Backup(ctx, io.Discard, nil)) },
		"Checkpoint": func(ctx context.Context) error { return second(db.Checkpoint(ctx, "copy")) },
	} {
		ctx, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s waits when its context has ended", name)
		}
		end()
	}
	close(over)
	must(t, <-done)
}
