package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestKilledThenCut kills the process at calls of each story, opens the store
// with what the kernel still holds in memory, writes to it or not, closes it, and
// cuts the power. Whatever the open found must be there then: it let the log go,
// and removed files, for the sake of names that were not durable when the process
// died.
func TestKilledThenCut(t *testing.T) {
	seed := newSeed(t)
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for n := range every(sweep(14, 97, 61), seed) {
				mem := vfs.NewMem()
				faulty := vfs.NewFaulty(mem)
				var killed *vfs.Mem
				faulty.StopAt(n, func() { killed = mem.Kill() })
				s := st.play(t, faulty)
				if killed == nil {
					return // the story ended before call n
				}
				if err := s.killedThenCut(survivors, killed, seed+uint64(n)); err != nil {
					t.Fatalf("killed at call %d (%v): %v", n, s.err, err)
				}
			}
		})
	}
}

func (s *stage) killedThenCut(survivors *survivors, killed *vfs.Mem, seed uint64) error {
	db, err := Open(context.Background(), "killed", testOptions(killed))
	if err != nil {
		return fmt.Errorf("open after the kill: %w", err)
	}
	defer db.Close()
	next := &stage{t: s.t, opts: testOptions(killed), db: db, o: s.o.clone(), rounds: s.rounds, dropped: s.dropped, gone: s.gone}
	if err := next.checkDropped(db, next.o); err != nil {
		return err
	}
	if err := next.o.check(db, func(h *history) int { return h.kernel }); err != nil {
		return fmt.Errorf("after the kill: %w", err)
	}
	if seed%2 == 0 {
		for info := range db.Containers() {
			next.put(info.Name, 3, 50)
		}
	}
	if next.close(); next.err != nil {
		return next.err
	}
	for i, keep := range []vfs.Keep{vfs.KeepNone, vfs.KeepRandom} {
		if err := survivors.check(next, killed.Crash(vfs.CrashOptions{Keep: keep, Seed: seed}), false); err != nil {
			return fmt.Errorf("power cut after the close, image %d: %w", i, err)
		}
	}
	return nil
}

// inPartition says whether a call is one on the directory of a partition, or on what lies in it.
func inPartition(call vfs.Call, op vfs.Op) bool {
	return call.Op == op && strings.HasPrefix(call.Name, manifest.PartitionsDir+"/")
}

// stopAtSync has all calls fail from the n-th sync of a partition's directory on. At that sync
// it calls stopped.
func stopAtSync(faulty *vfs.Faulty, n int, stopped func()) {
	syncs := 0
	tell := sync.OnceFunc(stopped)
	faulty.SetHook(func(call vfs.Call) error {
		if inPartition(call, vfs.OpSyncDir) {
			syncs++
		}
		if syncs < n {
			return nil
		}
		tell()
		return vfs.ErrStopped
	})
}

// TestKilledBeforeDirectorySync kills the process before each sync of a partition's directory in
// turn: the next open finds manifests and files whose names a power cut still takes away. It
// must rely on none of them before it has made them durable itself. A power cut follows as soon
// as it is open, and another one after its close.
func TestKilledBeforeDirectorySync(t *testing.T) {
	ctx := context.Background()
	const documents = 60
	all := func(c *Container, killed, written int) {
		t.Helper()
		for i := range written {
			if _, err := c.Read(ctx, StringKey("a"), fmt.Sprint(i)); err != nil {
				t.Fatalf("killed before sync %d: document %d of %d: %v", killed, i, written, err)
			}
		}
	}
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		db, c := openStore(t, testOptions(faulty))
		var killed *vfs.Mem
		stopAtSync(faulty, n, func() { killed = mem.Kill() })
		written := 0
		for range 3 {
			for range documents / 3 {
				if _, err := c.Upsert(ctx, smallDocument(fmt.Sprint(written), "a", 1000), nil); err != nil {
					break
				}
				written++
			}
			if db.Flush(ctx) != nil {
				break
			}
		}
		db.Compact(ctx)
		db.Close()
		if killed == nil {
			if n < 4 {
				t.Fatalf("the directories of partitions are synced %d times, want one for each flush and the compaction", n-1)
			}
			return
		}
		db, c = openStore(t, testOptions(killed))
		all(c, n, written)
		cut := killed.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		must(t, db.Close())
		for _, mem := range []*vfs.Mem{cut, killed.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})} {
			db, c := openStore(t, testOptions(mem))
			all(c, n, written)
			must(t, db.Close())
		}
	}
}

// TestKilledInReplay: a store was closed in order, with more in its log than the next open has memory
// for. That open flushes in its replay, and is killed before each sync of a partition's directory in
// turn. The store must not pass for one whose names are all durable: the open that follows lets the
// log go, and the power is cut.
func TestKilledInReplay(t *testing.T) {
	ctx := context.Background()
	const documents = 200
	options := func(fsys vfs.FS) *Options {
		o := testOptions(fsys)
		o.LogFileBytes, o.LogBytes, o.FileBytes = 4<<20, 64<<20, 4<<20
		return o
	}
	all := func(c *Container, n int) {
		t.Helper()
		for i := range documents {
			if _, err := c.Read(ctx, StringKey("a"), fmt.Sprint(i)); err != nil {
				t.Fatalf("killed before sync %d: document %d of %d: %v", n, i, documents, err)
			}
		}
	}
	closed := vfs.NewMem()
	faulty := vfs.NewFaulty(closed)
	o := options(faulty)
	o.MemoryBudget, o.memtableBytes = 1<<30, 64<<20
	db, c := openStore(t, o)
	for i := range documents {
		upsert(t, c, fmt.Sprint(i), 64<<10)
	}
	faulty.SetHook(func(call vfs.Call) error {
		if inPartition(call, vfs.OpCreate) {
			return errInjected
		}
		return nil
	})
	if err := db.Close(); !errors.Is(err, errInjected) || !db.storeManifest.state.Clean {
		t.Fatalf("close: %v, clean: %v", err, db.storeManifest.state.Clean)
	}
	for n := 1; ; n++ {
		mem := closed.Clone()
		faulty := vfs.NewFaulty(mem)
		var killed *vfs.Mem
		stopAtSync(faulty, n, func() { killed = mem.Kill() })
		db, err := Open(ctx, "mem", options(faulty))
		if killed == nil {
			must(t, err)
			must(t, db.Close())
			if n < 3 {
				t.Fatalf("the directory of the partition is synced %d times, want one for a flush in the replay and one at its end", n-1)
			}
			return
		}
		db, c := openStore(t, options(killed))
		all(c, n)
		must(t, db.Flush(ctx))
		cut := killed.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		must(t, db.Close())
		db, c = openStore(t, options(cut))
		all(c, n)
		must(t, db.Close())
	}
}
