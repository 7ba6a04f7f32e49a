package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
)

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
