package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestConcurrent has writers, readers, scans, snapshots, loads, flushes and
// merges run side by side. Each writer owns its keys and raises their numbers:
// nobody may see a number fall, nor one below what was acknowledged before the
// read began.
func TestConcurrent(t *testing.T) {
	seed := newSeed(t)
	opts := testOptions(nil)
	opts.fs, opts.manual, opts.Durability = nil, false, Buffered
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := Open(ctx, t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	const writers, keys = 3, 40
	rounds := amount(150, 40, 30)
	if raceEnabled && testing.Short() {
		rounds = 12
	}
	var acknowledged [writers][keys]atomic.Int64
	document := func(w, k int, n int64) []byte {
		return fmt.Appendf(nil, `{"id":"%d","k":%d,"n":%d,"text":%q}`, k, w, n, strings.Repeat("text ", k*int(n%20)))
	}
	numberOf := func(it Item) (n int64) {
		if _, err := fmt.Sscanf(string(it.Body[strings.Index(string(it.Body), `"n":`):]), `"n":%d`, &n); err != nil {
			t.Errorf("item %s: %q", it.ID, it.Body)
		}
		return n
	}
	var writing, others sync.WaitGroup
	wrote := make(chan struct{}, 1) // a round was written
	for w := range writers {
		writing.Go(func() {
			for n := int64(1); n <= int64(rounds); n++ {
				for k := range keys {
					o := &WriteOptions{}
					if k%8 == 0 {
						o.Durability = Synced
					}
					if k%7 == 3 && n%5 == 0 {
						if err := c.Delete(ctx, NumberKey(float64(w)), fmt.Sprint(k), o); err != nil {
							t.Error(err)
							return
						}
					}
					if _, err := c.Upsert(ctx, document(w, k, n), o); err != nil {
						t.Error(err)
						return
					}
					acknowledged[w][k].Store(n)
				}
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	background := func(name string, step func(rng *rand.Rand) error) {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(len(name))))
			for ctx.Err() == nil {
				if err := step(rng); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	// seen checks an item against what was acknowledged before the read.
	seen := func(what string, w, k int, before int64, it Item) {
		if n := numberOf(it); n < before {
			t.Errorf("%s: writer %d, key %d: number %d after %d was acknowledged", what, w, k, n, before)
		}
	}
	background("read", func(rng *rand.Rand) error {
		w, k := rng.IntN(writers), rng.IntN(keys)
		before := acknowledged[w][k].Load()
		it, err := c.ReadInto(ctx, NumberKey(float64(w)), fmt.Sprint(k), nil)
		if errors.Is(err, ErrNotFound) && (before == 0 || k%7 == 3) {
			return nil
		}
		if err == nil {
			seen("read", w, k, before, it)
		}
		return err
	})
	background("scan", func(rng *rand.Rand) error {
		w := rng.IntN(writers)
		var before [keys]int64
		for k := range keys {
			before[k] = acknowledged[w][k].Load()
		}
		var found [keys]bool
		for it, err := range c.Scan(ctx, NumberKey(float64(w)), IDRange{}, &ScanOptions{Reverse: rng.IntN(2) == 0}) {
			if err != nil {
				return err
			}
			var k int
			fmt.Sscan(it.ID, &k)
			if found[k] {
				t.Errorf("scan: key %d twice", k)
			}
			found[k] = true
			seen("scan", w, k, before[k], it)
		}
		for k := range keys {
			if !found[k] && before[k] > 0 && k%7 != 3 {
				t.Errorf("scan: writer %d, key %d is missing", w, k)
			}
		}
		return nil
	})
	background("snapshot", func(rng *rand.Rand) error {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		w, k := rng.IntN(writers), rng.IntN(keys)
		first, err := s.Read(ctx, NumberKey(float64(w)), fmt.Sprint(k))
		runtime.Gosched()
		again, err2 := s.Read(ctx, NumberKey(float64(w)), fmt.Sprint(k))
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err2, err) || string(first.Body) != string(again.Body) || first.ETag != again.ETag {
			t.Errorf("snapshot: first %.60q %v, then %.60q %v", first.Body, err, again.Body, err2)
		}
		return nil
	})
	background("load", func(rng *rand.Rand) error {
		_, err := c.Load(ctx, func(yield func([]byte, error) bool) {
			for i := range 50 {
				if !yield(fmt.Appendf(nil, `{"id":"load %d","k":"load","n":%d}`, i, rng.Uint32()), nil) {
					return
				}
			}
		}, &LoadOptions{BatchBytes: 1000})
		return err
	})
	background("flush", func(*rand.Rand) error { return db.Flush(ctx) })
	background("settle", func(*rand.Rand) error { return db.Compact(ctx) })
	background("stats", func(*rand.Rand) error { // once a round: in a loop they take a quarter of the processors
		select {
		case <-wrote:
			_ = db.Stats().String()
		case <-ctx.Done():
		}
		return nil
	})
	writing.Wait()
	cancel()
	others.Wait()
	for f, err := range db.Verify(context.Background()) {
		t.Errorf("verify: %v %v", f, err)
	}
	if s := db.Stats(); s.Flushes == 0 || s.Compactions == 0 || s.BackgroundErrors > 0 {
		t.Errorf("%d flushes, %d merges, %d background errors", s.Flushes, s.Compactions, s.BackgroundErrors)
	}
}
