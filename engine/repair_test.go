package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// repaired repairs the store and returns the new one, and what was said of it.
func (w *damagedWriter) repaired(older bool) (*damagedWriter, RepairReport) {
	w.t.Helper()
	ctx := context.Background()
	opts := *w.opts
	opts.ReadOnly = true
	from, err := Open(ctx, "damaged", &opts)
	must(w.t, err)
	defer from.Close()
	fixed := &damagedWriter{t: w.t, mem: vfs.NewMem(), docs: w.docs}
	fixed.opts = testOptions(fixed.mem)
	fixed.open()
	report, err := repair(ctx, from, fixed.db, &RepairOptions{Older: older})
	must(w.t, err)
	return fixed, report
}

// present counts the documents of a container, each of which must be the newest.
func (w *damagedWriter) present(name string) (n int) {
	w.t.Helper()
	for it, err := range w.container(name).ScanAll(context.Background(), nil) {
		must(w.t, err)
		if string(it.Body) != w.docs[name][it.ID] {
			w.t.Fatalf("document %s of %s is %q, was written as %q", it.ID, name, it.Body, w.docs[name][it.ID])
		}
		n++
	}
	return n
}

// TestRepair damages each section of a file, the newest or the oldest, and repairs the
// store: what is written is the newest there was, and little is missing.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, kind := range []segment.SectionKind{
		segment.SectionGroups, segment.SectionOffsets, segment.SectionPartitions, segment.SectionLocator, segment.SectionIndex,
	} {
		for _, newest := range []bool{false, true} {
			w := newDamagedWriter(t)
			w.write("a", 3)
			must(w.t, w.db.Flush(context.Background()))
			w.write("a", 10) // in the log only
			files := w.segments("a")
			name := files[len(files)-1]
			if newest {
				name = files[0]
			}
			w.flip(name, kind)
			must(w.t, w.db.Close())
			fixed, report := w.repaired(false)
			missing := damagedDocs - fixed.present("a")
			if n := fixed.present("b"); n != damagedDocs {
				t.Errorf("%v: %d documents of b", kind, n)
			}
			most := 0
			if kind == segment.SectionGroups {
				most = 130 // a group, and what is older between its neighbours
			}
			if missing > most || missing > 0 && len(report.Lost) == 0 || int(report.Documents) != 2*damagedDocs-missing {
				t.Errorf("%v, newest %v: %d documents are missing: %+v", kind, newest, missing, report)
			}
		}
	}
}

// TestRepairWithoutFile repairs a store that has lost a file, and one that has lost the
// manifest of a partition.
func TestRepairWithoutFile(t *testing.T) {
	w := newDamagedWriter(t)
	name := w.segments("a")[1]
	must(w.t, w.db.Close())
	w.spoil(name, func([]byte) []byte { return nil })
	held := w.mem.Clone()
	fixed, report := w.repaired(false)
	if n := fixed.present("a"); n == 0 || n == damagedDocs || len(report.Lost) != 1 || fixed.present("b") != damagedDocs {
		t.Errorf("%d documents: %+v", n, report)
	}
	if !maps.Equal(filesOf(t, held), filesOf(t, w.mem)) {
		t.Error("the repair changed the store")
	}
}

// TestRepairDeletedPartition: where the deletion of a logical partition is damaged, and the documents that it deletes
// are in the same file, since changes are kept or since a reader had them pinned, a repair says that they are
// uncertain, and leaves them out.
func TestRepairDeletedPartition(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		ctx, mem := t.Context(), vfs.NewMem()
		def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour}
		if pinned {
			def.ChangeRetention = 0
		}
		db, c := openStore(t, testOptions(mem), def)
		for i := range 50 {
			upsert(t, c, fmt.Sprintf("%02d", i), 400)
		}
		release := func() {}
		if pinned {
			s, err := c.Snapshot(ctx)
			must(t, err)
			release = func() { s.Close() }
		}
		must(t, c.DeleteLogicalPartition(ctx, StringKey("a"), nil))
		must(t, db.Flush(ctx))
		release()
		w := &damagedWriter{t: t, mem: mem, db: db}
		for f := range c.routing.Load().parts[0].Version.Load().Files() {
			must(t, db.Close())
			data, err := mem.ReadFile(f.Name)
			must(t, err)
			data[w.section(f.Name, segment.SectionGroups).Off+8] ^= 0x40 // the group with the deletion
			must(t, mem.WriteFile(f.Name, data))
		}
		for _, older := range []bool{false, true} {
			opts := testOptions(mem)
			opts.ReadOnly = true
			from, err := Open(ctx, db.Dir(), opts)
			must(t, err)
			to, err := Open(ctx, "repaired", testOptions(vfs.NewMem()))
			must(t, err)
			report, err := repair(ctx, from, to, &RepairOptions{Older: older})
			must(t, err)
			must(t, errors.Join(from.Close(), to.Close()))
			if len(report.Lost) != 1 || report.Uncertain == 0 || (report.Documents > 0) != older {
				t.Errorf("pinned %t, older %t: %+v", pinned, older, report)
			}
		}
	}
}

// TestRepairKeeps repairs whole stores: every document is there, with its key and its time of
// expiry, and the limits are those of before. They do not hold for the repair itself.
func TestRepairKeeps(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		def    ContainerDef
		change func(c *Container) error
	}{
		"random suffixes": {def: ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/k"}, Suffixes: 4}}},
		"expiry":          {def: ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: time.Minute}},
		"expiry, mutable": {def: ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, MutableTTL: true}},
		"throughput of logical partitions": {
			def: byK, change: func(c *Container) error { return c.SetDefaultKeyLimits(ctx, KeyLimits{Throughput: 1}) },
		},
		"size of logical partitions": {
			def: byK, change: func(c *Container) error { return c.SetDefaultKeyLimits(ctx, KeyLimits{Bytes: 100}) },
		},
		"limits of one logical partition": {
			def: byK, change: func(c *Container) error {
				return c.SetKeyLimits(ctx, StringKey("a"), KeyLimits{Throughput: 1, Bytes: 100})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			clock := newTestClock(opts)
			db, c := openStore(t, opts, tc.def)
			for i := range 20 {
				var o WriteOptions
				if tc.def.DefaultTTL != 0 {
					o.TTL = time.Duration(10*i+10) * time.Second
				}
				_, err := c.Create(ctx, doc(fmt.Sprint(i), "a", i), &o)
				must(t, err)
			}
			was := make(map[PartitionKey]map[string]time.Time)
			for it, err := range c.ScanAll(ctx, nil) {
				must(t, err)
				if was[it.Key] == nil {
					was[it.Key] = make(map[string]time.Time)
				}
				was[it.Key][it.ID] = it.Expires
			}
			if tc.change != nil {
				must(t, tc.change(c))
			}
			to := testOptions(vfs.NewMem())
			to.clock, to.elapsed = opts.clock, opts.elapsed
			fixed, err := Open(ctx, "fixed", to)
			must(t, err)
			defer fixed.Close()
			// The repair takes a quarter of a minute: the first item expires meanwhile.
			passed := false
			report, err := repair(ctx, db, fixed, &RepairOptions{Progress: func(RepairReport) {
				if !passed {
					clock.pass(15 * time.Second)
				}
				passed = true
			}})
			must(t, err)
			if len(report.Refused) > 0 || len(report.Lost) > 0 {
				t.Errorf("%+v", report)
			}
			repaired, err := fixed.Container("c")
			must(t, err)
			if now, before := maps.Collect(repaired.LimitedKeys()), maps.Collect(c.LimitedKeys()); !maps.Equal(now, before) {
				t.Errorf("limits of logical partitions are %v, were %v", now, before)
			}
			if now, before := repaired.Def().Limits, c.Def().Limits; now != before {
				t.Errorf("limits are %+v, were %+v", now, before)
			}
			must(t, repaired.SetKeyLimits(ctx, StringKey("a"), KeyLimits{}))
			must(t, repaired.SetDefaultKeyLimits(ctx, KeyLimits{}))
			for key, items := range was {
				for id, expires := range items {
					it, err := repaired.Read(ctx, key, id)
					if !expires.IsZero() && !expires.After(opts.clock()) {
						if !errors.Is(err, ErrNotFound) {
							t.Errorf("%v %s has expired: %v", key, id, err)
						}
					} else if err != nil || !it.Expires.Equal(expires) {
						t.Errorf("%v %s expires at %v, before at %v: %v", key, id, it.Expires, expires, err)
					}
				}
			}
		})
	}
}

// TestRepairKeepsTimes: where nothing expires at present, since the default time to live is 0, items keep the times to
// live of their own, by which they expire under another default.
func TestRepairKeepsTimes(t *testing.T) {
	ctx, opts := t.Context(), testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, MutableTTL: true})
	for i, ttl := range []time.Duration{time.Minute, time.Hour, 0} {
		must(t, second(c.Create(ctx, doc(fmt.Sprint(i), "a", i), &WriteOptions{TTL: ttl})))
	}
	it, err := c.Read(ctx, StringKey("a"), "1")
	must(t, err)
	must(t, c.SetDefaultTTL(ctx, 0))
	clock.pass(10 * time.Minute)
	to := testOptions(vfs.NewMem())
	to.clock, to.elapsed = opts.clock, opts.elapsed
	fixed, repaired := repairedInto(t, db, to)
	defer fixed.Close()
	if items, err := collectItems(repaired.ScanAll(ctx, nil)); err != nil || len(items) != 3 || repaired.Def().DefaultTTL != 0 {
		t.Errorf("%d items, %v, with the default %v", len(items), err, repaired.Def().DefaultTTL)
	}
	must(t, repaired.SetDefaultTTL(ctx, NoExpiry))
	clock.pass(time.Second)
	if _, err := repaired.Read(ctx, StringKey("a"), "0"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an item whose time is over: %v", err)
	}
	if got, err := repaired.Read(ctx, StringKey("a"), "1"); err != nil || !got.Expires.Equal(it.Expires) {
		t.Errorf("an item expires at %v, before at %v: %v", got.Expires, it.Expires, err)
	}
	if got, err := repaired.Read(ctx, StringKey("a"), "2"); err != nil || !got.Expires.IsZero() {
		t.Errorf("an item without a time of its own expires at %v: %v", got.Expires, err)
	}
}

// repairedInto repairs a store into a new one, and returns that with its container "c".
func repairedInto(t *testing.T, from *DB, to *Options) (*DB, *Container) {
	t.Helper()
	db, err := Open(t.Context(), "fixed", to)
	must(t, err)
	must(t, second(repair(t.Context(), from, db, &RepairOptions{})))
	c, err := db.Container("c")
	must(t, err)
	return db, c
}

// TestRepairIntoSomething: a repair refuses a directory that has something in it, and changes
// nothing there, nor in the source.
func TestRepairIntoSomething(t *testing.T) {
	ctx := context.Background()
	parent := t.TempDir()
	src, empty, other := filepath.Join(parent, "src"), filepath.Join(parent, "empty"), filepath.Join(parent, "other")
	for _, dir := range []string{src, empty} {
		db, err := Open(ctx, dir, nil)
		must(t, err)
		if dir == src {
			_, err = db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
			must(t, err)
		}
		must(t, db.Close())
	}
	must(t, os.Mkdir(other, 0o755))
	must(t, os.WriteFile(filepath.Join(other, "note"), nil, 0o644))
	files := func() map[string]string {
		have := make(map[string]string)
		must(t, filepath.WalkDir(parent, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			have[name] = string(text)
			return err
		}))
		return have
	}
	before := files()
	for _, dst := range []string{src, empty, other} {
		if _, err := Repair(ctx, src, dst, nil); !errors.Is(err, ErrExists) {
			t.Errorf("into %s: %v", filepath.Base(dst), err)
		}
		if !maps.Equal(files(), before) {
			t.Errorf("into %s: files have changed", filepath.Base(dst))
		}
	}
}

// TestRepairKeepsCopies: an unfinished copy stays one, which CopyTo goes on with, and what a copy
// has taken the place of takes no writes.
func TestRepairKeepsCopies(t *testing.T) {
	ctx, byID := t.Context(), ContainerDef{PartitionKey: []string{"/id"}}
	db, c := openStore(t, testOptions(vfs.NewMem()))
	must(t, second(c.Upsert(ctx, smallDocument("1", "a", 50), nil)))
	must(t, second(copied(ctx, c, "begun", byID)))
	old, err := db.CreateContainer(ctx, "old", byK)
	must(t, err)
	job, err := copied(ctx, old, "new", byID)
	must(t, err)
	must(t, second(job.Finish(ctx)))
	fixed, err := Open(ctx, "fixed", testOptions(vfs.NewMem()))
	must(t, err)
	defer fixed.Close()
	must(t, second(repair(ctx, db, fixed, &RepairOptions{})))
	for name, want := range map[string]error{"begun": ErrCopying, "c": nil, "new": nil, "old": ErrCopied} {
		c, err := fixed.Container(name)
		must(t, err)
		if _, err = c.Upsert(ctx, smallDocument("2", "a", 50), nil); !errors.Is(err, want) {
			t.Errorf("a write to %s: %v, want %v", name, err, want)
		}
	}
	c, err = fixed.Container("c")
	must(t, err)
	job, err = copied(ctx, c, "begun", byID)
	must(t, err)
	must(t, second(job.Finish(ctx)))
}
