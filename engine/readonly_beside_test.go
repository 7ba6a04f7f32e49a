package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// seenBy returns an error unless a reader of fsys, who opens the store read-only or not, finds
// document id.
func seenBy(t *testing.T, fsys vfs.FS, readOnly bool, id string) error {
	t.Helper()
	opts := testOptions(fsys)
	opts.ReadOnly = readOnly
	db, err := Open(t.Context(), "mem", opts)
	must(t, err)
	defer db.Close()
	c, err := db.Container("c")
	must(t, err)
	_, err = c.Read(t.Context(), StringKey("a"), id)
	return err
}

// TestReadOnlyShowsWhatLasts opens a store read-only while the sync of a write is under way,
// and behind a process that was killed in it: a power cut takes nothing back that a reader saw.
func TestReadOnlyShowsWhatLasts(t *testing.T) {
	for name, durability := range map[string]Durability{"synced": Synced, "buffered": Buffered} {
		for _, killed := range []bool{false, true} {
			when := name + ", beside the writer"
			if killed {
				when = name + ", after it was killed"
			}
			t.Run(when, func(t *testing.T) {
				mem := vfs.NewMem()
				gate := newGate(mem)
				db, c := openStore(t, testOptions(gate))
				upsert(t, c, "kept", 10)
				gate.syncs.Store(true)
				at := db.log.Written()
				written := make(chan error, 1)
				go func() {
					_, err := c.Upsert(t.Context(), smallDocument("new", "a", 10), &WriteOptions{Durability: durability})
					written <- err
				}()
				until(func() bool { return db.log.Written() > at })
				if err := seenBy(t, mem.Crash(vfs.CrashOptions{}), false, "new"); !errors.Is(err, ErrNotFound) {
					t.Fatalf("it was durable before its sync: %v", err)
				}
				seen := mem
				if killed {
					seen = mem.Kill()
				}
				must(t, seenBy(t, seen, true, "kept"))
				must(t, seenBy(t, seen, true, "new")) // of a killed process it is perhaps acknowledged
				for _, readOnly := range []bool{true, false} {
					if err := seenBy(t, seen.Crash(vfs.CrashOptions{}), readOnly, "new"); err != nil {
						t.Errorf("a reader saw it, after a power cut, read-only %v: %v", readOnly, err)
					}
				}
				gate.release()
				must(t, <-written)
				must(t, seenBy(t, mem, true, "new"))
			})
		}
	}
}

// TestReadOnlyOfWhatCannotBeSynced opens a store read-only whose log that reader cannot sync: he sees
// what is known to last. The writer is told of it too.
func TestReadOnlyOfWhatCannotBeSynced(t *testing.T) {
	mem := vfs.NewMem()
	gate := newGate(mem)
	db, c := openStore(t, testOptions(gate))
	upsert(t, c, "vouched", 10)
	upsert(t, c, "last", 10) // its record vouches for the one before
	gate.syncs.Store(true)
	at := db.log.Written()
	written := make(chan error, 1)
	go func() {
		_, err := c.Upsert(t.Context(), smallDocument("new", "a", 10), nil)
		written <- err
	}()
	until(func() bool { return db.log.Written() > at })
	failing := vfs.NewFaulty(mem)
	failing.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpSync {
			return errors.New("input/output error")
		}
		return nil
	})
	must(t, seenBy(t, failing, true, "vouched"))
	if err := seenBy(t, failing, true, "new"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what cannot be synced: %v", err)
	}
	gate.release()
	if err := <-written; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the writer, whose bytes a sync of another one lost: %v", err)
	}
}
