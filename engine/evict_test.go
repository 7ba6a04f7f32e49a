package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

var evictDef = ContainerDef{PartitionKey: []string{"/k"}, Replicated: true, DefaultTTL: NoExpiry, Index: IndexAll()}

// evictStore opens a store with a replicated container of one physical partition.
func evictStore(t testing.TB, fsys vfs.FS) (*DB, *Container, error) {
	t.Helper()
	db, err := Open(context.Background(), "store", replicaOptions(fsys, time.Minute))
	if err != nil {
		return nil, nil, err
	}
	c, err := db.EnsureContainer(context.Background(), "docs", evictDef)
	return db, c, err
}

// applyItem applies an entry that writes an item of a logical partition.
func applyItem(c *Container, index uint64, key string, o *WriteOptions) error {
	b := c.NewBatch(StringKey(key))
	if err := b.Upsert(doc(fmt.Sprint("i", index), key, int(index)), o); err != nil {
		return err
	}
	epk := StringKey(key).EPK()
	rt := c.routing.Load()
	p := rt.parts[rt.table.Find(&epk)]
	_, err := c.ApplyAt(context.Background(), p.ID, Entry{Index: index, Time: replicaTime.Add(time.Duration(index) * time.Second), Batches: []*Batch{b}})
	return err
}

// notHere has every way to ask for a logical partition, and what it answers.
func notHere(c *Container, key PartitionKey) map[string]error {
	ctx := context.Background()
	epk := key.EPK()
	rt := c.routing.Load()
	p := rt.parts[rt.table.Find(&epk)]
	last := func(loop func(yield func(Item, error) bool)) (failed error) {
		for _, err := range loop {
			failed = err
		}
		return failed
	}
	feed := func(s Scope) (failed error) {
		for _, err := range c.Changes(ctx, s, ChangePosition{}, nil) {
			failed = err
		}
		return failed
	}
	report := new(RepairReport)
	asked := map[string]error{
		"read":      second(c.Read(ctx, key, "i1")),
		"scan":      last(c.Scan(ctx, key, IDRange{}, nil)),
		"scan all":  last(c.ScanAll(ctx, nil)),
		"readable":  last(c.ScanReadable(ctx, key, report)),
		"query":     last(c.Query(ctx, OnePartition(key), Query{Where: Eq("/n", 1)}).All()),
		"order":     last(c.Query(ctx, AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/n"}}}).All()),
		"query all": last(c.Query(ctx, AllPartitions(), Query{}).All()),
		"count":     second(c.Count(ctx, AllPartitions(), Eq("/n", 1))),
		"feed":      feed(OnePartition(key)),
		"feed all":  feed(AllPartitions()),
		"apply":     second(c.ApplyAt(ctx, p.ID, Entry{Index: 1, Time: replicaTime})),
		"index":     second(c.AppliedIndex(p.ID)),
		"durable":   second(c.DurableIndex(p.ID)),
		"flush":     second(c.FlushPartition(ctx, p.ID)),
		"export":    second(c.ExportPartition(ctx, p.ID, new(bytes.Buffer))),
		"usage":     second(c.Usage(ctx, key, nil)),
	}
	asked["view"] = c.View(ctx, key, func(tx *Tx) error { return second(tx.Read("i1")) })
	_, _, asked["digest"] = c.DigestPartition(ctx, p.ID)
	if s, err := c.Snapshot(ctx); err != nil {
		asked["snapshot"] = err
	} else {
		asked["snapshot"] = second(s.Read(ctx, key, "i1"))
		asked["scan of a snapshot"] = last(s.Scan(ctx, key, IDRange{}, nil))
		s.Close()
	}
	return asked
}

// TestEvict: what is not here is said not to be here, and is never taken for empty: after an
// eviction, a split of what is absent, and a reopening, until an installation brings it back.
func TestEvict(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	db, c, err := evictStore(t, mem)
	must(t, err)
	for i := uint64(1); i <= 20; i++ {
		must(t, applyItem(c, i, fmt.Sprint("k", i%4), nil))
	}
	id := c.Partitions()[0].ID
	index, want, err := c.DigestPartition(ctx, id)
	must(t, err)
	if index != 20 {
		t.Fatalf("digest of entry %d", index)
	}
	var image bytes.Buffer
	_, err = c.ExportPartition(ctx, id, &image)
	must(t, err)
	old, err := c.Snapshot(ctx)
	must(t, err)
	defer old.Close()
	must(t, c.Evict(ctx, id))
	if _, err := old.Read(ctx, StringKey("k1"), "i1"); !errors.Is(err, ErrReplaced) && !errors.Is(err, ErrNotHere) {
		t.Errorf("a snapshot from before: %v", err)
	}
	check := func(when string, parts int) {
		t.Helper()
		if n := len(c.Partitions()); n != parts {
			t.Errorf("%s: %d partitions", when, n)
		}
		for _, p := range c.Partitions() {
			if !p.Absent {
				t.Errorf("%s: partition %d is here", when, p.ID)
			}
			must(t, c.Evict(ctx, p.ID)) // does nothing
		}
		for what, err := range notHere(c, StringKey("k1")) {
			if !errors.Is(err, ErrNotHere) {
				t.Errorf("%s, %s: %v", when, what, err)
			}
		}
	}
	check("evicted", 1)
	if err := c.Evict(ctx, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("an old partition: %v", err)
	}
	reopen := func() {
		t.Helper()
		must(t, db.Close())
		db, c, err = evictStore(t, mem)
		must(t, err)
	}
	reopen()
	check("reopened", 1)
	job, err := c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: partmap.Midpoint(c.routing.Load().parts[0].Range).String()})
	must(t, err)
	must(t, job.Wait(ctx))
	check("split", 2)
	reopen()
	check("split and reopened", 2)
	if _, err := c.InstallPartition(ctx, bytes.NewReader(image.Bytes())); err != nil {
		t.Fatal(err)
	}
	reopen()
	p := c.Partitions()[0]
	if p.Absent || len(c.Partitions()) != 1 {
		t.Fatalf("%+v", c.Partitions())
	}
	if index, sum, err := c.DigestPartition(ctx, p.ID); err != nil || index != 20 || sum != want {
		t.Errorf("brought back: digest %x of entry %d, want %x; %v", sum, index, want, err)
	}
	must(t, applyItem(c, 21, "k1", nil))
	if _, sum, err := c.DigestPartition(ctx, p.ID); err != nil || sum == want {
		t.Errorf("entry 21 has not changed the digest: %x, %v", sum, err)
	}
	must(t, db.Close())

	plain, err := Open(ctx, "store", testOptions(vfs.NewMem()))
	must(t, err)
	defer plain.Close()
	o, err := plain.CreateContainer(ctx, "plain", ContainerDef{PartitionKey: []string{"/k"}})
	must(t, err)
	if err := o.Evict(ctx, o.Partitions()[0].ID); !errors.Is(err, ErrInvalid) {
		t.Errorf("a container that is not replicated: %v", err)
	}
}

// TestRepairTellsWhatIsNotHere: a repair counts a range that is not here among what is lost.
func TestRepairTellsWhatIsNotHere(t *testing.T) {
	ctx := t.Context()
	db, c, err := evictStore(t, vfs.NewMem())
	must(t, err)
	defer db.Close()
	must(t, applyItem(c, 1, "k1", nil))
	must(t, c.Evict(ctx, c.Partitions()[0].ID))
	fixed, err := Open(ctx, "fixed", testOptions(vfs.NewMem()))
	must(t, err)
	defer fixed.Close()
	report, err := repair(ctx, db, fixed, &RepairOptions{})
	must(t, err)
	if report.Documents != 0 || len(report.Lost) != 1 || !report.Lost[0].Whole || !errors.Is(report.Lost[0].Err, ErrNotHere) {
		t.Errorf("%+v", report)
	}
}

// TestEvictBesideFeed: a feed that follows ends when what it follows is not here any more.
func TestEvictBesideFeed(t *testing.T) {
	ctx := t.Context()
	_, c, err := evictStore(t, vfs.NewMem())
	must(t, err)
	defer c.db.Close()
	must(t, applyItem(c, 1, "k1", nil))
	shown := 0
	for _, err := range c.Changes(ctx, AllPartitions(), ChangePosition{}, &ChangeOptions{Follow: true}) {
		if err != nil {
			if !errors.Is(err, ErrNotHere) {
				t.Errorf("%v", err)
			}
			break
		}
		shown++
		must(t, c.Evict(ctx, c.Partitions()[0].ID))
	}
	if shown != 1 {
		t.Errorf("%d changes", shown)
	}
}

// TestEvictCrash stops an eviction, the split of what is absent, and an installation at every
// call of the file system. What is there afterwards is the whole partition or an absent one,
// and the same steps lead to the same end.
func TestEvictCrash(t *testing.T) {
	ctx := t.Context()
	from := vfs.NewMem()
	db, c, err := evictStore(t, from)
	must(t, err)
	for i := uint64(1); i <= 12; i++ {
		must(t, applyItem(c, i, fmt.Sprint("k", i%4), nil))
	}
	_, want, err := c.DigestPartition(ctx, c.Partitions()[0].ID)
	must(t, err)
	var image bytes.Buffer
	_, err = c.ExportPartition(ctx, c.Partitions()[0].ID, &image)
	must(t, err)
	at := partmap.Midpoint(c.routing.Load().parts[0].Range).String()
	must(t, db.Close())
	story := func(c *Container) error {
		for _, p := range c.Partitions() {
			if err := c.Evict(ctx, p.ID); err != nil {
				return err
			}
		}
		if p := c.Partitions(); len(p) == 1 {
			job, err := c.Split(ctx, p[0].ID, &SplitOptions{At: at})
			if err == nil {
				err = job.Wait(ctx)
			}
			if err != nil {
				return err
			}
		}
		return second(c.InstallPartition(ctx, bytes.NewReader(image.Bytes())))
	}
	whole, absent := 0, 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		db, c, err := evictStore(t, faulty)
		must(t, err)
		var stopped *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { stopped = mem.Clone() })
		err = story(c)
		db.abandonForTest()
		if stopped == nil {
			must(t, err)
			break
		}
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
			disk := stopped.Crash(keep)
			db, c, err := evictStore(t, disk)
			if err != nil {
				t.Fatalf("call %d, %v: %v", n, keep, err)
			}
			parts := c.Partitions()
			if index, sum, err := c.DigestPartition(ctx, parts[0].ID); len(parts) == 1 && !parts[0].Absent {
				if whole++; err != nil || index != 12 || sum != want {
					t.Fatalf("call %d, %v: entry %d, digest %x, %v", n, keep, index, sum, err)
				}
			} else {
				absent++
				for what, err := range notHere(c, StringKey("k1")) {
					if !errors.Is(err, ErrNotHere) {
						t.Fatalf("call %d, %v, %s: %v", n, keep, what, err)
					}
				}
			}
			if err := story(c); err != nil {
				t.Fatalf("call %d, %v: again: %v", n, keep, err)
			}
			if _, sum, err := c.DigestPartition(ctx, c.Partitions()[0].ID); err != nil || sum != want {
				t.Fatalf("call %d, %v: again: digest %x, %v", n, keep, sum, err)
			}
			db.abandonForTest()
		}
	}
	if whole < 10 || absent < 10 {
		t.Errorf("%d times whole, %d times absent: the test does too little", whole, absent)
	}
}

// TestReplacePartition installs one half of a partition in the place of the whole one, and
// stops that at every call of the file system: the old partition is there, or the new half
// beside an absent one, and never a half of the old one.
func TestReplacePartition(t *testing.T) {
	ctx := t.Context()
	from, other := vfs.NewMem(), vfs.NewMem()
	db, c, err := evictStore(t, from)
	must(t, err)
	source, d, err := evictStore(t, other)
	must(t, err)
	for i := uint64(1); i <= 12; i++ {
		must(t, applyItem(c, i, fmt.Sprint("k", i%4), nil))
		must(t, applyItem(d, i, fmt.Sprint("k", i%4), nil))
	}
	_, old, err := c.DigestPartition(ctx, c.Partitions()[0].ID)
	must(t, err)
	must(t, db.Close())
	job, err := d.Split(ctx, d.Partitions()[0].ID, &SplitOptions{At: partmap.Midpoint(d.routing.Load().parts[0].Range).String()})
	must(t, err)
	must(t, job.Wait(ctx))
	var halves [2]bytes.Buffer
	var digests [2][32]byte
	var keys [2]PartitionKey // one in the other half
	for i, p := range d.Partitions() {
		must(t, second(d.ApplyAt(ctx, p.ID, Entry{Index: 13, Time: replicaTime.Add(time.Minute)})))
		must(t, second(d.ExportPartition(ctx, p.ID, &halves[i])))
		_, digests[i], err = d.DigestPartition(ctx, p.ID)
		must(t, err)
		for k := 0; !keys[1-i].Valid(); k++ {
			key := StringKey(fmt.Sprint("k", k))
			if epk := key.EPK(); d.partition(p.ID).Range.Contains(&epk) {
				keys[1-i] = key
			}
		}
	}
	must(t, source.Close())
	for half := range halves {
		whole, replaced := 0, 0
		for n := int64(1); ; n++ {
			mem := from.Clone()
			faulty := vfs.NewFaulty(mem)
			db, c, err := evictStore(t, faulty)
			must(t, err)
			var stopped *vfs.Mem
			faulty.StopAt(faulty.Calls()+n, func() { stopped = mem.Clone() })
			_, err = c.ReplacePartition(ctx, c.Partitions()[0].ID, bytes.NewReader(halves[half].Bytes()))
			done := stopped == nil
			if done {
				must(t, err)
				stopped = mem.Clone()
			}
			db.abandonForTest()
			for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
				db, c, err := evictStore(t, stopped.Crash(keep))
				if err != nil {
					t.Fatalf("half %d, call %d, %v: %v", half, n, keep, err)
				}
				parts := c.Partitions()
				if len(parts) == 1 {
					if _, sum, err := c.DigestPartition(ctx, parts[0].ID); err != nil || sum != old || done {
						t.Fatalf("half %d, call %d, %v: done %v, digest %x, %v", half, n, keep, done, sum, err)
					}
					whole++
				} else {
					index, sum, err := c.DigestPartition(ctx, parts[half].ID)
					if err != nil || index != 13 || sum != digests[half] || len(parts) != 2 || !parts[1-half].Absent {
						t.Fatalf("half %d, call %d, %v: entry %d, digest %x, %v; %+v", half, n, keep, index, sum, err, parts)
					}
					if _, err := c.Read(ctx, keys[half], "i1"); !errors.Is(err, ErrNotHere) {
						t.Fatalf("half %d, call %d, %v: the other half: %v", half, n, keep, err)
					}
					replaced++
				}
				db.abandonForTest()
			}
			if done {
				break
			}
		}
		if whole < 10 || replaced < 3 {
			t.Errorf("half %d: %d times whole, %d times replaced", half, whole, replaced)
		}
	}
	db, c, err = evictStore(t, from)
	must(t, err)
	defer db.Close()
	if _, err := c.ReplacePartition(ctx, 99, bytes.NewReader(halves[0].Bytes())); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such partition: %v", err)
	}
	if _, err := c.InstallPartition(ctx, bytes.NewReader(halves[0].Bytes())); !errors.Is(err, ErrInvalid) {
		t.Errorf("half of a partition: %v", err)
	}
	must(t, second(c.ReplacePartition(ctx, c.Partitions()[0].ID, bytes.NewReader(halves[0].Bytes()))))
	if _, err := c.ReplacePartition(ctx, c.Partitions()[0].ID, bytes.NewReader(halves[1].Bytes())); !errors.Is(err, ErrInvalid) {
		t.Errorf("another range: %v", err)
	}
}

// TestReplacePartitionTooMany: a container that has the most physical partitions gets no more of them by an installation.
// A store with more could not be opened again.
func TestReplacePartitionTooMany(t *testing.T) {
	ctx := t.Context()
	db, c, err := evictStore(t, vfs.NewMem())
	must(t, err)
	defer db.Close()
	source, d, err := evictStore(t, vfs.NewMem())
	must(t, err)
	defer source.Close()
	must(t, applyItem(d, 1, "k1", nil))
	rt := c.routing.Load()
	job, err := d.Split(ctx, d.Partitions()[0].ID, &SplitOptions{At: partmap.Midpoint(rt.parts[0].Range).String()})
	must(t, err)
	must(t, job.Wait(ctx))
	var half bytes.Buffer
	must(t, second(d.ExportPartition(ctx, d.Partitions()[0].ID, &half)))
	c.routing.Store(&routing{table: rt.table, parts: slices.Repeat(rt.parts, maxPartitions)})
	_, err = c.ReplacePartition(ctx, rt.parts[0].ID, bytes.NewReader(half.Bytes()))
	c.routing.Store(rt)
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != RefusedTooMany {
		t.Errorf("in a container with the most partitions: %v", err)
	}
	must(t, second(c.ReplacePartition(ctx, rt.parts[0].ID, bytes.NewReader(half.Bytes()))))
}

// TestEvictCopies: a backup, a checkpoint and a store that is open read-only know what is not
// here, and nothing of it counts as damage.
func TestEvictCopies(t *testing.T) {
	ctx := t.Context()
	mem, target := vfs.NewMem(), vfs.NewMem()
	o := replicaOptions(mem, time.Minute)
	o.checkpointRoot = func(string) (vfs.FS, error) { return target, nil }
	db, err := Open(ctx, "store", o)
	must(t, err)
	c, err := db.CreateContainer(ctx, "docs", evictDef)
	must(t, err)
	must(t, applyItem(c, 1, "k1", nil))
	job, err := c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: partmap.Midpoint(c.routing.Load().parts[0].Range).String()})
	must(t, err)
	must(t, job.Wait(ctx))
	here, gone := c.Partitions()[0], c.Partitions()[1]
	key := StringKey("k1")
	if epk := key.EPK(); c.partition(gone.ID).Range.Contains(&epk) {
		here, gone = gone, here
	}
	must(t, c.Evict(ctx, gone.ID))
	var b bytes.Buffer
	_, err = db.Backup(ctx, &b, nil)
	must(t, err)
	_, err = db.Checkpoint(ctx, "copy")
	must(t, err)
	must(t, db.Close())
	restored := vfs.NewMem()
	must(t, backup.Restore(ctx, restored, "copy", bytes.NewReader(b.Bytes())))
	for name, tc := range map[string]struct {
		fsys     vfs.FS
		dir      string
		readOnly bool
	}{"the store": {mem, "store", false}, "read-only": {mem, "store", true}, "the checkpoint": {target, ".", false}, "the backup": {below{restored, "copy"}, "copy", false}} {
		o := replicaOptions(tc.fsys, time.Minute)
		o.ReadOnly = tc.readOnly
		db, err := Open(ctx, tc.dir, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c, err := db.Container("docs")
		must(t, err)
		absent := 0
		for _, p := range c.Partitions() {
			if p.Absent != (p.Min == gone.Min) {
				t.Errorf("%s: [%s, %s) absent: %v", name, p.Min, p.Max, p.Absent)
			}
			if index, err := c.AppliedIndex(p.ID); p.Absent {
				absent++
				if !errors.Is(err, ErrNotHere) {
					t.Errorf("%s: entry %d, %v", name, index, err)
				}
			} else if err != nil || index != 1 || p.Min != here.Min {
				t.Errorf("%s: entry %d, %v", name, index, err)
			}
		}
		if _, err := c.Read(ctx, key, "i1"); err != nil || absent != 1 {
			t.Errorf("%s: %d partitions are absent; what is here: %v", name, absent, err)
		}
		for _, err := range db.Verify(ctx) {
			must(t, err)
		}
		must(t, db.Close())
	}
}
