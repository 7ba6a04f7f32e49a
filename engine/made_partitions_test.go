package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestManyPartitions makes a container of many physical partitions, writes to it, splits
// and merges, and opens it after a close and after a kill. What one costs must not grow with the
// number of those that are there: BenchmarkPartitions makes as many as there can be.
func TestManyPartitions(t *testing.T) {
	most := maxPartitions / 16
	if raceEnabled {
		most /= 4
	}
	ctx := context.Background()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	opts := &Options{fs: faulty, manual: true}
	db, err := Open(ctx, "mem", opts)
	must(t, err)
	calls := func(what string, limit int, do func()) {
		t.Helper()
		before := faulty.Calls()
		do()
		if n := int(faulty.Calls() - before); n > limit {
			t.Errorf("%s took %d calls, more than %d", what, n, limit)
		}
	}
	var c *Container
	calls("to make it", 11*most, func() {
		c, err = db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: most})
		must(t, err)
	})
	store := db.storeManifest.dir.Bytes()
	one, err := mem.ReadFile(db.partitions()[0].Dir + "/" + manifest.Name(1))
	must(t, err)
	t.Logf("each of %d partitions has %d bytes of the store manifest and %d of its own", most, store/int64(most), len(one))
	if each := store / int64(most); each > 160 || len(one) > 200 {
		t.Errorf("the store manifest has %d bytes for each partition, its own %d", each, len(one))
	}
	if taken := db.env.Pool.Used(); taken != 0 {
		t.Errorf("%d bytes of write buffers are taken before anything was written", taken)
	}
	docs := 0
	write := func() {
		t.Helper()
		for range 100 {
			_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"%d"}`, docs, docs), nil)
			must(t, err)
			docs++
		}
	}
	check := func() {
		t.Helper()
		for i := range docs {
			_, err := c.Read(ctx, StringKey(fmt.Sprint(i)), fmt.Sprint(i))
			must(t, err)
		}
		if n := len(c.Partitions()); n != most {
			t.Errorf("%d partitions, not %d", n, most)
		}
	}
	reopen := func(fsys *vfs.Mem, each int) {
		t.Helper()
		mem, faulty = fsys, vfs.NewFaulty(fsys)
		opts.fs = faulty
		calls("to open it", each*most+2000, func() {
			db, err = Open(ctx, "mem", opts)
			must(t, err)
		})
		c, err = db.Container("c")
		must(t, err)
		check()
	}
	calls("100 writes", 500, write)
	must(t, db.Close())
	reopen(mem, 4)
	calls("100 writes more", 500, write)
	calls("100 reads", 0, check)
	calls("a merge and a split", 200, func() {
		parts := c.Partitions()
		job, err := c.Merge(ctx, parts[0].ID, parts[1].ID)
		must(t, err)
		must(t, job.Wait(ctx))
		job, err = c.Split(ctx, c.Partitions()[0].ID, nil)
		must(t, err)
		must(t, job.Wait(ctx))
	})
	must(t, db.Flush(ctx))
	killed := mem.Kill()
	must(t, db.Close())
	reopen(killed, 5)
	must(t, db.Close())
}
