package engine

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestFullDisk fills the disk at many sizes. Writes that find no room fail
// with ErrDiskFull and leave nothing; reads go on; when there is room again so
// do writes, without a reopen; nothing acknowledged is lost.
func TestFullDisk(t *testing.T) {
	const plenty = 1 << 40
	refused := 0
	for room := int64(0); room < 1<<20; room += 37 << 10 {
		mem := vfs.NewMem()
		mem.SetCapacity(plenty)
		opts := testOptions(mem)
		db, err := Open(context.Background(), "full", opts)
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{t: t, opts: opts, db: db, o: newOracle()}
		s.create("c", 2)
		s.put("c", 10, 2_000)
		if s.err != nil {
			t.Fatal(s.err)
		}
		free, err := mem.Free()
		if err != nil {
			t.Fatal(err)
		}
		mem.SetCapacity(plenty - int64(free) + room)
		for range 8 {
			s.put("c", 20, 3_000)
			s.flush()
			if s.err == nil {
				continue
			}
			refused++
			if !errors.Is(s.err, ErrDiskFull) {
				t.Fatalf("room %d: %v, want ErrDiskFull", room, s.err)
			}
			if err := db.writable(); err != nil {
				t.Fatalf("room %d: a full disk failed the store: %v", room, err)
			}
			s.err = nil
			if err := s.o.clone().check(db, func(h *history) int { return h.kernel }); err != nil {
				t.Fatalf("room %d, disk full: %v", room, err)
			}
		}
		mem.SetCapacity(plenty)
		s.put("c", 10, 500)
		s.flush()
		s.settle()
		if s.err != nil {
			t.Fatalf("room %d: with room again: %v", room, s.err)
		}
		if err := s.o.check(db, func(h *history) int { return h.kernel }); err != nil {
			t.Fatalf("room %d: with room again: %v", room, err)
		}
		next := mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		db.Close()
		again, err := Open(context.Background(), "full", testOptions(next))
		if err != nil {
			t.Fatalf("room %d: reopen: %v", room, err)
		}
		if err := s.o.check(again, func(h *history) int { return h.durable }); err != nil {
			t.Fatalf("room %d: reopened: %v", room, err)
		}
		for f, err := range again.Verify(context.Background()) {
			t.Fatalf("room %d: verify: %v %v", room, f, err)
		}
		again.Close()
	}
	if refused == 0 {
		t.Error("the disk was never full: the test reached too little")
	}
}

// TestCloseWhileMergeWaitsForRoom: a merge whose log finds no room holds locks that another
// call waits for. Close ends both.
func TestCloseWhileMergeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		var full, armed atomic.Bool
		var refused atomic.Int32
		faulty.SetHook(func(c vfs.Call) error {
			if full.Load() && c.Op == vfs.OpWrite && strings.HasPrefix(c.Name, manifest.LogDir+"/") {
				refused.Add(1)
				return syscall.ENOSPC
			}
			return nil
		})
		between := func() {} // what is done once the manifest names the child
		s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2}, func(o *Options) {
			o.fs = faulty
			o.clock = func() time.Time {
				if stack := string(debug.Stack()); strings.Contains(stack, ").clockSince(") && strings.Contains(stack, ").update(") && strings.Contains(stack, ").toChildren(") && armed.CompareAndSwap(true, false) {
					between()
				}
				return time.Now()
			}
		})
		s.mem = mem
		s.put(1, "a", "x")
		between = func() {
			full.Store(true)
			if err := <-background(func() error { return second(s.c.Upsert(t.Context(), smallDocument("late", "k", 10), nil)) }); err == nil {
				t.Error("a write on a full disk is acknowledged")
			}
		}
		armed.Store(true)
		ids := s.c.Partitions()
		merged := background(func() error {
			job, err := s.c.Merge(t.Context(), ids[0].ID, ids[1].ID)
			if err != nil {
				return err
			}
			return job.Wait(t.Context())
		})
		synctest.Wait()
		if refused.Load() < 2 {
			t.Fatal("the merge does not wait for room: the test reached too little")
		}
		dropped := background(func() error { return s.db.DropContainer(t.Context(), "c") })
		synctest.Wait()
		closed := background(s.db.Close)
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-closed:
		default:
			t.Error("Close waits until there is room")
			full.Store(false)
			<-closed
		}
		<-dropped // the manifest may drop the container still
		if err := <-merged; err == nil {
			t.Error("the merge has an end without an error")
		}
		full.Store(false)
		s.reopen(mem)
		must(t, s.db.Close())
	})
}
