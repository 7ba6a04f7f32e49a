package engine

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRipeMemtables: the write that fills half of the write buffers wakes the flusher,
// though no write waits for memory and no memtable is full.
func TestRipeMemtables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := testOptions(vfs.NewMem())
		opts.manual, opts.Durability, opts.memtableBytes = false, Buffered, 1<<30
		db, err := Open(t.Context(), "ripe", opts)
		must(t, err)
		c, err := db.CreateContainer(t.Context(), "c", ContainerDef{Kind: Opaque, MinPartitions: 4})
		must(t, err)
		body := bytes.Repeat([]byte("x"), 1000)
		put := func(i int) {
			t.Helper()
			_, err := c.Put(t.Context(), NumberKey(float64(i%1000)), fmt.Sprint(i), body, nil)
			must(t, err)
		}
		limit := db.env.Pool.Limit()
		i := 0
		for ; db.env.Pool.Used() < limit/4; i++ {
			put(i)
		}
		if synctest.Wait(); db.Stats().Flushes > 0 {
			t.Error("flushed before half of the write buffers was filled")
		}
		for ; !db.gate.Ripe() && db.Stats().Flushes == 0; i++ {
			put(i)
		}
		if synctest.Wait(); db.Stats().Flushes == 0 {
			t.Error("not flushed when half of the write buffers was filled")
		}
		must(t, db.Close())
	})
}
