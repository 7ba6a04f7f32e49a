package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOpenFullDisk fills the disk to its last byte, ends the process, and opens
// the store for writing: what is deleted then makes room for what is written.
func TestOpenFullDisk(t *testing.T) {
	ctx := context.Background()
	for _, container := range []bool{false, true} {
		t.Run(fmt.Sprintf("drop %v", container), func(t *testing.T) {
			mem := vfs.NewMem()
			mem.SetCapacity(32 << 20)
			opts := testOptions(mem)
			opts.reserveBytes = 1 << 20
			db, c := openStore(t, opts)
			other, err := db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}})
			must(t, err)
			for i := range 20 {
				_, err := other.Upsert(ctx, doc(fmt.Sprint(i), "a", i), nil)
				must(t, err)
			}
			body := bytes.Repeat([]byte("0123456789abcdef"), 500)
			written := 0
			for ; ; written++ {
				rest := fmt.Appendf(nil, `{"id":"%d","k":"k%d","v":"%d%s"}`, written, written%7, written, body)
				if _, err = c.Upsert(ctx, rest, nil); err != nil {
					break
				}
				if written%50 == 0 {
					if err = db.Flush(ctx); err != nil {
						break
					}
				}
				free, err := mem.Free()
				must(t, err)
				if written == 400 {
					mem.SetCapacity(32<<20 - int64(free) + 300<<10)
				}
			}
			if !errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrBusy) {
				t.Fatalf("the disk is to be full: %v", err)
			}
			mem = mem.Kill()
			free, err := mem.Free()
			must(t, err)
			must(t, mem.WriteFile("filler", make([]byte, free))) // the disk is that of others too
			before, err := mem.Stat(manifest.ReserveName)
			must(t, err)
			if before.Size < 1<<20 {
				t.Fatalf("a reserve of %d bytes", before.Size)
			}

			opts.fs = mem
			db, err = Open(ctx, "full", opts)
			must(t, err)
			if _, err := mem.Stat(manifest.ReserveName); !errors.Is(err, ErrMissing) {
				t.Errorf("the reserve is still there: %v", err)
			}
			c, err = db.Container("c")
			must(t, err)
			if container {
				must(t, db.DropContainer(ctx, "c"))
			} else {
				for k := range 7 {
					err := c.DeleteLogicalPartition(ctx, StringKey(fmt.Sprint("k", k)), nil)
					must(t, err)
				}
				must(t, db.Compact(ctx))
			}
			other, err = db.Container("other")
			must(t, err)
			for i := range 100 {
				_, err := other.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","v":"%d%s"}`, i, i, body), nil)
				must(t, err)
				if i%25 == 24 {
					must(t, db.Flush(ctx))
				}
			}
			must(t, mem.Remove("filler"))
			mem.SetCapacity(64 << 20)
			must(t, db.Close())
			if again, err := mem.Stat(manifest.ReserveName); err != nil || again.Size != before.Size {
				t.Errorf("after a close with room: %v, %v", again, err)
			}
			db, err = Open(ctx, "full", opts)
			must(t, err)
			defer db.Close()
			other, err = db.Container("other")
			must(t, err)
			n := 0
			for _, err := range other.Scan(ctx, StringKey("a"), IDRange{}, nil) {
				must(t, err)
				n++
			}
			if n != 100 {
				t.Errorf("%d items, want 100", n)
			}
			checkVerified(t, db)
		})
	}
}

// TestOpenFullDiskOfLongLog opens a store on a full disk whose log has more than the write
// buffers take: to flush it would need more room than the reserve gives.
func TestOpenFullDiskOfLongLog(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.memtableBytes = 64 << 20
	opts.MemoryBudget = 256 << 20
	opts.reserveBytes = defaultReserve
	db, c := openStore(t, opts)
	other, err := db.CreateContainer(ctx, "other", byK)
	must(t, err)
	_, err = other.Upsert(ctx, doc("i", "a", 1), nil)
	must(t, err)
	const n = 3000
	random, filler := make([]byte, 4500), make([]byte, 6000)
	rng := rand.NewChaCha8([32]byte{1})
	for i := range n {
		_, _ = rng.Read(random)
		base64.StdEncoding.Encode(filler, random)
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d","v":"%s"}`, i, i%7, filler), nil)
		must(t, err)
	}
	mem = mem.Kill()
	info, err := mem.Stat(manifest.ReserveName)
	must(t, err)
	free := int64(1) << 40
	mem.SetCapacity(free)
	left, err := mem.Free()
	must(t, err)
	mem.SetCapacity(free - int64(left)) // not a byte
	opts = testOptions(mem)
	opts.reserveBytes = defaultReserve
	if budget := minMemoryBudget; n*len(filler) < int(budget) {
		t.Fatalf("the log has less than the budget of %d", budget)
	}
	db, err = Open(ctx, "full", opts)
	if err != nil {
		t.Fatalf("with a reserve of %d bytes: %v", info.Size, err)
	}
	defer db.Close()
	c, err = db.Container("c")
	must(t, err)
	for _, id := range []int{0, n / 2, n - 1} {
		_, err = c.Read(ctx, StringKey(fmt.Sprint("k", id%7)), fmt.Sprint(id))
		must(t, err)
	}
	must(t, db.DropContainer(ctx, "c"))
	other, err = db.Container("other")
	must(t, err)
	must(t, other.Delete(ctx, StringKey("a"), "i", nil))
}

// TestReserve: where there is no room the file is not made, and that is no error;
// one that is too small is made again; ReadOnly and a checkpoint leave it alone.
func TestReserve(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	mem.SetCapacity(2 << 20)
	opts := testOptions(mem)
	opts.reserveBytes = 1 << 20
	size := func() int64 {
		info, err := mem.Stat(manifest.ReserveName)
		if errors.Is(err, ErrMissing) {
			return 0
		}
		must(t, err)
		return info.Size
	}
	reopen := func() {
		db, err := Open(ctx, "mem", opts)
		must(t, err)
		must(t, db.Close())
	}
	reopen()
	if n := size(); n != 0 {
		t.Errorf("%d bytes kept of a disk with little room", n)
	}
	mem.SetCapacity(64 << 20)
	readOnly := *opts
	readOnly.ReadOnly = true
	db, err := Open(ctx, "mem", &readOnly)
	must(t, err)
	must(t, db.Close())
	if n := size(); n != 0 {
		t.Errorf("%d bytes kept by a reader", n)
	}
	reopen()
	if n := size(); n != 1<<20 {
		t.Errorf("%d bytes kept", n)
	}
	must(t, mem.WriteFile(manifest.ReserveName, []byte("short")))
	reopen()
	if n := size(); n != 1<<20 {
		t.Errorf("%d bytes kept in the place of a short file", n)
	}
	// A reserve without a store is no store, and no hindrance to one.
	alone := vfs.NewMem()
	must(t, alone.WriteFile(manifest.ReserveName, make([]byte, 10)))
	opts.fs = alone
	reopen()
}

// TestDropOnFullDisk fills the disk to its last byte: a container can be dropped all the same, and
// when there is room again upkeep makes the reserve file anew.
func TestDropOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	mem.SetCapacity(64 << 20)
	db, c := openStore(t, testOptions(mem))
	for i := range 30 {
		upsert(t, c, fmt.Sprint(i), 1000)
	}
	must(t, db.Flush(t.Context()))
	free, err := mem.Free()
	must(t, err)
	must(t, mem.WriteFile("filler", make([]byte, free)))
	if err := db.DropContainer(t.Context(), "none"); !errors.Is(err, ErrNoContainer) {
		t.Errorf("no container of this name: %v", err)
	}
	must(t, second(mem.Stat(manifest.ReserveName)))
	must(t, db.DropContainer(t.Context(), "c"))
	if free, err = mem.Free(); err != nil || int64(free) <= db.opts.reserveBytes {
		t.Errorf("no more than the reserve is free: %d bytes, %v", free, err)
	}
	db.chores().Tick()
	if _, err := mem.Stat(manifest.ReserveName); !errors.Is(err, ErrMissing) {
		t.Errorf("the reserve file on a full disk: %v", err)
	}
	must(t, mem.Remove("filler"))
	db.chores().Tick()
	must(t, second(mem.Stat(manifest.ReserveName)))
}
