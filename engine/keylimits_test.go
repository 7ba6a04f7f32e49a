package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestKeyThroughput: two tenants of one physical partition, one of which asks without a
// pause: it gets its rate, by the name of its key, and the other is never refused.
func TestKeyThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := Open(ctx, "mem", testOptions(vfs.NewMem()))
		must(t, err)
		defer db.Close()
		c, err := db.CreateContainer(ctx, "tenants", ContainerDef{PartitionKey: []string{"/k"}, Throughput: 5000, Limits: ContainerLimits{LogicalPartitionThroughput: 100}})
		must(t, err)
		time.Sleep(time.Second) // the throughput of the container is saved from the beginning on
		for _, k := range []string{"greedy", "quiet"} {
			_, err = c.Create(ctx, documentOf("a", k, 100), nil)
			must(t, err)
		}
		const seconds = 20
		time.Sleep(time.Second)
		end := time.Now().Add(seconds * time.Second)
		done := make(chan error)
		go func() {
			for time.Now().Before(end) {
				if _, err := c.Read(ctx, StringKey("quiet"), "a"); err != nil {
					done <- fmt.Errorf("the quiet tenant: %w", err)
					return
				}
				if _, err := c.Upsert(ctx, documentOf("a", "quiet", 100), nil); err != nil {
					done <- fmt.Errorf("the quiet tenant: %w", err)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			done <- nil
		}()
		spent, refused := 0.0, 0
		calls := []func() (float64, error){
			func() (float64, error) {
				it, err := c.Read(ctx, StringKey("greedy"), "a")
				return it.Charge, err
			},
			func() (float64, error) {
				m, err := c.Upsert(ctx, documentOf("a", "greedy", 100), nil)
				return m.Charge, err
			},
			func() (float64, error) {
				b := c.NewBatch(StringKey("greedy"))
				must(t, b.Upsert(documentOf("b", "greedy", 100), nil))
				metas, err := c.Commit(ctx, b)
				if err != nil {
					return 0, err
				}
				return metas[0].Charge, nil
			},
			func() (charge float64, err error) {
				for _, err = range c.Scan(ctx, StringKey("greedy"), IDRange{}, &ScanOptions{Charge: &charge}) {
				}
				return charge, err
			},
			func() (charge float64, err error) {
				q := c.Query(ctx, OnePartition(StringKey("greedy")), Query{Where: Eq("/id", "a")})
				for _, err = range q.All() {
				}
				return q.Stats().Charge, err
			},
		}
		for i := 0; time.Now().Before(end); i++ {
			charge, err := calls[i%len(calls)]()
			var throttled *ThrottledError
			switch {
			case errors.As(err, &throttled):
				if throttled.Key != StringKey("greedy") || throttled.RetryAfter <= 0 || !errors.Is(err, ErrThrottled) {
					t.Fatalf("%+v", throttled)
				}
				refused++
				time.Sleep(throttled.RetryAfter)
			case err != nil:
				t.Fatal(err)
			}
			spent += charge
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if most := 100.0*(seconds+1) + 10; spent > most || spent < most-100 || refused == 0 {
			t.Errorf("the greedy tenant consumed %v RU in %d s, refused %d times", spent, seconds, refused)
		}
		u, err := c.Usage(ctx, StringKey("greedy"), nil)
		must(t, err)
		if u.Units < spent-1e-6 || u.Units > spent+20 || u.Throttled != int64(refused) || u.Limits.Throughput != 100 || u.Since.IsZero() {
			t.Errorf("usage %+v, spent %v, refused %d", u, spent, refused)
		}
	})
}

// TestWaitsAreNotRefused: a load, reads of many items and scans that wait for throughput are
// not counted as refused calls.
func TestWaitsAreNotRefused(t *testing.T) {
	for _, def := range []ContainerDef{{Throughput: 400, NoBurst: true}, {Limits: ContainerLimits{LogicalPartitionThroughput: 100}}} {
		ctx, key := t.Context(), StringKey("k")
		s := newMeteredStore(t, def)
		waits := 0
		s.db.opts.pause = func(d time.Duration) { waits++; s.pass(d) }
		var items []ItemIdentity
		_, err := s.c.Load(ctx, func(yield func([]byte, error) bool) {
			for i := range 600 {
				items = append(items, ItemIdentity{Key: key, ID: fmt.Sprint(i)})
				if !yield(documentOf(fmt.Sprint(i), "k", 1000), nil) {
					return
				}
			}
		}, nil)
		must(t, err)
		loaded := waits
		s.pass(time.Hour)
		for _, err := range s.c.ReadMany(ctx, items) {
			must(t, err)
		}
		read := waits
		s.pass(time.Hour)
		for _, err := range s.c.Scan(ctx, key, IDRange{}, nil) {
			must(t, err)
		}
		if loaded < 10 || read < loaded+10 || waits == read {
			t.Fatalf("%d, %d and %d waits: the test reached too little", loaded, read, waits)
		}
		u, err := s.c.Usage(ctx, key, nil)
		must(t, err)
		if refused := s.c.limits.Refused() + s.c.throttled.Load(); refused != 0 || u.Throttled != 0 {
			t.Errorf("%d refusals, %d of the key", refused, u.Throttled)
		}
	}
}

// TestKeyLimitsAreDurable: limits of the container and of single keys are there after a
// reopen, in a backup, and gone when they are removed.
func TestKeyLimitsAreDurable(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{Limits: ContainerLimits{LogicalPartitionThroughput: 50, LogicalPartitionBytes: 5000}})
	check := func(throughput float64, bytes int64, want map[PartitionKey]KeyLimits) {
		t.Helper()
		for range 2 {
			if l := s.c.Def().Limits; l.LogicalPartitionThroughput != throughput || l.LogicalPartitionBytes != bytes {
				t.Errorf("default %v RU/s, %d bytes", l.LogicalPartitionThroughput, l.LogicalPartitionBytes)
			}
			if got := maps.Collect(s.c.LimitedKeys()); !maps.Equal(got, want) {
				t.Errorf("limited %v, not %v", got, want)
			}
			s.reopen()
		}
	}
	check(50, 5000, nil)
	a, b := StringKey("a"), StringKey("b")
	must(t, s.c.SetKeyLimits(ctx, a, KeyLimits{Throughput: 10}))
	must(t, s.c.SetKeyLimits(ctx, b, KeyLimits{Throughput: -7, Bytes: 70}))
	check(50, 5000, map[PartitionKey]KeyLimits{a: {Throughput: 10, Bytes: 5000}, b: {Bytes: 70}})
	must(t, s.c.SetDefaultKeyLimits(ctx, KeyLimits{}))
	check(0, defaultLogicalBytes, map[PartitionKey]KeyLimits{a: {Throughput: 10, Bytes: defaultLogicalBytes}, b: {Bytes: 70}})
	must(t, s.c.SetThroughput(ctx, 1000))
	must(t, s.c.SetKeyLimits(ctx, a, KeyLimits{}))
	check(0, defaultLogicalBytes, map[PartitionKey]KeyLimits{b: {Bytes: 70}})
	must(t, s.c.SetKeyLimits(ctx, b, KeyLimits{}))
	check(0, defaultLogicalBytes, nil)

	for _, bad := range []KeyLimits{{Throughput: 0.5}, {Throughput: 1e10}, {Bytes: -1}} {
		if err := s.c.SetKeyLimits(ctx, a, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
		if err := s.c.SetDefaultKeyLimits(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := s.c.SetKeyLimits(ctx, PartitionKey{}, KeyLimits{Bytes: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
	for i := range 1024 {
		must(t, s.c.SetKeyLimits(ctx, NumberKey(float64(i)), KeyLimits{Bytes: 1}))
	}
	if err := s.c.SetKeyLimits(ctx, a, KeyLimits{Bytes: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("one too many: %v", err)
	}
	must(t, s.c.SetKeyLimits(ctx, NumberKey(0), KeyLimits{Bytes: 2}))
}

// TestKeyBytes: a limit of one key bounds that key alone, holds for what is there already,
// and can be raised.
func TestKeyBytes(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{})
	small := StringKey("small")
	put := func(key, id string) error {
		_, err := s.c.Upsert(ctx, documentOf(id, key, 1000), nil)
		return err
	}
	for i := range 5 {
		must(t, put("small", fmt.Sprint(i)))
		must(t, put("other", fmt.Sprint(i)))
	}
	must(t, s.db.Flush(ctx))
	must(t, s.c.SetKeyLimits(ctx, small, KeyLimits{Bytes: 5500}))
	must(t, put("small", "4"))
	for range 2 {
		if err := put("small", "5"); !errors.Is(err, ErrLogicalPartitionFull) {
			t.Errorf("over the limit: %v", err)
		}
		for i := range 20 {
			must(t, put("other", fmt.Sprint(i)))
		}
		s.reopen()
	}
	must(t, s.c.SetKeyLimits(ctx, small, KeyLimits{Bytes: 7500}))
	must(t, put("small", "5"))
	must(t, put("small", "6"))
	if err := put("small", "7"); !errors.Is(err, ErrLogicalPartitionFull) {
		t.Errorf("over the new limit: %v", err)
	}
	must(t, s.c.Delete(ctx, small, "0", nil))
	must(t, put("small", "7"))
	must(t, s.c.SetKeyLimits(ctx, small, KeyLimits{}))
	for i := range 20 {
		must(t, put("small", fmt.Sprint(i)))
	}
	must(t, s.c.SetKeyLimits(ctx, small, KeyLimits{Bytes: 7500}))
	if err := put("small", "x"); !errors.Is(err, ErrLogicalPartitionFull) {
		t.Errorf("full before the limit: %v", err)
	}
}

// TestUsage compares Usage with what was written: exactly, and as an upper bound.
func TestUsage(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{MinPartitions: 2})
	key := StringKey("tenant")
	var bytes int64
	var newest time.Time
	for round := range 3 {
		for i := range 2000 {
			doc := documentOf(fmt.Sprint("d", i), "tenant", 100)
			m, err := s.c.Upsert(ctx, doc, nil)
			must(t, err)
			newest = m.Modified
			if round == 0 {
				bytes += int64(len(doc))
			}
			s.pass(time.Millisecond)
		}
		_, err := s.c.Upsert(ctx, documentOf("x", fmt.Sprint("other", round), 100), nil)
		must(t, err)
		if round < 2 {
			must(t, s.db.Flush(ctx))
		}
	}
	exact, err := s.c.Usage(ctx, key, &UsageOptions{Exact: true})
	must(t, err)
	if exact.Versions != 2000 || exact.Bytes != bytes || !exact.LastWrite.Equal(newest) || !exact.Since.IsZero() || exact.Limits.Bytes != defaultLogicalBytes {
		t.Errorf("%+v, want %d bytes", exact, bytes)
	}
	bound, err := s.c.Usage(ctx, key, nil)
	must(t, err)
	if bound.Versions < 2000 || bound.Versions > 6000 || bound.Bytes < bytes || bound.Bytes > 3*bytes {
		t.Errorf("%+v, want at least %d bytes", bound, bytes)
	}
	must(t, s.c.DeleteLogicalPartition(ctx, key, nil))
	if exact, err = s.c.Usage(ctx, key, &UsageOptions{Exact: true}); err != nil || exact.Versions != 0 || exact.Bytes != 0 {
		t.Errorf("deleted: %+v, %v", exact, err)
	}
	must(t, s.db.Flush(ctx))
	must(t, s.db.Compact(ctx))
	if bound, err = s.c.Usage(ctx, key, nil); err != nil || bound.Bytes != 0 {
		t.Errorf("compacted: %+v, %v", bound, err)
	}
	if _, err = s.c.Usage(ctx, PartitionKey{}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
}

// TestKeyLimitsAllocateNothing: a read of a limited key allocates as little as before.
func TestKeyLimitsAllocateNothing(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{})
	s.fill(1)
	key := StringKey("k0")
	buf := make([]byte, 0, 4096)
	read := func() float64 {
		return testing.AllocsPerRun(100, func() {
			_, err := s.c.ReadInto(ctx, key, "0", buf)
			must(t, err)
		})
	}
	before := read()
	must(t, s.c.SetDefaultKeyLimits(ctx, KeyLimits{Throughput: 1e6}))
	if after := read(); after != before {
		t.Errorf("%v allocations, %v without limits", after, before)
	}
}

// TestKeyLimitOvertaken: a write that is overtaken while nothing needs to be counted yet is
// counted before it is made.
func TestKeyLimitOvertaken(t *testing.T) {
	ctx := context.Background()
	o := testOptions(vfs.NewMem())
	var overtake func()
	o.lookedAhead = func() {
		if f := overtake; f != nil {
			overtake = nil
			f()
		}
	}
	db, _ := openStore(t, o)
	write := map[string]func(c *Container, id string) error{
		"create": func(c *Container, id string) error { return second(c.Create(ctx, documentOf(id, "a", 600), nil)) },
		"batch": func(c *Container, id string) error {
			b := c.NewBatch(StringKey("a"))
			must(t, b.Create(documentOf(id, "a", 600), nil))
			return second(c.Commit(ctx, b))
		},
	}
	for name, create := range write {
		c, err := db.CreateContainer(ctx, name, ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{LogicalPartitionBytes: 1000}})
		must(t, err)
		overtake = func() { must(t, create(c, "1")) }
		if err = create(c, "2"); !errors.Is(err, ErrLogicalPartitionFull) {
			t.Errorf("%s: 1,200 bytes in a logical partition of 1,000: %v", name, err)
		}
	}
}

// TestKeyLimitTogether: many writers at once to logical partitions that become full, with
// deletes of whole ones between. None is ever over its limit, and in the end a document that
// just fits is accepted.
func TestKeyLimitTogether(t *testing.T) {
	ctx := context.Background()
	for _, ttl := range []time.Duration{0, time.Hour} {
		_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: ttl, Limits: ContainerLimits{LogicalPartitionBytes: 10_000}})
		exact := func(k string) int64 {
			u, err := c.Usage(ctx, StringKey(k), &UsageOptions{Exact: true})
			must(t, err)
			if u.Bytes > 10_000 {
				t.Errorf("%s has %d bytes of 10,000", k, u.Bytes)
			}
			return u.Bytes
		}
		keys := []string{"a", "b"}
		var writers sync.WaitGroup
		for g := range 32 {
			writers.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(g)))
				for range 60 {
					k, id := keys[rng.IntN(2)], fmt.Sprint(rng.IntN(40))
					var err error
					switch rng.IntN(20) {
					case 0:
						err = c.Delete(ctx, StringKey(k), id, nil)
					case 1:
						err = c.DeleteLogicalPartition(ctx, StringKey(k), nil)
					case 2, 3:
						b := c.NewBatch(StringKey(k))
						must(t, b.Upsert(documentOf(id, k, 100+rng.IntN(900)), nil))
						_, err = c.Commit(ctx, b)
					default:
						_, err = c.Upsert(ctx, documentOf(id, k, 100+rng.IntN(900)), nil)
					}
					if err != nil && !errors.Is(err, ErrLogicalPartitionFull) && !errors.Is(err, ErrNotFound) {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		for _, k := range keys {
			for i := 0; exact(k) > 9_900; i++ {
				if err := c.Delete(ctx, StringKey(k), fmt.Sprint(i), nil); !errors.Is(err, ErrNotFound) {
					must(t, err)
				}
			}
			for i := 0; exact(k) < 9_900; i++ {
				must(t, second(c.Upsert(ctx, documentOf(fmt.Sprint("new", i), k, int(min(900, 9_950-exact(k)))), nil)))
			}
			left := int(10_000 - exact(k))
			must(t, second(c.Create(ctx, documentOf("z", k, 50), nil)))
			if err := second(c.Upsert(ctx, documentOf("z", k, left+1), nil)); !errors.Is(err, ErrLogicalPartitionFull) {
				t.Errorf("%s: a byte too many: %v", k, err)
			}
			must(t, second(c.Upsert(ctx, documentOf("z", k, left), nil)))
		}
	}
}

// TestMostKeyLimits: a store opens again with the largest limits that logical partitions may
// have, and the definition that has them is one that a container can be made with.
func TestMostKeyLimits(t *testing.T) {
	ctx := context.Background()
	for _, most := range []KeyLimits{{Bytes: definition.MaxLogicalBytes}, {Throughput: 1e9}} {
		opts := testOptions(vfs.NewMem())
		db, c := openStore(t, opts)
		must(t, c.SetDefaultKeyLimits(ctx, most))
		must(t, c.SetKeyLimits(ctx, StringKey("a"), most))
		if _, err := db.CreateContainer(ctx, "other", c.Def()); err != nil {
			t.Error(err)
		}
		must(t, db.Close())
		openStore(t, opts)
	}
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for _, more := range []KeyLimits{{Bytes: definition.MaxLogicalBytes + 1}, {Throughput: 1e9 + 1}} {
		if err := c.SetDefaultKeyLimits(ctx, more); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", more, err)
		}
	}
}
