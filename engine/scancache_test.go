package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// TestMostMemory: more memory than the tables of the caches are made for is refused, and does not
// end the process.
func TestMostMemory(t *testing.T) {
	for _, bytes := range []int64{1<<40 + 1, 1 << 50, math.MaxInt64} {
		for _, o := range []Options{{MemoryBudget: bytes}, {ScanCacheBytes: bytes}} {
			if db, err := Open(t.Context(), t.TempDir(), &o); !errors.Is(err, ErrInvalid) {
				t.Errorf("budget %d, scan cache %d: %v", o.MemoryBudget, o.ScanCacheBytes, err)
				if err == nil {
					db.Close()
				}
			}
		}
	}
}

// TestMost: a store works with each other option as large as it may be.
func TestMost(t *testing.T) {
	ctx := context.Background()
	for name, o := range map[string]Options{
		"LogFileBytes":             {LogFileBytes: 1 << 30},
		"LogBytes":                 {LogBytes: math.MaxInt64},
		"CompactionBytesPerSecond": {CompactionBytesPerSecond: math.MaxInt64},
		"TrimBytesPerSecond":       {TrimBytesPerSecond: math.MaxInt64},
		"MaxPartitionBytes":        {MaxPartitionBytes: math.MaxInt64},
		"MaxPartitionThroughput":   {MaxPartitionThroughput: math.MaxFloat64},
		"FileBytes":                {FileBytes: math.MaxInt64},
		"MaxOpenFiles":             {MaxOpenFiles: math.MaxInt},
		"MaxMappedFiles":           {MaxMappedFiles: math.MaxInt},
		"ExpiryGrace":              {ExpiryGrace: math.MaxInt64},
		"MaxClockSkew":             {MaxClockSkew: math.MaxInt64},
		"SlowCall":                 {SlowCall: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			db, c := openStore(t, &o)
			for i := range 100 {
				upsert(t, c, fmt.Sprintf("%04d", i), 100)
			}
			must(t, db.Flush(ctx))
			_, err := c.Upsert(ctx, smallDocument("x", "b", 10), nil)
			must(t, err)
			must(t, db.Compact(ctx))
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(t, err)
			must(t, job.Wait(ctx))
			if n, err := c.Count(ctx, AllPartitions(), Filter{}); err != nil || n != 101 {
				t.Errorf("%d documents, %v", n, err)
			}
			must(t, db.Close())
		})
	}
}
