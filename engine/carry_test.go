package engine

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReplayFlushesBeforeCarried reads a log that is larger than the memtables
// may be, in which an item's only record is a carried one near the end. A flush
// in the middle of the replay must not hide it, whether the open succeeds or
// the process is killed in it.
func TestReplayFlushesBeforeCarried(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.MemoryBudget, opts.memtableBytes, opts.Durability = 64<<20, 4<<20, Buffered
	db, err := Open(ctx, "carry", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { db.Close() }()
	const parts = 40
	c, err := db.CreateContainer(ctx, "c", ContainerDef{Kind: Opaque, MinPartitions: parts})
	if err != nil {
		t.Fatal(err)
	}
	keys := keyOfEachPartition(c)
	body := bytes.Repeat([]byte("cleave! "), 1<<10)
	written := 0
	put := func(p int, id string) {
		t.Helper()
		if _, err := c.Put(ctx, keys[p], id, body, nil); err != nil {
			t.Fatal(err)
		}
		written++
	}
	first := c.routing.Load().parts[0]
	put(0, "first")
	for i := range 20 {
		put(1, fmt.Sprint(i)) // fills the first log file
	}
	second := c.routing.Load().parts[1]
	second.FreezeLocked()
	if err := second.FlushFrozen(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		for p := 2; p < parts; p++ {
			put(p, fmt.Sprint(i))
		}
		if i < 28 {
			put(0, fmt.Sprint(i))
		}
	}
	if err := first.db.retention.Carry(&first.Partition); err != nil {
		t.Fatal(err)
	}
	if db.storeManifest.state.LogFirst == 1 {
		t.Fatal("the first log file is still needed")
	}

	small := testOptions(nil)
	small.memtableBytes = 4 << 20
	flushed := false
	step := int64(lone(amount(61, 181, 541)))
	for n := 1 + int64(newSeed(t)%uint64(step)); ; n += step {
		var image *vfs.Mem
		inner := mem.Kill()
		faulty := vfs.NewFaulty(inner)
		faulty.StopAt(n, func() { image = inner.Kill() })
		small.fs = faulty
		again, err := Open(ctx, "carry", small)
		if err == nil {
			flushed = flushed || again.Stats().Flushes > 0
			again.Close()
		}
		stopped := image != nil
		if !stopped {
			image = inner.Kill()
		}
		small.fs = image
		survivor, err := Open(ctx, "carry", small)
		if err != nil {
			t.Fatalf("stopped at call %d: %v", n, err)
		}
		c, err := survivor.Container("c")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for it, err := range c.ScanAll(ctx, nil) {
			if err != nil || !bytes.Equal(it.Body, body) {
				t.Fatalf("stopped at call %d: item %s/%s: %v", n, it.Key, it.ID, err)
			}
			found++
		}
		if found != written {
			t.Fatalf("stopped at call %d: %d items, %d were written", n, found, written)
		}
		if _, err := c.Read(ctx, keys[0], "first"); err != nil {
			t.Fatalf("stopped at call %d: the carried item: %v", n, err)
		}
		survivor.Close()
		if !stopped {
			break
		}
	}
	if !flushed {
		t.Error("nothing was flushed while the log was read: the test reached too little")
	}
}
