package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// ended is a context that is over.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestShutdownWaits begins each kind of work, and shuts the store down meanwhile: what is new is
// refused, the error of the first Shutdown names what is under way, that comes to its end as if
// nothing had happened, and then the second Shutdown closes the store.
func TestShutdownWaits(t *testing.T) {
	ctx := context.Background()
	a := StringKey("a")
	const n = 600 // more than a loop reads ahead
	type stage struct {
		db   *DB
		c    *Container
		shut func() // is called in the middle
	}
	loop := func(s *stage, want int, items func(yield func(Item, error) bool)) error {
		seen := 0
		for _, err := range items {
			if err != nil {
				return err
			}
			if seen++; seen == 1 {
				s.shut()
			}
		}
		if seen != want {
			t.Errorf("%d items, want %d", seen, want)
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		told string // in the error
		do   func(s *stage) error
	}{
		{"scan", "scan (1)", func(s *stage) error { return loop(s, n, s.c.Scan(ctx, a, IDRange{}, nil)) }},
		{"scan of all", "scan (1)", func(s *stage) error { return loop(s, n, s.c.ScanAll(ctx, nil)) }},
		{"query", "query (1)", func(s *stage) error {
			return loop(s, n, s.c.Query(ctx, AllPartitions(), Query{}).All())
		}},
		{"changes", `feed of container "c"`, func(s *stage) error {
			seen := 0
			for _, err := range s.c.Changes(ctx, AllPartitions(), FromStart(), nil) {
				must(t, err)
				if seen++; seen == 1 {
					s.shut()
				}
			}
			if seen != n {
				t.Errorf("%d changes", seen)
			}
			return nil
		}},
		{"feed that follows", `feed of container "c"`, func(s *stage) error {
			seen := 0
			for _, err := range s.c.Changes(ctx, AllPartitions(), FromStart(), &ChangeOptions{Follow: true}) {
				if err != nil {
					if seen != n || !errors.Is(err, ErrClosed) {
						t.Errorf("after %d changes: %v", seen, err)
					}
					return nil
				}
				if seen++; seen == 1 {
					s.shut()
				}
			}
			return errors.New("the feed ended without an error")
		}},
		{"update", "transaction (1)", func(s *stage) error {
			err := s.c.Update(ctx, a, func(tx *Tx) error {
				s.shut()
				_, err := tx.Read("0001")
				return errors.Join(err, tx.Upsert(smallDocument("late", "a", 1), nil))
			})
			if err == nil {
				if _, err := s.c.Read(ctx, a, "late"); !errors.Is(err, ErrClosed) {
					t.Errorf("read after the shutdown: %v", err)
				}
			}
			return err
		}},
		{"view", "transaction (1)", func(s *stage) error {
			return s.c.View(ctx, a, func(tx *Tx) error { return loop(s, n, tx.Scan(IDRange{}, nil)) })
		}},
		{"snapshot", "snapshot (1)", func(s *stage) error {
			snapshot, err := s.c.Snapshot(ctx)
			must(t, err)
			defer snapshot.Close()
			s.shut()
			_, err = snapshot.Read(ctx, a, "0001")
			must(t, err)
			if got, err := snapshot.Count(ctx, AllPartitions(), Filter{}); err != nil || got != n {
				t.Errorf("count: %d, %v", got, err)
			}
			seen := 0
			for _, err := range snapshot.ScanAll(ctx, nil) {
				must(t, err)
				seen++
			}
			if seen != n {
				t.Errorf("%d items of the snapshot", seen)
			}
			return nil
		}},
		{"load", "calls (", func(s *stage) error {
			stats, err := s.c.Load(ctx, func(yield func([]byte, error) bool) {
				for i := range 10 {
					if i == 5 {
						s.shut()
					}
					if !yield(smallDocument("loaded"+strings.Repeat("x", i), "a", 1), nil) {
						return
					}
				}
			}, &LoadOptions{BatchBytes: 1})
			if stats.Committed != 10 {
				t.Errorf("%d documents", stats.Committed)
			}
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db, c := openStore(t, testOptions(mem))
			for i := range n {
				upsert(t, c, fmt.Sprintf("%04d", i), 1)
			}
			shut := func() {
				err := db.Shutdown(ended())
				var left *ShutdownError
				if !errors.As(err, &left) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tc.told) {
					t.Errorf("the first shutdown: %v", err)
				}
				for what, err := range map[string]error{
					"read":      second(c.Read(ctx, a, "0001")),
					"write":     second(c.Upsert(ctx, smallDocument("new", "a", 1), nil)),
					"snapshot":  second(c.Snapshot(ctx)),
					"update":    c.Update(ctx, a, func(*Tx) error { return nil }),
					"count":     second(c.Count(ctx, AllPartitions(), Filter{})),
					"container": second(db.Container("c")),
					"flush":     db.Flush(ctx),
				} {
					if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNestedUpdate) {
						t.Errorf("a new %s: %v", what, err)
					}
				}
				for _, err := range c.Scan(ctx, a, IDRange{}, nil) {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("a new scan: %v", err)
					}
				}
				for _, err := range c.ScanAll(ctx, nil) {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("a new scan of all: %v", err)
					}
				}
				for _, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("a new feed: %v", err)
					}
				}
			}
			must(t, tc.do(&stage{db, c, shut}))
			must(t, db.Shutdown(ended())) // nothing is under way
			must(t, db.Shutdown(ctx))
			must(t, db.Close())
			if tc.name == "update" {
				must(t, seenBy(t, mem, true, "late"))
			}
		})
	}
}

// TestShutdownUntilDone: Shutdown waits for a snapshot, and returns once that is closed; with a
// context that ends before, it returns then.
func TestShutdownUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, c := openStore(t, testOptions(vfs.NewMem()))
		snapshot, err := c.Snapshot(t.Context())
		must(t, err)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := db.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		go func() {
			time.Sleep(time.Minute)
			snapshot.Close()
		}()
		must(t, db.Shutdown(t.Context()))
		if waited := time.Since(begun); waited < time.Minute || waited > time.Minute+2*time.Second {
			t.Errorf("it waited %v", waited)
		}
	})
}
