package restore

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestChangedDefault restores into a container whose default time to live has changed since
// the backup: items that are as they were are left alone, and those that are missing come
// back as they would be there now.
func TestChangedDefault(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		ago         time.Duration // the items were written before the present of the system's clock
		then, later time.Duration
	}{
		{2 * time.Hour, time.Hour, 24 * time.Hour}, {2 * time.Hour, time.Hour, engine.NoExpiry}, {2 * time.Hour, time.Hour, 0},
		{0, 24 * time.Hour, time.Hour}, {0, engine.NoExpiry, 24 * time.Hour}, {0, 0, 24 * time.Hour}, {0, 24 * time.Hour, 0},
	} {
		s := cleavetest.New(t, cleavetest.At(time.Now().Add(-test.ago)))
		c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.DefaultTTL, d.MutableTTL = 100*time.Hour, true })
		for id, ttl := range map[string]time.Duration{"follows": 0, "own": 72 * time.Hour, "ever": engine.NoExpiry} {
			_, err := c.Upsert(ctx, document("acme", id, id), &engine.WriteOptions{TTL: ttl})
			must(t, err)
		}
		must(t, c.SetDefaultTTL(ctx, test.then))
		backup, _ := backupOf(t, s.DB(), nil)
		must(t, c.SetDefaultTTL(ctx, test.later))
		_, before := content(t, c, acme)
		result, err := run(t, c, backup, Options{Replace: true, Now: s.Now})
		if _, after := content(t, c, acme); err != nil || result.Unchanged != 3 || result.changes() != 0 || !maps.Equal(before, after) {
			t.Errorf("%+v: %+v, %v; %v, before %v", test, result, err, after, before)
		}
		expires := func() map[string]time.Time {
			all := make(map[string]time.Time)
			for it, err := range c.Scan(ctx, acme, engine.IDRange{}, nil) {
				must(t, err)
				all[it.ID] = it.Expires
			}
			return all
		}
		want := expires()
		must(t, c.DeleteLogicalPartition(ctx, acme, nil))
		result, err = run(t, c, backup, Options{Now: s.Now})
		if err != nil || result.Created != 3 {
			t.Errorf("%+v: %+v, %v", test, result, err)
		}
		got := expires()
		for id, at := range want {
			if !sameExpiry(at, got[id]) {
				t.Errorf("%+v: item %s expires at %v, want %v", test, id, got[id], at)
			}
		}
		if test.later != engine.NoExpiry {
			continue
		}
		must(t, c.SetDefaultTTL(ctx, 100*time.Hour))
		if got := expires(); got["follows"].IsZero() || !got["ever"].IsZero() || !sameExpiry(got["own"], want["own"]) {
			t.Errorf("under another default: %v", got)
		}
	}
}

// TestDefaultChangesMeanwhile: a default that changes during a restore ends it, and nothing
// more is written by the one before.
func TestDefaultChangesMeanwhile(t *testing.T) {
	for i, done := range []int64{0, 0, 1} { // items that are written before it changes
		s := cleavetest.New(t)
		c := notes(t, s.DB(), func(d *engine.ContainerDef) {
			d.DefaultTTL, d.MutableTTL, d.Limits.BatchOperations = time.Hour, true, 1
		})
		upsert(t, c, "acme", "a", "old")
		upsert(t, c, "acme", "b", "old")
		backup, _ := backupOf(t, s.DB(), nil)
		upsert(t, c, "acme", "a", "new")
		upsert(t, c, "acme", "b", "new")
		_, err := run(t, c, backup, Options{Replace: true, DryRun: i == 0, Now: s.Now, Progress: func(p Progress) {
			if p.Items == done {
				must(t, c.SetDefaultTTL(t.Context(), 24*time.Hour))
			}
		}})
		got, _ := content(t, c, acme)
		old := 0
		for id, body := range got {
			if body == string(document("acme", id, "old")) {
				old++
			}
		}
		if !errors.Is(err, engine.ErrConflict) || len(got) != 2 || int64(old) != done {
			t.Errorf("after %d: %v, %v", done, err, got)
		}
	}
}
