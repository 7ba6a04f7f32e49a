package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// TestReplicatedRefusals: what would make replicas differ is refused.
func TestReplicatedRefusals(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()), replicaDef)
	plain, err := db.CreateContainer(ctx, "plain", ContainerDef{PartitionKey: []string{"/k"}})
	must(t, err)
	key := StringKey("a")
	b := c.NewBatch(key)
	must(t, b.Upsert(doc("x", "a", 1), nil))
	ids := [2]PartitionID{c.Partitions()[0].ID, c.Partitions()[1].ID}
	epk := key.EPK()
	mine, other := ids[0], ids[1]
	if c.partition(mine); !c.partition(mine).Range.Contains(&epk) {
		mine, other = other, mine
	}
	load := func(yield func([]byte, error) bool) { yield(doc("x", "a", 1), nil) }
	for name, err := range map[string]error{
		"upsert": second(c.Upsert(ctx, doc("x", "a", 1), nil)),
		"delete": c.Delete(ctx, key, "x", nil),
		"commit": second(c.Commit(ctx, b)),
		"update": c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(doc("x", "a", 1), nil) }),
		"patch":  second(c.Patch(ctx, key, "x", new(Patch).Set("/n", 1), nil)),
		"load":   second(c.Load(ctx, load, nil)),
		"merge":  second(c.Merge(ctx, ids[0], ids[1])),
		"move":   second(c.MoveBoundary(ctx, ids[0], ids[1], "10")),
		"split":  second(c.Split(ctx, mine, nil)),
	} {
		if !errors.Is(err, ErrReplicated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	now := time.Now()
	foreign := plain.NewBatch(key)
	for name, tc := range map[string]struct {
		id    PartitionID
		entry Entry
		want  error
	}{
		"no index":       {mine, Entry{Time: now, Batches: []*Batch{b}}, ErrInvalid},
		"no time":        {mine, Entry{Index: 1, Batches: []*Batch{b}}, ErrInvalid},
		"no partition":   {99, Entry{Index: 1, Time: now}, ErrNotFound},
		"other range":    {other, Entry{Index: 1, Time: now, Batches: []*Batch{b}}, ErrInvalid},
		"foreign batch":  {mine, Entry{Index: 1, Time: now, Batches: []*Batch{foreign}}, ErrInvalid},
		"one key twice":  {mine, Entry{Index: 1, Time: now, Batches: []*Batch{b, b}}, ErrInvalid},
		"nil batch":      {mine, Entry{Index: 1, Time: now, Batches: []*Batch{nil}}, ErrInvalid},
		"bad durability": {mine, Entry{Index: 1, Time: now, Durability: Interval(time.Second)}, ErrInvalid},
	} {
		if _, err := c.ApplyAt(ctx, tc.id, tc.entry); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := plain.ApplyAt(ctx, plain.Partitions()[0].ID, Entry{Index: 1, Time: now}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a container that is not replicated: %v", err)
	}
	if _, err := plain.InstallPartition(ctx, bytes.NewReader(nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("install in a container that is not replicated: %v", err)
	}
	defer func(limit int64) { maxEntryBytes = limit }(maxEntryBytes)
	maxEntryBytes = 80_000
	var large []*Batch
	for i := 0; len(large) < 5; i++ {
		key := StringKey(fmt.Sprint("large", i))
		if epk := key.EPK(); !c.partition(mine).Range.Contains(&epk) {
			continue
		}
		b := c.NewBatch(key)
		must(t, b.Upsert(fmt.Appendf(nil, `{"id":"x","k":%s,"s":%q}`, key, strings.Repeat("x", 19_000)), nil))
		large = append(large, b)
	}
	if _, err := c.ApplyAt(ctx, mine, Entry{Index: 1, Time: now, Batches: large}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large entry: %v", err)
	}
	// What patches make of it is known when they are applied: that is refused
	// in the batch.
	for i, b := range large {
		got, err := c.ApplyAt(ctx, mine, Entry{Index: uint64(i) + 1, Time: now, Batches: []*Batch{b}, Durability: Buffered})
		must(t, err)
		must(t, got.Results[0].Err)
		b.Reset()
		must(t, b.Patch("x", new(Patch).Set("/n", 1), nil))
		must(t, db.Flush(ctx))
	}
	got, err := c.ApplyAt(ctx, mine, Entry{Index: 6, Time: now, Batches: large, Durability: Buffered})
	must(t, err)
	for i, r := range got.Results {
		if i < 4 && r.Err != nil || i == 4 && !errors.Is(r.Err, ErrTooLarge) {
			t.Errorf("patch %d of a large entry: %v", i, r.Err)
		}
	}
	if index, err := c.AppliedIndex(other); index != 0 || err != nil {
		t.Errorf("index %d, %v", index, err)
	}
	if _, err := c.AppliedIndex(99); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestSnapshotOfReplica: a snapshot sees no entry that comes after it, whatever
// its sequences, and is told when an installation takes away what it sees.
func TestSnapshotOfReplica(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()), replicaDef)
	index := map[PartitionID]uint64{}
	put := func(k string, n int) {
		t.Helper()
		key := StringKey(k)
		epk := key.EPK()
		for _, p := range c.routing.Load().parts {
			if !p.Range.Contains(&epk) {
				continue
			}
			b := c.NewBatch(key)
			must(t, b.Upsert(doc("x", k, n), nil))
			index[p.ID]++
			_, err := c.ApplyAt(ctx, p.ID, Entry{Index: index[p.ID], Time: replicaTime, Batches: []*Batch{b}})
			must(t, err)
		}
	}
	const keys = 12
	name := func(i int) string { return fmt.Sprintf("k%d", i) }
	for i := range keys {
		for range i%4 + 1 { // sequences of the partitions differ
			put(name(i), 1)
		}
	}
	snapshot, err := c.Snapshot(ctx)
	must(t, err)
	for i := range keys {
		put(name(i), 2)
	}
	must(t, db.Compact(ctx))
	check := func() {
		t.Helper()
		n := 0
		for it, err := range snapshot.ScanAll(ctx, nil) {
			must(t, err)
			if n++; string(it.Body) != string(doc("x", it.Key.String()[1:len(it.Key.String())-1], 1)) {
				t.Errorf("scan: %s", it.Body)
			}
		}
		r := snapshot.Query(ctx, AllPartitions(), Query{Where: Eq("/n", 1)})
		if list, err := results(r); err != nil || len(list) != keys || n != keys {
			t.Errorf("%d results, %d items, %v", len(list), n, err)
		}
		for i := range keys {
			if it, err := snapshot.Read(ctx, StringKey(name(i)), "x"); err != nil || string(it.Body) != string(doc("x", name(i), 1)) {
				t.Errorf("read: %s, %v", it.Body, err)
			}
		}
	}
	check()
	mid := partmap.Midpoint(c.routing.Load().parts[0].Range)
	job, err := c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: mid.String()})
	must(t, err)
	must(t, job.Wait(ctx))
	check()

	first := c.Partitions()[0]
	var b bytes.Buffer
	_, err = c.ExportPartition(ctx, first.ID, &b)
	must(t, err)
	_, err = c.InstallPartition(ctx, &b)
	must(t, err)
	replaced := 0
	for i := range keys {
		_, err := snapshot.Read(ctx, StringKey(name(i)), "x")
		if errors.Is(err, ErrReplaced) {
			replaced++
		} else {
			must(t, err)
		}
		if it, err := c.Read(ctx, StringKey(name(i)), "x"); err != nil || string(it.Body) != string(doc("x", name(i), 2)) {
			t.Errorf("%s, %v", it.Body, err)
		}
	}
	if replaced == 0 || replaced == keys {
		t.Errorf("%d of %d reads are told", replaced, keys)
	}
	if _, err := results(snapshot.Query(ctx, AllPartitions(), Query{Where: Eq("/n", 1)})); !errors.Is(err, ErrReplaced) {
		t.Errorf("query: %v", err)
	}
	_, err = collectItems(snapshot.ScanAll(ctx, nil))
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("scan: %v", err)
	}
	must(t, snapshot.Close())
	if pinned := db.env.Pins.Live(); len(pinned) > 0 {
		t.Errorf("sequences are pinned: %v", pinned)
	}
}

// TestInstallDamaged: a stream that is damaged anywhere changes nothing.
func TestInstallDamaged(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, replicaOptions(mem, time.Minute), replicaDef)
	for _, step := range replicaScript(1, 12) {
		_, err := step.play(ctx, c, Buffered)
		must(t, err)
	}
	var b bytes.Buffer
	_, err := c.ExportPartition(ctx, c.Partitions()[0].ID, &b)
	must(t, err)
	want := answers(t, c)
	data := b.Bytes()
	for i := 0; i < len(data); i += 1 + len(data)/60 {
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x10
		for _, r := range []io.Reader{bytes.NewReader(flipped), bytes.NewReader(data[:i])} {
			if _, err := c.InstallPartition(ctx, r); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
	bad := errors.New("bad")
	if _, err := c.InstallPartition(ctx, io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(bad))); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	failing := iotest.ErrReader(bad)
	if _, err := c.InstallPartition(ctx, failing); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	if _, err := c.ExportPartition(ctx, c.Partitions()[0].ID, &failingWriter{0, func() error { return bad }}); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	for name, def := range map[string]ContainerDef{
		"key":   {PartitionKey: []string{"/other"}, Replicated: true, DefaultTTL: NoExpiry},
		"ttl":   {PartitionKey: []string{"/k"}, Replicated: true},
		"kind":  {Kind: Opaque, PartitionKey: []string{"/k"}, Replicated: true, DefaultTTL: NoExpiry},
		"range": {PartitionKey: []string{"/k"}, Replicated: true, DefaultTTL: NoExpiry},
	} {
		other, err := db.CreateContainer(ctx, name, def)
		must(t, err)
		if _, err := other.InstallPartition(ctx, bytes.NewReader(data)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := answers(t, c); got != want {
		t.Error("a refused stream has changed something")
	}
	names, err := mem.List("p")
	must(t, err)
	if len(names) != len(c.Partitions())+4 {
		t.Errorf("directories are left: %v", names)
	}
	if pinned := db.env.Pins.Live(); len(pinned) > 0 {
		t.Errorf("sequences are pinned: %v", pinned)
	}
}

// TestSkippedSynced: an entry that was applied buffered, and comes again to be
// synced, is durable when it is skipped.
func TestSkippedSynced(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	_, c := openStore(t, testOptions(mem), replicaDef)
	id := c.Partitions()[0].ID
	for i, d := range []Durability{Buffered, Synced} {
		got, err := c.ApplyAt(ctx, id, Entry{Index: 5, Time: time.Now(), Durability: d})
		if err != nil || got.Skipped != (i == 1) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	after, err := Open(ctx, "store", testOptions(mem.Crash(vfs.CrashOptions{})))
	must(t, err)
	defer after.Close()
	c, err = after.Container("c")
	must(t, err)
	if index, err := c.AppliedIndex(id); err != nil || index != 5 {
		t.Errorf("after a power cut: entry %d, %v", index, err)
	}
}

// TestReplicaSplitDurable: what was applied before a split is in its halves,
// whatever a crash takes.
func TestReplicaSplitDurable(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.keepInheritance = true
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	p := c.Partitions()[0]
	e := Entry{Index: 7, Time: time.UnixMilli(1), Durability: Buffered}
	for i := range 8 { // for both halves
		b := c.NewBatch(StringKey(fmt.Sprint(i)))
		must(t, b.Create(fmt.Appendf(nil, `{"id":"x","k":"%d"}`, i), nil))
		e.Batches = append(e.Batches, b)
	}
	_, err := c.ApplyAt(ctx, p.ID, e)
	must(t, err)
	middle := partmap.Midpoint(partmap.Ranges(1)[0])
	job, err := c.Split(ctx, p.ID, &SplitOptions{At: middle.String()})
	must(t, err)
	must(t, job.Wait(ctx))
	mem = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	db.abandonForTest()
	db, err = Open(ctx, "store", testOptions(mem))
	must(t, err)
	defer db.Close()
	c, err = db.Container("c")
	must(t, err)
	if n := len(c.Partitions()); n != 2 {
		t.Fatalf("%d partitions", n)
	}
	for _, p := range c.Partitions() {
		if index, err := c.AppliedIndex(p.ID); err != nil || index != 7 {
			t.Errorf("partition %d is at entry %d, %v", p.ID, index, err)
		}
	}
	if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != 8 {
		t.Errorf("%d items, %v", len(items), err)
	}
}
