package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestDefaultTTLBeside: writers, changes of the default, passing time, splits and merges, passes of
// the expirer, compactions and backups at once. What may not expire is there afterwards; and in
// the store as in a restored backup, a unique value is taken if and only if its item is there.
func TestDefaultTTLBeside(t *testing.T) {
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	opts.ExpiryGrace = time.Second
	db, c := openStore(t, opts, ContainerDef{
		PartitionKey: []string{"/k"}, MutableTTL: true, DefaultTTL: time.Second, UniqueKeys: [][]string{{"/u"}}, ChangeRetention: time.Minute,
	})
	const writers, keys = 3, 5
	items := amount(400, 150, 60)
	key := func(i int) string { return fmt.Sprint("k", i%keys) }
	id := func(w, i int) string { return fmt.Sprintf("%d-%d", w, i) }
	write := func(c *Container, w, i int, as string) error {
		text := fmt.Sprintf(`{"id":%q,"k":%q,"u":%q%s}`, as, key(i), id(w, i), []string{"", `,"ttl":2`, `,"ttl":-1`}[i%3])
		return second(c.Upsert(ctx, []byte(text), nil))
	}
	working, end := context.WithCancel(ctx)
	var writing, others sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range items {
				if err := write(c, w, i, id(w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var backup bytes.Buffer
	for _, work := range []func(round int) error{
		func(round int) error {
			if round%6 > 3 { // time for the expirer
				clock.pass(3 * time.Second)
				return nil
			}
			return c.SetDefaultTTL(ctx, []time.Duration{0, NoExpiry, 2 * time.Second, time.Second}[round%6])
		},
		func(round int) error {
			parts := c.Partitions()
			job := c.newJob(ReshapeSplit, "", parts[round%len(parts)].ID)
			if len(parts) > 3 {
				job = c.newJob(ReshapeMerge, "", parts[0].ID, parts[1].ID)
			}
			db.submit(job)
			if err := job.Wait(ctx); !errors.Is(err, ErrRefused) {
				return err
			}
			return nil
		},
		func(int) error {
			return errors.Join(db.keepMarks(), db.expireItems(ctx), db.Flush(ctx), db.Compact(ctx))
		},
		func(int) error {
			backup.Reset()
			return second(db.Backup(ctx, &backup, nil))
		},
	} {
		others.Go(func() {
			for round := 0; round == 0 || working.Err() == nil; round++ {
				if err := work(round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	end()
	others.Wait()
	must(t, c.SetDefaultTTL(ctx, time.Minute))
	clock.pass(30 * time.Second) // what has two seconds of its own is removed, what has none is not
	must(t, db.expireItems(ctx))
	check := func(what string, c *Container, whole bool) {
		must(t, c.SetDefaultTTL(ctx, 0))
		there := 0
		for w := range writers {
			for i := range items {
				_, err := c.Read(ctx, StringKey(key(i)), id(w, i))
				if found := err == nil; found {
					there++
				} else if !errors.Is(err, ErrNotFound) || whole && i%3 == 2 {
					t.Errorf("%s: item %s, which never expires: %v", what, id(w, i), err)
				}
				taken := write(c, w, i, "other "+id(w, i))
				if found := err == nil; found != errors.Is(taken, ErrUniqueKey) || !found && taken != nil {
					t.Errorf("%s: item %s is there: %v; another with its value: %v", what, id(w, i), found, taken)
				}
			}
		}
		t.Logf("%s: %d of %d items are there", what, there, writers*items)
	}
	check("store", c, true)
	checkVerified(t, db)
	restored := testOptions(nil)
	restored.clock, restored.elapsed = opts.clock, opts.elapsed
	c2, err := restoredCopy(t, restored, backup.Bytes()).Container("c")
	must(t, err)
	check("restored", c2, false)
}

// TestDefaultTTLDuringExpiry: where the default changes to and fro while the expirer is at work, it
// removes no more: another change within the grace period brings the items back.
func TestDefaultTTLDuringExpiry(t *testing.T) {
	ctx := t.Context()
	for name, keys := range map[string][][]string{"plain": nil, "unique": {{"/u"}}} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			clock := newTestClock(opts)
			opts.ExpiryGrace = time.Second
			db, c := openStore(t, opts, ContainerDef{
				PartitionKey: []string{"/k"}, MutableTTL: true, DefaultTTL: 5 * time.Second, UniqueKeys: keys, ChangeRetention: time.Hour,
			})
			const items = 10
			for i := range items {
				must(t, second(c.Create(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","u":%d}`, i, i), nil)))
			}
			clock.pass(time.Minute)
			removed := 0
			db.opts.lookedAhead = func() {
				if removed++; removed == 3 {
					must(t, c.SetDefaultTTL(ctx, NoExpiry))
					must(t, c.SetDefaultTTL(ctx, 5*time.Second))
				}
			}
			must(t, db.expireItems(ctx))
			db.opts.lookedAhead = nil
			must(t, c.SetDefaultTTL(ctx, NoExpiry))
			if list, err := collectItems(c.ScanAll(ctx, nil)); err != nil || removed != 3 || len(list) != items-removed {
				t.Errorf("%d items are back, %v, when %d were removed before the change", len(list), err, removed)
			}
			clock.pass(time.Minute)
			must(t, c.SetDefaultTTL(ctx, 5*time.Second))
			clock.pass(time.Minute)
			must(t, db.expireItems(ctx))
			must(t, c.SetDefaultTTL(ctx, NoExpiry))
			if list, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(list) > 0 {
				t.Errorf("%d items are left, %v", len(list), err)
			}
		})
	}
}
