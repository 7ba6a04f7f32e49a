package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// found is what a lane of a store holds.
type found struct {
	docs map[string]string
	sum  uint64
}

func readLane(ctx context.Context, c *engine.Container, l *lane) (f found, err error) {
	f.docs = make(map[string]string)
	for item, err := range c.Scan(ctx, l.key(), "", nil) {
		if err != nil {
			return f, err
		}
		f.docs[item.ID] = string(item.Body)
		f.sum += sumOf(item.ID, string(item.Body))
	}
	return f, nil
}

// compareLane compares a lane with its model.
func compareLane(ctx context.Context, c *engine.Container, l *lane) error {
	f, err := readLane(ctx, c, l)
	if err != nil {
		return err
	}
	if f.sum != l.sum || len(f.docs) != len(l.docs) {
		return violation("lane %d is not the model after operation %d: %s", l.number, l.n, difference(f.docs, l.docs))
	}
	n, err := c.Count(ctx, engine.OnePartition(l.key()), engine.Exists("/n"))
	if err != nil {
		return err
	}
	if int(n) != len(l.docs) {
		return violation("lane %d: the index counts %d documents, the scan %d", l.number, n, len(l.docs))
	}
	return nil
}

func difference(got, want map[string]string) string {
	for id, body := range want {
		if got[id] != body {
			return fmt.Sprintf("%s is %.60q, want %.60q; %d documents, want %d", id, got[id], body, len(got), len(want))
		}
	}
	for id, body := range got {
		if _, there := want[id]; !there {
			return fmt.Sprintf("%s is there: %.60q; %d documents, want %d", id, body, len(got), len(want))
		}
	}
	return "nothing that can be shown"
}

// broken is a promise that was not kept.
type broken struct{ error }

func violation(format string, args ...any) error { return broken{fmt.Errorf(format, args...)} }

func isViolation(err error) bool { return errors.As(err, new(broken)) }

// checkStore opens a store and looks whether each lane is the model after some
// number of operations from least to most, which it returns.
func checkStore(ctx context.Context, dir string, seed uint64, least, most []int) (at []int, err error) {
	db, err := engine.Open(ctx, dir, options(false))
	if err != nil {
		return nil, violation("the store does not open: %w", err)
	}
	defer func() {
		if closeErr := db.Close(); err == nil && closeErr != nil {
			err = violation("the store does not close: %w", closeErr)
		}
	}()
	c, err := db.Container("c")
	if errors.Is(err, engine.ErrNoContainer) {
		for number, n := range least {
			if n > 0 {
				return nil, violation("the container is gone, lane %d had %d operations", number, n)
			}
		}
		return make([]int, lanes), nil
	} else if err != nil {
		return nil, err
	}
	at = make([]int, lanes)
	for number := range lanes {
		l := newLane(seed, number)
		f, err := readLane(ctx, c, l)
		if err != nil {
			return nil, violation("lane %d cannot be read: %w", number, err)
		}
		for l.advance(least[number]); l.sum != f.sum || len(l.docs) != len(f.docs); l.advance(l.n + 1) {
			if l.n >= most[number] {
				l = newLane(seed, number)
				l.advance(least[number])
				return nil, violation("lane %d is no state from operation %d to %d: beside the first %s", number, least[number], most[number], difference(f.docs, l.docs))
			}
		}
		at[number] = l.n
		if err := compareLane(ctx, c, l); err != nil {
			return nil, err
		}
	}
	for finding, err := range db.Verify(ctx) {
		if err != nil {
			return nil, violation("verify: %w", err)
		}
		return nil, violation("verify: %v", finding)
	}
	return at, nil
}

// checkBackup restores the backup that a child has completed, if there is one,
// and looks at it like at a store.
func checkBackup(ctx context.Context, dir string, seed uint64, most []int) (there bool, err error) {
	f, err := os.Open(dir + ".backup")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	to := dir + ".restored"
	defer os.RemoveAll(to)
	if err := engine.Restore(ctx, f, to); err != nil {
		return true, violation("a backup does not restore: %w", err)
	}
	_, err = checkStore(ctx, to, seed, make([]int, lanes), most)
	return true, err
}

// takeOne takes a document out of a store, for the oracle to notice.
func takeOne(ctx context.Context, dir string) error {
	db, err := engine.Open(ctx, dir, options(false))
	if err != nil {
		return err
	}
	defer db.Close()
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
