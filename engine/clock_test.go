package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

const year = 365 * 24 * time.Hour

// jump moves the clock of the system, and no other.
func (c *testClock) jump(d time.Duration) { c.wall.Add(int64(d)) }

// TestClockWasAhead writes one item while the clock is a year ahead. Once it is
// right again, nothing else is as if that had not happened: no item is hidden, and
// none that is written lives longer than it should; after a reopen as well.
func TestClockWasAhead(t *testing.T) {
	ctx := context.Background()
	for _, reopen := range []bool{false, true} {
		mem := vfs.NewMem()
		opts := testOptions(mem)
		clock := newTestClock(opts)
		db, err := Open(ctx, "mem", opts)
		must(t, err)
		defer func() { db.Close() }()
		c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: time.Hour, Index: IndexAll()})
		must(t, err)
		other, err := db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}})
		must(t, err)
		write := func(c *Container, id string) Meta {
			t.Helper()
			meta, err := c.Upsert(ctx, ttlDoc(id, 0), nil)
			must(t, err)
			return meta
		}
		// seen says what reads, scans, queries and counts show.
		seen := func(when string, want ...string) {
			t.Helper()
			for _, id := range []string{"before", "after"} {
				_, err := c.Read(ctx, StringKey("a"), id)
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
				if wanted := len(want) > 0 && (id == want[0] || id == want[len(want)-1]); (err == nil) != wanted {
					t.Errorf("%s: read of %q: %v", when, id, err)
				}
			}
			items, err := collectItems(c.Scan(ctx, StringKey("a"), IDRange{}, nil))
			must(t, err)
			n, err := c.Count(ctx, AllPartitions(), Eq("/k", "a"))
			must(t, err)
			changes := 0
			for change, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
				must(t, err)
				if len(change.Body) > 0 {
					changes++
				}
			}
			if len(items) != len(want) || n != int64(len(want)) || changes != len(want) {
				t.Errorf("%s: %d items, counted %d, %d in the feed, want %d", when, len(items), n, changes, len(want))
			}
		}
		write(c, "before")
		clock.jump(year)
		seen("while it is ahead")
		write(other, "x")
		clock.jump(-year)
		if reopen {
			must(t, db.Close())
			opts.fs = mem.Kill()
			clock.steady.Store(0)
			db, err = Open(ctx, "mem", opts)
			must(t, err)
			c, err = db.Container("c")
			must(t, err)
		}
		seen("once it is right", "before")
		if meta := write(c, "after"); !meta.Expires.Equal(opts.clock().Add(time.Hour)) || !meta.Modified.Equal(opts.clock()) {
			t.Errorf("written at %v, modified %v, expires %v", opts.clock(), meta.Modified, meta.Expires)
		}
		clock.pass(59 * time.Minute)
		seen("before they expire", "before", "after")
		clock.pass(2 * time.Minute)
		seen("when they have expired")
		must(t, db.Flush(ctx))
		clock.pass(2 * time.Hour)
		must(t, db.Compact(ctx))
		if held := db.Stats().Containers[0].Partitions[0].Items; held != 0 {
			t.Errorf("%d items are on disk", held)
		}
	}
}

// TestUniqueKeysWhileAhead takes values of items that have expired only by a clock
// that is ahead. Once it is right no two items have the same ones, and none is
// taken by an item that does not have it.
func TestUniqueKeysWhileAhead(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	for _, flush := range []bool{false, true} {
		opts := testOptions(vfs.NewMem())
		clock := newTestClock(opts)
		db, err := Open(ctx, "mem", opts)
		must(t, err)
		defer db.Close()
		c, err := db.CreateContainer(ctx, "c", ContainerDef{
			PartitionKey: []string{"/k"}, DefaultTTL: time.Minute, UniqueKeys: [][]string{{"/v"}, {"/w"}},
		})
		must(t, err)
		create := func(id string, v, w int) error {
			t.Helper()
			_, err := c.Create(ctx, fmt.Appendf(nil, `{"id":%q,"k":"a","v":%d,"w":%d}`, id, v, w), nil)
			if flush {
				must(t, db.Flush(ctx))
			}
			return err
		}
		must(t, create("robbed", 1, 1))
		must(t, create("changed", 2, 2))
		clock.jump(year)
		must(t, create("robber", 1, 3))
		must(t, create("changed", 4, 4))
		clock.jump(-year)
		must(t, compareClaims(db, c))
		if _, err := c.Read(ctx, key, "robbed"); !errors.Is(err, ErrNotFound) {
			t.Errorf("whose value another one has: %v", err)
		}
		if err := create("x", 1, 9); !errors.Is(err, ErrUniqueKey) {
			t.Errorf("a value that was taken: %v", err)
		}
		must(t, create("second", 9, 1)) // the other value of the robbed one
		must(t, create("third", 2, 2))  // what the changed one had
		must(t, compareClaims(db, c))
		must(t, db.Compact(ctx))
		must(t, compareClaims(db, c))
		checkVerified(t, db)
	}
}

// TestMarksOfWrongClock opens a store while the clock is far behind, or was far
// ahead. What is kept for feeds is kept for the retention, and let go then.
func TestMarksOfWrongClock(t *testing.T) {
	ctx := context.Background()
	const retention = time.Hour
	for name, wrong := range map[string]time.Duration{"behind": -year, "ahead": year, "right": 0} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := testOptions(mem)
			clock := newTestClock(opts)
			var db *DB
			open := func(jump time.Duration) *Container {
				clock.jump(jump)
				clock.steady.Store(0)
				opts.fs = mem
				var c *Container
				db, c = openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: retention})
				return c
			}
			write := func(c *Container) uint64 {
				meta, err := c.Upsert(ctx, doc("x", "a", 1), nil)
				must(t, err)
				clock.pass(5 * time.Minute)
				must(t, db.keepMarks())
				return meta.Seq
			}
			reopen := func(jump time.Duration) *Container {
				must(t, db.Close())
				mem = mem.Kill()
				return open(jump)
			}
			first := write(open(0))
			second := write(reopen(wrong))
			c := reopen(-wrong)
			third := write(c)
			// A clock that is ahead at an opening looks like a store that was closed for long.
			if floor := db.floor(retention); floor >= first && wrong <= 0 || floor >= second {
				t.Errorf("after some minutes what was written up to %d, %d and %d may go up to %d", first, second, third, floor)
			}
			clock.pass(retention)
			write(c)
			if floor := db.floor(retention); floor < third {
				t.Errorf("after the retention %d is kept: the floor is %d", third, floor)
			}
			must(t, db.Close())
		})
	}
}

// TestMarksOfLateClock opens a store by a clock that is behind the last time stamp. The store opens again, and when the
// clock is right, what is kept for feeds is let go after the retention.
func TestMarksOfLateClock(t *testing.T) {
	const retention = time.Hour
	mem := vfs.NewMem()
	opts := testOptions(mem)
	clock := newTestClock(opts)
	right := opts.clock
	opts.clock = func() time.Time { return right().AddDate(20_000, 0, 0) }
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: retention}
	write := func(db *DB, c *Container) {
		upsert(t, c, "x", 10)
		clock.pass(2 * retention)
		must(t, db.keepMarks())
	}
	db, c := openStore(t, opts, def)
	write(db, c)
	must(t, db.Close())
	opts.clock = right
	db, c = openStore(t, opts)
	write(db, c)
	write(db, c)
	if floor := db.floor(retention); floor < 2 {
		t.Errorf("the floor is %d two hours after the second of three writes, want at least 2", floor)
	}
	must(t, db.Close())
}
