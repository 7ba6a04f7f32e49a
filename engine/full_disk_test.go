package engine

import (
	"context"
	"errors"
	"testing"

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
