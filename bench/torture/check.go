package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/engine"
)

// found is what a lane of a store holds.
type found struct {
	docs map[string]change
	sum  uint64
}

// readLane reads a lane. A document that no change of the lane writes is a
// violation.
func readLane(ctx context.Context, c *engine.Container, l *lane) (f found, err error) {
	f.docs = make(map[string]change)
	for item, err := range c.Scan(ctx, l.key(), "", nil) {
		if err != nil {
			return f, err
		}
		made, ok := l.changeOf(item.ID, item.Body)
		if !ok {
			return f, violation("lane %d: nobody has written %s as %.80q, %d bytes", l.number, item.ID, item.Body, len(item.Body))
		}
		f.docs[item.ID] = made
		f.sum += made.sum()
	}
	return f, nil
}

// is says whether a lane holds what its model does.
func (f found) is(l *lane) bool { return f.sum == l.sum && len(f.docs) == len(l.docs) }

// compareLane compares a lane with its model.
func compareLane(ctx context.Context, c *engine.Container, l *lane) error {
	f, err := readLane(ctx, c, l)
	if err != nil {
		return err
	}
	if !f.is(l) {
		return violation("lane %d is not the model after operation %d: %s", l.number, l.n, difference(f.docs, l.docs))
	}
	return compareCount(ctx, c, l)
}

// compareCount compares what an index counts with the model.
func compareCount(ctx context.Context, c *engine.Container, l *lane) error {
	n, err := c.Count(ctx, engine.OnePartition(l.key()), engine.Exists("/n"))
	if err != nil {
		return err
	}
	if int(n) != len(l.docs) {
		return violation("lane %d: the index counts %d documents, the scan %d", l.number, n, len(l.docs))
	}
	return nil
}

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

// withStore opens a store for fn and closes it.
func withStore(ctx context.Context, dir string, o engine.Options, fn func(*engine.DB) error) error {
	db, err := engine.Open(ctx, dir, &o)
	if err != nil {
		return violation("the store does not open: %w", err)
	}
	if err := fn(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return violation("the store does not close: %w", err)
	}
	return nil
}

// checkStore looks whether each lane of a store is the model after some number of
// operations from least to most, and returns these models. from are models of no
// more than least operations.
func checkStore(ctx context.Context, db *engine.DB, from models, least, most []int) (models, error) {
	c, err := db.Container("c")
	if errors.Is(err, engine.ErrNoContainer) {
		for number, n := range least {
			if n > 0 {
				return nil, violation("the container is gone, lane %d had %d operations", number, n)
			}
		}
		return from, nil
	} else if err != nil {
		return nil, err
	}
	is := make(models, len(from))
	for number := range from {
		l := from[number].copy()
		f, err := readLane(ctx, c, l)
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
		if err := compareCount(ctx, c, l); err != nil {
			return nil, err
		}
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
	defer os.RemoveAll(to)
	if err := engine.Restore(ctx, f, to); err != nil {
		return true, violation("a backup does not restore: %w", err)
	}
	return true, withStore(ctx, to, o, func(db *engine.DB) error {
		_, err := checkStore(ctx, db, from, from.at(), most)
		return err
	})
}

// clearBeside removes what a child has made beside its store, for good: after a
// power cut it would be of an earlier life.
func clearBeside(dir string) error {
	for _, suffix := range []string{".backup", ".backup.tmp", ".checkpoint", ".restored"} {
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

// takeOne takes a document out of a store, for the oracle to notice.
func takeOne(ctx context.Context, db *engine.DB) error {
	c, err := db.Container("c")
	if err != nil {
		return err
	}
	for item, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		return c.Delete(ctx, item.Key, item.ID, nil)
	}
	return errors.New("the store has no document to take out")
}
