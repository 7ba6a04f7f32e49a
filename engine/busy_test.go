package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
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
