package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

func ttlDoc(id string, ttl int) []byte {
	if ttl == 0 {
		return fmt.Appendf(nil, `{"id":%q,"k":"a"}`, id)
	}
	return fmt.Appendf(nil, `{"id":%q,"k":"a","ttl":%d}`, id, ttl)
}

// TestTTL goes through the table of the model, for each way of writing, with a default
// that is fixed and one that can be changed, and with the items in a memtable and in files.
func TestTTL(t *testing.T) {
	ctx := context.Background()
	const second = time.Second
	for _, tc := range []struct {
		container time.Duration
		document  int
		option    time.Duration
		want      time.Duration // 0: never
	}{
		{0, 0, 0, 0}, {0, -1, 0, 0}, {0, 7, 0, 0},
		{NoExpiry, 0, 0, 0}, {NoExpiry, -1, 0, 0}, {NoExpiry, 7, 0, 7 * second},
		{5 * second, 0, 0, 5 * second}, {5 * second, -1, 0, 0}, {5 * second, 7, 0, 7 * second},
		{5 * second, 7, 9 * second, 9 * second}, {5 * second, 7, NoExpiry, 0}, {NoExpiry, 0, 3 * second / 2, 3 * second / 2},
	} {
		for n, how := range []string{"upsert", "batch", "update", "patch", "load", "upsert", "batch", "update", "patch", "load"} {
			if how == "load" && tc.option != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%v/%d/%v/%s", tc.container, tc.document, tc.option, how), func(t *testing.T) {
				opts := testOptions(vfs.NewMem())
				clock := newTestClock(opts)
				db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: tc.container, MutableTTL: n >= 5})
				o := &WriteOptions{TTL: tc.option}
				write := ttlDoc("x", tc.document)
				var err error
				switch how {
				case "upsert":
					_, err = c.Upsert(ctx, write, o)
				case "batch":
					b := c.NewBatch(StringKey("a"))
					must(t, b.Upsert(write, o))
					_, err = c.Commit(ctx, b)
				case "update":
					err = c.Update(ctx, StringKey("a"), func(tx *Tx) error { return tx.Upsert(write, o) })
				case "patch":
					_, err = c.Upsert(ctx, ttlDoc("x", 0), nil)
					must(t, err)
					p := new(Patch).Set("/n", 1)
					if tc.document != 0 {
						p.Set("/ttl", tc.document)
					}
					_, err = c.Patch(ctx, StringKey("a"), "x", p, o)
				case "load":
					_, err = c.Load(ctx, func(yield func([]byte, error) bool) { yield(write, nil) }, nil)
				}
				must(t, err)
				it, err := c.Read(ctx, StringKey("a"), "x")
				must(t, err)
				var want time.Time
				if tc.want != 0 {
					want = it.Modified.Add(tc.want)
				}
				if !it.Expires.Equal(want) {
					t.Errorf("expires %v, want %v", it.Expires, want)
				}
				seen := func() (read bool, scanned int) {
					t.Helper()
					_, err := c.Read(ctx, StringKey("a"), "x")
					if err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
					for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, nil) {
						must(t, err)
						if !it.Expires.Equal(want) {
							t.Errorf("scan: expires %v, want %v", it.Expires, want)
						}
						scanned++
					}
					return err == nil, scanned
				}
				clock.pass(max(tc.want, time.Millisecond) - time.Millisecond)
				must(t, db.Flush(ctx))
				if read, scanned := seen(); !read || scanned != 1 {
					t.Errorf("before it expires: read %v, %d scanned", read, scanned)
				}
				clock.pass(time.Millisecond)
				if tc.want == 0 {
					clock.pass(1000 * time.Hour)
				}
				if read, scanned := seen(); read != (tc.want == 0) || read != (scanned == 1) {
					t.Errorf("after it expires: read %v, %d scanned", read, scanned)
				}
				// What has expired is as if it did not exist.
				_, err = c.Replace(ctx, ttlDoc("x", 0), nil)
				if tc.want != 0 && !errors.Is(err, ErrNotFound) || tc.want == 0 && err != nil {
					t.Errorf("Replace: %v", err)
				}
				if _, err := c.Create(ctx, ttlDoc("x", 0), nil); (err == nil) != (tc.want != 0) {
					t.Errorf("Create: %v", err)
				}
			})
		}
	}
}

func TestTTLArguments(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	if _, err := c.Upsert(ctx, ttlDoc("x", 0), &WriteOptions{TTL: time.Second}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no DefaultTTL: %v", err)
	}
	if err := c.NewBatch(StringKey("a")).Upsert(ttlDoc("x", 0), &WriteOptions{TTL: time.Second}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no DefaultTTL, batch: %v", err)
	}
	for _, d := range []time.Duration{-2, 1, time.Millisecond - 1} {
		if _, err := db.CreateContainer(ctx, "bad", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: d}); !errors.Is(err, ErrInvalid) {
			t.Errorf("DefaultTTL %v: %v", d, err)
		}
	}
	o, err := db.CreateContainer(ctx, "o", ContainerDef{Kind: Opaque, DefaultTTL: time.Hour})
	must(t, err)
	meta, err := o.Put(ctx, StringKey("a"), "x", nil, nil)
	must(t, err)
	if meta.Expires.Sub(meta.Modified) != time.Hour {
		t.Errorf("Put: %v to %v", meta.Modified, meta.Expires)
	}
	if _, err := o.Put(ctx, StringKey("a"), "x", nil, &WriteOptions{TTL: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a nanosecond: %v", err)
	}
	for _, ttl := range []time.Duration{-2, -5 * time.Second, math.MinInt64} { // such as time.Until of a moment that has passed
		if meta, err := o.Put(ctx, StringKey("a"), "x", nil, &WriteOptions{TTL: ttl}); !errors.Is(err, ErrInvalid) {
			t.Errorf("Put for %v: %v, expires %v", ttl, err, meta.Expires)
		}
		if err := o.NewBatch(StringKey("a")).Put("x", nil, &WriteOptions{TTL: ttl}); !errors.Is(err, ErrInvalid) {
			t.Errorf("Batch.Put for %v: %v", ttl, err)
		}
	}
}

// TestTTLInTransaction: a transaction sees what had not expired when it began.
func TestTTLInTransaction(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	_, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: time.Second})
	_, err := c.Upsert(ctx, ttlDoc("x", 0), nil)
	must(t, err)
	must(t, c.View(ctx, StringKey("a"), func(tx *Tx) error {
		clock.pass(time.Hour)
		if _, err := tx.Read("x"); err != nil {
			t.Errorf("read: %v", err)
		}
		if ids := idsOf(t, tx, IDRange{}, nil); len(ids) != 1 {
			t.Errorf("scan: %v", ids)
		}
		return nil
	}))
	must(t, c.View(ctx, StringKey("a"), func(tx *Tx) error {
		if _, err := tx.Read("x"); !errors.Is(err, ErrNotFound) {
			t.Errorf("read: %v", err)
		}
		return nil
	}))
}

// TestPurge: merges drop what has expired by the clock that does not jump and
// a grace period ago, and nothing else.
func TestPurge(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	clock := newTestClock(opts)
	db, err := Open(ctx, "mem", opts)
	must(t, err)
	defer func() { db.Close() }()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	must(t, err)
	const n = 100
	for i := range n {
		ttl := 10 + i%10
		if i%10 == 0 {
			ttl = -1
		}
		_, err := c.Upsert(ctx, ttlDoc(fmt.Sprint(i), ttl), nil)
		must(t, err)
	}
	held := func() (items int64) {
		t.Helper()
		must(t, db.Compact(ctx))
		for _, s := range db.Stats().Containers[0].Partitions {
			items += s.Items
		}
		return items
	}
	if got := held(); got != n {
		t.Fatalf("%d items on disk", got)
	}
	clock.wall.Add(int64(1000 * time.Hour)) // a jump
	if _, err := c.Read(ctx, StringKey("a"), "1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	if got := held(); got != n {
		t.Errorf("after a jump of the clock %d items on disk", got)
	}
	clock.wall.Add(-int64(1000 * time.Hour))
	if _, err := c.Read(ctx, StringKey("a"), "1"); err != nil {
		t.Errorf("after the clock was set right: %v", err)
	}
	clock.pass(59 * time.Minute)
	if got := held(); got != n {
		t.Errorf("within the grace period %d items on disk", got)
	}
	clock.pass(2 * time.Minute)
	if got := held(); got != n/10 {
		t.Errorf("after the grace period %d items on disk", got)
	}
	// What expires is known after a reopen too.
	for i := range n {
		_, err := c.Upsert(ctx, ttlDoc(fmt.Sprint("more", i), 5), nil)
		must(t, err)
	}
	must(t, db.Flush(ctx))
	must(t, db.Close())
	clock.steady.Store(0)
	clock.wall.Add(int64(10 * time.Hour)) // nobody knows whether that is true
	opts.fs = mem.Kill()
	db, err = Open(ctx, "mem", opts)
	must(t, err)
	if got := held(); got != n/10+n {
		t.Errorf("right after a reopen %d items on disk", got)
	}
	clock.pass(2 * time.Hour)
	if got := held(); got != n/10 {
		t.Errorf("after the grace period %d items on disk", got)
	}
	checkVerified(t, db)
}

// TestClockSetBack: what a write has found expired is there again when it is
// carried out, as the clock was set right in between.
func TestClockSetBack(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	var clock *testClock
	var back func()
	for _, unique := range []bool{false, true} {
		def := ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry}
		if unique {
			def.UniqueKeys = [][]string{{"/v"}}
		}
		opts := testOptions(vfs.NewMem())
		clock, back = newTestClock(opts), func() {}
		opts.lookedAhead = func() { back() }
		_, c := openStore(t, opts, def)
		const written = `{"id":"x","k":"a","v":1,"ttl":10}`
		_, err := c.Upsert(ctx, []byte(written), nil)
		must(t, err)
		forward := func() {
			right := clock.wall.Load()
			clock.wall.Add(int64(time.Minute))
			back = func() { clock.wall.Store(right); back = func() {} }
		}
		forward()
		want := written
		if _, err := c.Patch(ctx, key, "x", new(Patch).Set("/w", 1), nil); err == nil {
			want = strings.Replace(written, "}", `,"w":1}`, 1)
		} else if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if it, err := c.Read(ctx, key, "x"); err != nil || string(it.Body) != want {
			t.Errorf("after the patch: %q, want %q; %v", it.Body, want, err)
		}
		if !unique {
			continue
		}
		forward()
		_, err = c.Upsert(ctx, []byte(`{"id":"x","k":"a","v":2,"ttl":10}`), nil)
		must(t, err)
		if _, err = c.Create(ctx, []byte(`{"id":"y","k":"a","v":1}`), nil); err != nil {
			t.Errorf("a value that nobody has: %v", err)
		}
	}
}

// TestPurgeAmongLasting: compactions drop what has expired though other items of the run live for
// ever or much longer, and compact a run of which most has expired beside items that live for ever.
func TestPurgeAmongLasting(t *testing.T) {
	for name, tc := range map[string]struct {
		def  ContainerDef
		ttl  int // of the other items
		many bool
	}{
		"for ever":       {ContainerDef{DefaultTTL: NoExpiry, MutableTTL: true}, -1, false},
		"for long":       {ContainerDef{DefaultTTL: NoExpiry}, math.MaxInt32, false},
		"many, for ever": {ContainerDef{DefaultTTL: NoExpiry, MutableTTL: true}, -1, true},
		"many, for long": {ContainerDef{DefaultTTL: NoExpiry}, math.MaxInt32, true},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			opts.ExpiryGrace, opts.memtableBytes = time.Second, 1<<20
			clock := newTestClock(opts)
			tc.def.PartitionKey, tc.def.MinPartitions = []string{"/k"}, 1
			db, c := openStore(t, opts, tc.def)
			expire, last := 20, 1
			if tc.many {
				expire, last = 1500, 500
			}
			for i := range expire {
				must(t, second(c.Upsert(t.Context(), ttlDoc(fmt.Sprint("a", i), 5), nil)))
			}
			for i := range last {
				must(t, second(c.Upsert(t.Context(), ttlDoc(fmt.Sprint("b", i), tc.ttl), nil)))
			}
			must(t, db.Flush(t.Context()))
			clock.pass(time.Hour)
			p := c.routing.Load().parts[0]
			if tc.many {
				must(t, second(p.CompactBy(t.Context(), p.PickTiers)))
			} else {
				must(t, db.Compact(t.Context()))
			}
			if n := p.Version.Load().Runs[0].Items(); n != int64(last) {
				t.Errorf("%d versions in files, of %d items that are there", n, last)
			}
		})
	}
}

// TestPurgeWaitsForReader: what has expired since a reader began is no reason for a compaction, which
// would not drop it, as long as that reader is there.
func TestPurgeWaitsForReader(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.ExpiryGrace, opts.memtableBytes = time.Second, 1<<20
	clock := newTestClock(opts)
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, DefaultTTL: NoExpiry})
	for i := range 2000 {
		must(t, second(c.Upsert(t.Context(), ttlDoc(fmt.Sprint(i), 5), nil)))
	}
	must(t, db.Flush(t.Context()))
	reader, err := c.Snapshot(t.Context())
	must(t, err)
	defer reader.Close()
	clock.pass(time.Hour)
	p := c.routing.Load().parts[0]
	before := p.Version.Load().Runs[0]
	must(t, second(p.CompactBy(t.Context(), p.PickTiers)))
	if runs := p.Version.Load().Runs; len(runs) != 1 || runs[0] != before {
		t.Error("the run was compacted, though a reader may read all items of it")
	}
	reader.Close()
	must(t, second(p.CompactBy(t.Context(), p.PickTiers)))
	if runs := p.Version.Load().Runs; len(runs) != 0 {
		t.Errorf("%d versions in files after the reader has ended", runs[0].Items())
	}
}

// TestPurgeAfterSplit: the children of a partition know of the one item in its files that expires, and drop it.
func TestPurgeAfterSplit(t *testing.T) {
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	opts.ExpiryGrace = time.Second
	clock := newTestClock(opts)
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, DefaultTTL: NoExpiry})
	const lasting = 20
	for i := range lasting {
		must(t, second(c.Upsert(ctx, doc(fmt.Sprint(i), fmt.Sprint(i), i), nil)))
	}
	must(t, second(c.Upsert(ctx, ttlDoc("x", 5), nil)))
	must(t, db.Flush(ctx))
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	clock.pass(time.Hour)
	if parts := c.Partitions(); parts[0].Exact && parts[1].Exact {
		t.Error("both children count as if no item in them had expired")
	}
	must(t, db.Compact(ctx))
	versions := int64(0)
	for _, p := range c.routing.Load().parts {
		for _, r := range p.Version.Load().Runs {
			versions += r.Items()
		}
	}
	if versions != lasting {
		t.Errorf("%d versions in files, of %d items that are there", versions, lasting)
	}
}
