package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// refreshingWriter calls refresh before it takes the first bytes.
type refreshingWriter struct {
	refresh func()
	bytes.Buffer
}

func (w *refreshingWriter) Write(p []byte) (int, error) {
	if w.refresh != nil {
		w.refresh()
		w.refresh = nil
	}
	return w.Buffer.Write(p)
}

// TestRefreshHeld: what reads a state of a read-only store to its end keeps it, whatever
// Refresh does meanwhile, and calls after a Refresh are of the newest state.
func TestRefreshHeld(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	a := StringKey("a")
	upsert(t, wc, "0", 20)
	must(t, writer.Flush(ctx))
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	n := 0
	// refresh makes a new state, and lets those before it end, as far as they can.
	refresh := func() {
		n++
		upsert(t, wc, fmt.Sprint(n), 20)
		must(t, writer.Flush(ctx))
		old := db.now()
		must(t, db.Refresh(ctx))
		until(func() bool { return old.closing.Load() || old.underWay() != nil })
	}

	stream := &refreshingWriter{refresh: refresh}
	info, err := db.Backup(ctx, stream, nil)
	must(t, err)
	if all, err := VerifyBackup(ctx, &stream.Buffer); err != nil || len(all) != 1 || all[0].ID != info.ID {
		t.Errorf("backup beside a refresh: %v, %v", all, err)
	}
	exported := &refreshingWriter{refresh: refresh}
	content, err := c.ExportPartition(ctx, c.Partitions()[0].ID, exported)
	if err != nil || content.Items != 2 {
		t.Errorf("export beside a refresh: %d items, %v", content.Items, err)
	}
	must(t, wc.SetKeyLimits(ctx, a, KeyLimits{Bytes: 1 << 20}))
	refresh()
	if u, err := c.Usage(ctx, a, nil); err != nil || u.Versions != int64(n+1) || u.Limits.Bytes != 1<<20 {
		t.Errorf("usage after %d refreshes: %+v, %v", n, u, err)
	}
	limited := 0
	for range c.LimitedKeys() {
		limited++
	}
	if limited != 1 {
		t.Errorf("%d limited keys, want 1", limited)
	}
	if db.Closed() {
		t.Error("closed after a refresh")
	}
	must(t, second(wc.Upsert(ctx, smallDocument("0", "b", 20), nil)))
	job, err := wc.Split(ctx, wc.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	refresh()
	if past := c.History(); len(past) != 1 {
		t.Errorf("%d past reshapes, want 1", len(past))
	}
	if _, err := c.AppliedIndex(c.Partitions()[1].ID); err != nil {
		t.Errorf("index of a new partition: %v", err)
	}
	if _, err := c.PreviewSplit(ctx, c.Partitions()[0].ID, nil); errors.Is(err, ErrClosed) {
		t.Errorf("preview of a split: %v", err)
	}
	must(t, db.Shutdown(ctx))
	if !db.Closed() {
		t.Error("not closed after Shutdown")
	}
	for what, err := range map[string]error{
		"backup": second(db.Backup(ctx, io.Discard, nil)),
		"export": second(c.ExportPartition(ctx, 1, io.Discard)),
		"usage":  second(c.Usage(ctx, a, nil)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed store: %v", what, err)
		}
	}
}

// TestRefreshHeldFindings: a verification goes on in the state in which it began.
func TestRefreshHeldFindings(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	upsert(t, wc, "0", 20)
	must(t, writer.Flush(ctx))
	f, err := mem.Create("p/unknown") // a finding
	must(t, err)
	must(t, f.Close())
	db := reader(t, mem)
	findings := 0
	for _, err := range db.Verify(ctx) {
		must(t, err)
		if findings++; findings == 1 {
			old := db.now()
			must(t, db.Refresh(ctx))
			until(func() bool { return old.draining.Load() })
		}
	}
	if findings == 0 {
		t.Error("nothing was found: the test shows nothing")
	}
	must(t, db.Shutdown(ctx))
	for _, err := range db.Verify(ctx) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed store: %v", err)
		}
	}
}

// refreshingContext calls refresh when it is first asked whether it has ended: a call asks
// between its look for the newest state and its entry into it.
type refreshingContext struct {
	context.Context
	refresh func()
}

func (c *refreshingContext) Err() error {
	if refresh := c.refresh; refresh != nil {
		c.refresh = nil
		refresh()
	}
	return c.Context.Err()
}

// TestRefreshHeldRace: calls whose state a Refresh replaces before they enter it begin again
// in the new one.
func TestRefreshHeldRace(t *testing.T) {
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	upsert(t, wc, "0", 20)
	must(t, writer.Flush(t.Context()))
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	for what, call := range map[string]func(ctx context.Context) error{
		"Backup": func(ctx context.Context) error { return second(db.Backup(ctx, io.Discard, nil)) },
		"ExportPartition": func(ctx context.Context) error {
			return second(c.ExportPartition(ctx, c.Partitions()[0].ID, io.Discard))
		},
		"Usage": func(ctx context.Context) error { return second(c.Usage(ctx, StringKey("a"), nil)) },
		"Snapshot": func(ctx context.Context) error {
			s, err := c.Snapshot(ctx)
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"Stats": func(ctx context.Context) error {
			if s := db.statsIn(ctx); len(s.Containers) != 1 || len(s.Containers[0].Partitions) == 0 {
				return fmt.Errorf("no partitions: %+v", s.Containers)
			}
			return nil
		},
		"Verify": func(ctx context.Context) error {
			for _, err := range db.Verify(ctx) {
				return err
			}
			return nil
		},
	} {
		ctx := &refreshingContext{Context: t.Context()}
		ctx.refresh = func() {
			old := db.now()
			must(t, db.Refresh(t.Context()))
			until(old.closing.Load)
		}
		if err := call(ctx); err != nil || ctx.refresh != nil {
			t.Errorf("%s: %v, refreshed: %v", what, err, ctx.refresh == nil)
		}
	}
	must(t, db.Shutdown(t.Context()))
}
