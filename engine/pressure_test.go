package engine

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// frozenPartitions returns those that have a memtable that waits for its flush.
func frozenPartitions(db *DB) (frozen []*partition) {
	for _, p := range db.partitions() {
		if len(p.Version.Load().Frozen) > 0 {
			frozen = append(frozen, p)
		}
	}
	return frozen
}

// TestFlushesTakeTurns: memtables of several partitions that fill together are
// frozen one after the other, each when a flush can begin and the largest first;
// while a write waits for memory one more flush may begin than otherwise.
func TestFlushesTakeTurns(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.Durability, opts.memtableBytes = Buffered, 1<<30
	db, err := Open(ctx, "turns", opts)
	must(t, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{Kind: Opaque, MinPartitions: 4})
	must(t, err)
	w := &db.work
	w.calm = 1
	body := bytes.Repeat([]byte("x"), 1000)
	written := 0
	fill := func() {
		t.Helper()
		for ; !db.ripe(); written++ {
			_, err := c.Put(ctx, NumberKey(float64(written%1000)), fmt.Sprint(written), body, nil)
			must(t, err)
		}
	}

	if p, _ := w.nextFlush(); p != nil || len(w.flushWanted) > 0 {
		t.Fatal("a flush begins before memory asks for it")
	}
	fill()
	if len(w.flushWanted) != 1 {
		t.Fatal("the write that filled half of the buffers did not wake the flusher")
	}
	first, _ := w.nextFlush()
	if frozen := frozenPartitions(db); first == nil || len(frozen) != 1 || frozen[0] != first {
		t.Fatalf("flushed first: %v; %d partitions frozen, want one", first, len(frozen))
	}
	size := first.Version.Load().Frozen[0].Reserved()
	for _, p := range db.partitions() {
		if n := p.Version.Load().Active.Reserved(); n > size {
			t.Errorf("%d bytes are flushed before %d", size, n)
		}
	}

	<-w.flushWanted
	w.flushes.Add(1) // the flush of first runs
	fill()
	if p, _ := w.nextFlush(); p != nil || len(frozenPartitions(db)) != 1 || len(w.flushWanted) > 0 {
		t.Fatal("a second flush begins, or is waited for, beside the one that leaves a processor")
	}
	w.waiting.Add(1)
	second, _ := w.nextFlush()
	if second == nil || second == first || len(frozenPartitions(db)) != 2 {
		t.Fatalf("flushed while a write waits: %v beside %v", second, first)
	}
	w.waiting.Add(-1)
	w.flushes.Add(-1)
	second.Flushing.Unlock()

	first.Flushing.Unlock()
}
