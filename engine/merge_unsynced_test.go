package engine

import (
	"context"
	"errors"
	"fmt"
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

// TestMergeShowsNothingUnsynced merges two partitions when one has a write that
// waits for its sync, and the other a newer one that needs none. What is visible
// in the one must not make visible what a crash can take from the other.
func TestMergeShowsNothingUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(vfs.NewMem())
		hook := &renameHook{FS: gate}
		def := byK
		def.MinPartitions = 2
		s := newSplitStore(t, def, func(o *Options) { o.fs = hook })
		ids := s.ids()
		lower, upper := "", ""
		for i := 0; lower == "" || upper == ""; i++ {
			key := fmt.Sprintf("k%d", i)
			if partitionOf(s.c, StringKey(key)) == ids[0] {
				lower = key
			} else {
				upper = key
			}
		}
		write := func(key string, d Durability) error {
			_, err := s.c.Upsert(t.Context(), smallDocument("a", key, 10), &WriteOptions{Durability: d})
			return err
		}
		acked, hooked, merged := make(chan error, 1), make(chan struct{}), make(chan error, 1)
		renames := 0
		hook.before = func() {
			if renames++; renames != 2 { // the intent is the first, the commit the second
				return
			}
			gate.syncs.Store(true)
			go func() { acked <- write(lower, Synced) }()
			synctest.Wait()
			s.must(write(upper, Buffered))
			close(hooked)
		}
		go func() {
			job, err := s.c.Merge(context.Background(), ids[0], ids[1])
			if err == nil {
				err = job.Wait(context.Background())
			}
			merged <- err
		}()
		<-hooked
		synctest.Wait()
		if _, err := s.c.Read(t.Context(), StringKey(upper), "a"); err != nil {
			t.Errorf("a buffered write: %v", err)
		}
		if _, err := s.c.Read(t.Context(), StringKey(lower), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a write that waits for its sync is read: %v", err)
		}
		gate.release()
		s.must(<-acked)
		s.must(<-merged)
		for _, key := range []string{lower, upper} {
			if _, err := s.c.Read(t.Context(), StringKey(key), "a"); err != nil || len(s.ids()) != 1 {
				t.Errorf("%s after the merge: %v, partitions %v", key, err, s.ids())
			}
		}
		s.verify()
		s.must(s.db.Close())
	})
}

// TestMergeSwapsNothingUnsynced merges two partitions. While the merge waits until
// all that they have is durable, one gets a write that asks for a sync of its own,
// then the other one that asks for none. The partition that takes their place shows
// what either shows: not the first of these writes, whose sync is still to come.
func TestMergeSwapsNothingUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(vfs.NewMem())
		hook := &renameHook{FS: gate}
		def := byK
		def.MinPartitions = 2
		s := newSplitStore(t, def, func(o *Options) { o.fs = hook })
		ids := s.ids()
		keys := make(map[PartitionID]string) // one of each partition
		for i := 0; len(keys) < 2; i++ {
			key := fmt.Sprintf("k%d", i)
			keys[partitionOf(s.c, StringKey(key))] = key
		}
		lower, upper := keys[ids[0]], keys[ids[1]]
		write := func(key string, d Durability) error {
			_, err := s.c.Upsert(t.Context(), smallDocument("a", key, 10), &WriteOptions{Durability: d})
			return err
		}
		acked, hooked, merged := make(chan error, 2), make(chan struct{}), make(chan error, 1)
		renames := 0
		hook.before = func() {
			if renames++; renames == 2 { // the intent is the first, the commit the second
				s.must(write(upper, Buffered))
				gate.syncs.Store(true)
				close(hooked)
			}
		}
		go func() {
			job, err := s.c.Merge(context.Background(), ids[0], ids[1])
			if err == nil {
				err = job.Wait(context.Background())
			}
			merged <- err
		}()
		<-hooked
		synctest.Wait()
		go func() { acked <- write(lower, Synced) }()
		synctest.Wait()
		go func() { acked <- write(upper, Buffered) }()
		synctest.Wait()
		gate.open <- struct{}{} // the sync that the merge waits for, and no other
		synctest.Wait()
		if len(s.ids()) != 1 {
			t.Errorf("the merge has not come to its swap: partitions %v", s.ids())
		}
		if _, err := s.c.Read(t.Context(), StringKey(lower), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a write that waits for its sync is read: %v", err)
		}
		gate.release()
		for range 2 {
			s.must(<-acked)
		}
		s.must(<-merged)
		if _, err := s.c.Read(t.Context(), StringKey(lower), "a"); err != nil {
			t.Error(err)
		}
		s.verify()
		s.must(s.db.Close())
	})
}
