package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestBusy fills the write buffers while no file can be made: writes fail with
// ErrBusy and the cause, and go on once files can be made again.
func TestBusy(t *testing.T) {
	ctx := context.Background()
	faulty := vfs.NewFaulty(vfs.NewMem())
	opts := testOptions(faulty)
	opts.manual, opts.Durability, opts.memtableBytes, opts.LogFileBytes = false, Buffered, 4<<20, 4<<20
	db, err := Open(ctx, "busy", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { db.Close() }()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{Kind: Opaque, MinPartitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	faulty.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpCreate && strings.HasSuffix(call.Name, ".seg"+manifest.TempSuffix) {
			return errInjected
		}
		return nil
	})
	body := bytes.Repeat([]byte("x"), 100<<10)
	acknowledged := 0
	for ; err == nil; acknowledged++ {
		if acknowledged > 1000 {
			t.Fatal("writes go on without an end")
		}
		_, err = c.Put(ctx, NumberKey(float64(acknowledged%10)), fmt.Sprint(acknowledged), body, nil)
	}
	acknowledged--
	if !errors.Is(err, ErrBusy) || !errors.Is(err, errInjected) {
		t.Fatalf("put: %v, want ErrBusy and its cause", err)
	}
	if err := db.Flush(ctx); !errors.Is(err, errInjected) {
		t.Fatalf("flush: %v", err)
	}
	faulty.SetHook(nil)
	if err := db.Flush(ctx); err != nil {
		t.Fatalf("flush with the fault gone: %v", err)
	}
	if _, err := c.Put(ctx, NumberKey(1), "after", body, nil); err != nil {
		t.Fatalf("put with the fault gone: %v", err)
	}
	for i := range acknowledged {
		if _, err := c.Read(ctx, NumberKey(float64(i%10)), fmt.Sprint(i)); err != nil {
			t.Fatalf("item %d of %d: %v", i, acknowledged, err)
		}
	}
}

// TestWaiterOfDrop: a write that waits for memory goes on when a drop gives
// some back.
func TestWaiterOfDrop(t *testing.T) {
	ctx := context.Background()
	gate := newGate(vfs.NewMem())
	db, _ := openStore(t, &Options{MemoryBudget: minMemoryBudget, Durability: Buffered, fs: gate})
	full, err := db.CreateContainer(ctx, "full", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	waits, err := db.CreateContainer(ctx, "waits", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	gate.segments.Store(true)
	for i := 0; db.env.Pool.Used()+1<<20 <= db.env.Pool.Limit(); i++ {
		upsert(t, full, fmt.Sprint(i), 500_000)
	}
	wrote := make(chan error)
	go func() {
		_, err := waits.Upsert(ctx, smallDocument("x", "a", 1_500_000), nil)
		wrote <- err
	}()
	until(func() bool { return db.gate.Waiting() })
	dropped := make(chan error)
	go func() { dropped <- db.DropContainer(ctx, "full") }()
	until(func() bool { return full.dropped.Load() })
	gate.release()
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// TestBudgetOfManyWriters: writers of large items together stay within the
// memory that there is.
func TestBudgetOfManyWriters(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, t.TempDir(), &Options{MemoryBudget: minMemoryBudget, Durability: Buffered})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{Kind: Opaque, Limits: ContainerLimits{ItemBytes: 3 << 20}, Compression: NoCompression})
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 2_900_000)
	var writing sync.WaitGroup
	writers := 16
	if raceEnabled && testing.Short() {
		writers = 8 // 24 MB in flight, of a budget of 16 MiB
	}
	for w := range writers {
		writing.Go(func() {
			for i := range 2 {
				if _, err := c.Put(ctx, StringKey("a"), fmt.Sprint(w, " ", i), body, nil); err != nil {
					t.Error(err)
				}
				if held := db.env.Pool.Held(); held > db.opts.MemoryBudget {
					t.Errorf("write buffers hold %d bytes with a budget of %d", held, db.opts.MemoryBudget)
				}
			}
		})
	}
	writing.Wait()
}

// badPartition refuses the making of segment files in one directory.
type badPartition struct {
	vfs.FS
	dir string
}

func (f *badPartition) Create(name string) (vfs.File, error) {
	if strings.HasPrefix(name, f.dir+"/") && strings.HasSuffix(name, ".seg"+manifest.TempSuffix) {
		return nil, errInjected
	}
	return f.FS.Create(name)
}

// TestOneBadPartition: a partition that cannot be flushed does not keep others
// from it.
func TestOneBadPartition(t *testing.T) {
	ctx := context.Background()
	db, bad := openStore(t, &Options{MemoryBudget: minMemoryBudget, Durability: Buffered, fs: &badPartition{vfs.NewMem(), "p/000001"}})
	good, err := db.CreateContainer(ctx, "good", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 13 {
		upsert(t, bad, fmt.Sprint(i), 500_000)
	}
	written := 0
	for ; db.Stats().Flushes < 3; written++ {
		if _, err := good.Upsert(ctx, smallDocument(fmt.Sprint(written), "a", 200_000), nil); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	for i := range 13 {
		if _, err := bad.Read(ctx, StringKey("a"), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}
