package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
)

// renameHook calls a function before each renaming of a store manifest.
type renameHook struct {
	vfs.FS
	before func()
}

func (h *renameHook) Rename(from, to string) error {
	if h.before != nil && strings.HasPrefix(to, "MANIFEST-") {
		h.before()
	}
	return h.FS.Rename(from, to)
}

// mergedParts is a store whose two partitions, with a key each, are being merged.
type mergedParts struct {
	*splitStore
	gate         *gateFS
	lower, upper string
	merged       <-chan error
}

// mergeParts begins a merge, and returns when its commit is about to be written
// and beforehand is done.
func mergeParts(t *testing.T, beforehand func(s *mergedParts)) *mergedParts {
	gate := newGate(vfs.NewMem())
	hook := &renameHook{FS: gate}
	def := byK
	def.MinPartitions = 2
	s := &mergedParts{splitStore: newSplitStore(t, def, func(o *Options) { o.fs = hook }), gate: gate}
	ids := s.ids()
	keys := make(map[PartitionID]string) // one of each partition
	for i := 0; len(keys) < 2; i++ {
		key := fmt.Sprintf("k%d", i)
		keys[partitionOf(s.c, StringKey(key))] = key
	}
	s.lower, s.upper = keys[ids[0]], keys[ids[1]]
	done := make(chan struct{})
	renames := 0
	hook.before = func() {
		if renames++; renames == 2 { // the intent is the first, the commit the second
			beforehand(s)
			close(done)
		}
	}
	s.merged = background(func() error {
		job, err := s.c.Merge(context.Background(), ids[0], ids[1])
		if err == nil {
			err = job.Wait(context.Background())
		}
		return err
	})
	<-done
	synctest.Wait()
	return s
}

func (s *mergedParts) write(key string, d Durability) error {
	return second(s.c.Upsert(s.t.Context(), smallDocument("a", key, 10), &WriteOptions{Durability: d}))
}

func (s *mergedParts) read(key string) error {
	return second(s.c.Read(s.t.Context(), StringKey(key), "a"))
}

// TestMergeShowsNothingUnsynced merges two partitions when one has a write that
// waits for its sync, and the other a newer one that needs none. What is visible
// in the one must not make visible what a crash can take from the other.
func TestMergeShowsNothingUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acked <-chan error
		s := mergeParts(t, func(s *mergedParts) {
			s.gate.syncs.Store(true)
			acked = background(func() error { return s.write(s.lower, Synced) })
			synctest.Wait()
			must(s.t, s.write(s.upper, Buffered))
		})
		if err := s.read(s.upper); err != nil {
			t.Errorf("a buffered write: %v", err)
		}
		if err := s.read(s.lower); !errors.Is(err, ErrNotFound) {
			t.Errorf("a write that waits for its sync is read: %v", err)
		}
		s.gate.release()
		must(s.t, <-acked)
		must(s.t, <-s.merged)
		for _, key := range []string{s.lower, s.upper} {
			if err := s.read(key); err != nil || len(s.ids()) != 1 {
				t.Errorf("%s after the merge: %v, partitions %v", key, err, s.ids())
			}
		}
		s.verify()
		must(s.t, s.db.Close())
	})
}

// TestMergeSwapsNothingUnsynced merges two partitions. While the merge waits until
// all that they have is durable, one gets a write that asks for a sync of its own,
// then the other one that asks for none. The partition that takes their place shows
// what either shows: not the first of these writes, whose sync is still to come.
func TestMergeSwapsNothingUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mergeParts(t, func(s *mergedParts) {
			must(s.t, s.write(s.upper, Buffered))
			s.gate.syncs.Store(true)
		})
		synced := background(func() error { return s.write(s.lower, Synced) })
		synctest.Wait()
		buffered := background(func() error { return s.write(s.upper, Buffered) })
		synctest.Wait()
		s.gate.open <- struct{}{} // the sync that the merge waits for, and no other
		synctest.Wait()
		if len(s.ids()) != 1 {
			t.Errorf("the merge has not come to its swap: partitions %v", s.ids())
		}
		if err := s.read(s.lower); !errors.Is(err, ErrNotFound) {
			t.Errorf("a write that waits for its sync is read: %v", err)
		}
		s.gate.release()
		must(s.t, <-synced)
		must(s.t, <-buffered)
		must(s.t, <-s.merged)
		if err := s.read(s.lower); err != nil {
			t.Error(err)
		}
		s.verify()
		must(s.t, s.db.Close())
	})
}

// TestMergeWaitsForRoom: a merge that is committed waits while the log has no room, and does not fail the store.
func TestMergeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mem *vfs.Mem
		s := mergeParts(t, func(s *mergedParts) {
			mem = s.gate.FS.(*vfs.Mem)
			mem.SetCopyOnWrite(true)
			mem.SetCapacity(0)
			full := false
			for range 2000 {
				full = s.write(s.lower, Buffered) != nil || full
			}
			if !full {
				t.Error("the disk was never full")
			}
		})
		synctest.Wait()
		must(t, s.db.writable())
		mem.SetCapacity(math.MaxInt64)
		must(t, <-s.merged)
		if ids := s.ids(); len(ids) != 1 {
			t.Errorf("partitions %v", ids)
		}
		must(t, s.write(s.upper, Synced))
		s.verify()
		must(t, s.db.Close())
	})
}
