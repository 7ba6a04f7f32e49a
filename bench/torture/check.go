package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/cleavestore/cleave/engine"
)

// found is what a lane of a store holds.
type found struct {
	docs map[string]change
	sum  uint64
}

// is says whether a lane holds what its model does.
func (f found) is(l *lane) bool { return f.sum == l.sum && len(f.docs) == len(l.docs) }

func difference(got, want map[string]change) string {
	for id, c := range want {
		if is, there := got[id]; !there {
			return fmt.Sprintf("%s is missing, which operation %d wrote; %d documents, want %d", id, c.count, len(got), len(want))
		} else if is != c {
			return fmt.Sprintf("%s is of operation %d, want %d; %d documents, want %d", id, is.count, c.count, len(got), len(want))
		}
	}
	for id, c := range got {
		if _, there := want[id]; !there {
			return fmt.Sprintf("%s of operation %d is there; %d documents, want %d", id, c.count, len(got), len(want))
		}
	}
	return "nothing that can be shown"
}

// broken is a promise that was not kept.
type broken struct{ error }

func violation(format string, args ...any) error { return broken{fmt.Errorf(format, args...)} }

func isViolation(err error) bool { return errors.As(err, new(broken)) }

// models are those of all lanes.
type models []*lane

func newModels(sh shape, seed uint64) models {
	m := make(models, sh.Lanes)
	for i := range m {
		m[i] = newLane(sh, seed, i)
	}
	return m
}

func (m models) at() []int {
	at := make([]int, len(m))
	for i, l := range m {
		at[i] = l.n
	}
	return at
}

// openedContainers returns the containers of a store that must have them.
func openedContainers(db *engine.DB) (cs containers, err error) {
	if cs.documents, err = db.Container("c"); err == nil {
		cs.opaque, err = db.Container("o")
	}
	return cs, err
}

// withStore opens a store for fn and closes it.
func withStore(ctx context.Context, dir string, o engine.Options, fn func(*engine.DB) error) error {
	db, err := engine.Open(ctx, dir, &o)
	if err != nil {
		return violation("the store does not open: %w", err)
	}
	err = fn(db)
	// A process that is forked meanwhile has a copy of the lock until it runs
	// its program.
	syscall.ForkLock.RLock()
	closeErr := db.Close()
	syscall.ForkLock.RUnlock()
	if err == nil && closeErr != nil {
		err = violation("the store does not close: %w", closeErr)
	}
	return err
}

// checkStore looks whether each lane of a store is the model after some number of
// operations from least to most, and returns these models. from are models of no
// more than least operations. feed, if not nil, reads on to the end of the feeds.
func checkStore(ctx context.Context, db *engine.DB, from models, least, most []int, feed *consumer, verify bool) (models, error) {
	cs, err := openedContainers(db)
	if err != nil {
		for number, n := range least {
			if n > 0 {
				return nil, violation("lane %d had %d operations: %w", number, n, err)
			}
		}
		return from, nil // the child did not come to create them
	}
	if feed != nil {
		// What the feeds show is there: of states that are alike, as one lane may have
		// been cleared twice, the later one is meant.
		if err := feed.drain(ctx, cs, from); err != nil {
			return nil, err
		}
		least = slices.Clone(least)
		for i, shown := range feed.last {
			if shown > most[i] {
				return nil, violation("lane %d: the feed has shown operation %d, the last one that may have begun is %d", i, shown, most[i])
			}
			least[i] = max(least[i], shown)
		}
	}
	is := make(models, len(from))
	for number := range from {
		l := from[number].copy()
		f, err := cs.readLane(ctx, l)
		if err != nil {
			return nil, violation("lane %d cannot be read: %w", number, err)
		}
		for l.advance(least[number]); !f.is(l); l.advance(l.n + 1) {
			if l.n >= most[number] {
				l = from[number].copy()
				l.advance(least[number])
				return nil, violation("lane %d is no state from operation %d to %d: beside the first %s", number, least[number], most[number], difference(f.docs, l.docs))
			}
		}
		is[number] = l
		if err := cs.compareAnswers(ctx, l); err != nil {
			return nil, err
		}
	}
	if feed != nil {
		if err := feed.compare(is); err != nil {
			return nil, err
		}
	}
	if !verify {
		return is, nil
	}
	for finding, err := range db.Verify(ctx) {
		if err != nil {
			return nil, violation("verify: %w", err)
		}
		return nil, violation("verify: %v", finding)
	}
	return is, nil
}

// checkBackup restores the backup that a child has completed, if there is one,
// and looks at it like at a store.
func checkBackup(ctx context.Context, dir string, o engine.Options, from models, most []int) (there bool, err error) {
	f, err := os.Open(dir + ".backup")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close()
	to := dir + ".restored"
	// btrfs brings back the directory of a restore before the cut, empty, though it
	// was removed and its parent synced.
	if err := os.RemoveAll(to + ".restoring"); err != nil {
		return true, err
	}
	defer os.RemoveAll(to)
	if err := engine.Restore(ctx, f, to); err != nil {
		return true, violation("a backup does not restore: %w", err)
	}
	return true, checkCopy(ctx, to, o, from, most)
}

// checkCopy looks at a restored backup or a checkpoint.
func checkCopy(ctx context.Context, dir string, o engine.Options, from models, most []int) error {
	err := withStore(ctx, dir, o, func(db *engine.DB) error {
		_, err := checkStore(ctx, db, from, from.at(), most, nil, true)
		return err
	})
	if err != nil {
		return fmt.Errorf("in %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// clearBeside removes what a child has made beside its store, for good: after a
// power cut it would be of an earlier life.
func clearBeside(dir string) error {
	for _, suffix := range []string{".backup", ".backup.tmp", ".checkpoint", ".checkpoint.tmp", ".restored", ".restored.restoring"} {
		if err := os.RemoveAll(dir + suffix); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// takeOne takes a document out of a store, for the oracle to notice: one that the
// models have and that the next operation leaves as it is. It says whether there is one.
func takeOne(ctx context.Context, db *engine.DB, is models) (taken bool, err error) {
	for _, l := range is {
		next := l.copy()
		next.advance(l.n + 1)
		for id, c := range l.docs {
			if l.opaque || next.docs[id] != c {
				continue
			}
			cs, err := openedContainers(db)
			if err == nil {
				err = cs.documents.Delete(ctx, l.key(), id, nil)
			}
			return true, err
		}
	}
	return false, nil
}
