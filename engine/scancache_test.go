package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// kept returns how many bytes of documents a state of a store keeps decoded.
func (db *DB) kept() int64 { return db.hot.Bytes() + db.env.Reader.ScanCache.Bytes() }

// TestCachesDropped: what a store kept decoded goes with it, also while the caller refers to
// the DB, and with each former state of a read-only store, to which the first Container refers.
func TestCachesDropped(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	for i := range 400 {
		upsert(t, wc, fmt.Sprintf("%04d", i), 1000)
	}
	must(t, writer.Compact(ctx))
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	warm := func(state *DB) {
		t.Helper()
		for range 40 {
			for _, err := range c.ScanAll(ctx, nil) {
				must(t, err)
			}
		}
		for n := 0; n < 100_000 && state.hot.Bytes() == 0; n++ { // the cache is told of one decoded item in some
			_, err := c.Read(ctx, StringKey("a"), "0007")
			must(t, err)
		}
		if state.hot.Bytes() == 0 || state.env.Reader.ScanCache.Bytes() == 0 {
			t.Fatalf("reads fill no cache: %d and %d bytes", state.hot.Bytes(), state.env.Reader.ScanCache.Bytes())
		}
	}
	states := []*DB{db}
	for range 3 {
		warm(db.now())
		must(t, db.Refresh(ctx))
		db.renewal.ending.Wait()
		states = append(states, db.now())
	}
	warm(db.now())
	must(t, db.Close())
	for i, state := range states {
		if n := state.kept(); n != 0 {
			t.Errorf("state %d is closed and keeps %d bytes", i, n)
		}
	}
}
