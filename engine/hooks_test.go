package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestFlushPartition: a flush of one partition makes its entries durable, those without items
// too, and leaves other partitions alone. A power cut at any call never takes back an entry
// that DurableIndex has named.
func TestFlushPartition(t *testing.T) {
	ctx := t.Context()
	def := evictDef
	def.MinPartitions = 2
	apply := func(c *Container, p PartitionID, index uint64, empty bool) error {
		e := Entry{Index: index, Time: replicaTime, Durability: Buffered}
		for i := 0; !empty && len(e.Batches) == 0; i++ {
			key := StringKey(fmt.Sprint("k", i))
			if epk := key.EPK(); c.partition(p).Range.Contains(&epk) {
				b := c.NewBatch(key)
				if err := b.Upsert(doc("x", fmt.Sprint("k", i), int(index)), nil); err != nil {
					return err
				}
				e.Batches = []*Batch{b}
			}
		}
		return second(c.ApplyAt(ctx, p, e))
	}
	durable := make(map[int]uint64)
	story := func(c *Container, at map[int]uint64) error {
		parts := c.Partitions()
		for i := uint64(1); i <= 24; i++ {
			for n, p := range parts {
				if err := apply(c, p.ID, i, i%3 == 0 || i > 20); err != nil {
					return err
				}
				if i%5 == uint64(n) {
					got, err := c.FlushPartition(ctx, p.ID)
					if err != nil {
						return err
					}
					if at[n] = got; got < i {
						return fmt.Errorf("flush of entry %d: %d is durable", i, got)
					}
				}
				got, err := c.DurableIndex(p.ID)
				if err != nil || got < at[n] || got > i {
					return fmt.Errorf("at entry %d: durable %d, was %d: %w", i, got, at[n], err)
				}
				at[n] = got
			}
		}
		return nil
	}
	open := func(fsys vfs.FS) (*DB, *Container, error) {
		db, err := Open(ctx, "store", replicaOptions(fsys, 0))
		if err != nil {
			return nil, nil, err
		}
		c, err := db.EnsureContainer(ctx, "docs", def)
		return db, c, err
	}
	db, c, err := open(vfs.NewMem())
	must(t, err)
	for _, p := range c.Partitions() {
		must(t, apply(c, p.ID, 1, false))
	}
	must(t, second(c.FlushPartition(ctx, c.Partitions()[0].ID)))
	if p := c.Partitions(); p[0].Files != 1 || p[0].MemtableBytes != 0 || p[1].Files != 0 || p[1].MemtableBytes == 0 {
		t.Errorf("flushed: %+v, the other one: %+v", p[0], p[1])
	}
	must(t, db.Close())
	stops := 0
	for n := int64(1); ; n += 3 {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		var stopped *vfs.Mem
		clear(durable)
		at := make(map[int]uint64)
		faulty.StopAt(n, func() {
			stopped = mem.Clone()
			for p, index := range durable {
				at[p] = index
			}
		})
		db, c, err := open(faulty)
		if err == nil {
			err = story(c, durable)
		}
		if stopped == nil {
			must(t, err)
			break
		}
		if db != nil {
			db.abandonForTest()
		}
		stops++
		db, c, err = open(stopped.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		must(t, err)
		for i, p := range c.Partitions() {
			index, err := c.AppliedIndex(p.ID)
			must(t, err)
			if d, err := c.DurableIndex(p.ID); err != nil || index < at[i] || d != index {
				t.Errorf("call %d: partition %d is at entry %d, %d was durable; durable now %d, %v", n, i, index, at[i], d, err)
			}
		}
		db.abandonForTest()
	}
	if stops < 20 {
		t.Errorf("%d stops: the test does too little", stops)
	}
}

// TestTimeOfReads: whether an item has expired depends on the entries of its partition, not on
// the clock: two replicas with different clocks show the same, and what was hidden stays so.
func TestTimeOfReads(t *testing.T) {
	ctx := t.Context()
	def := evictDef
	def.MinPartitions = 2
	for _, ahead := range []time.Duration{0, time.Minute, 100 * time.Hour} {
		_, c := openStore(t, replicaOptions(vfs.NewMem(), ahead), def)
		key := StringKey("k1")
		epk := key.EPK()
		p := c.Partitions()[c.routing.Load().table.Find(&epk)].ID
		other := c.Partitions()[1-c.routing.Load().table.Find(&epk)].ID
		b := c.NewBatch(key)
		must(t, b.Upsert(doc("x", "k1", 1), &WriteOptions{TTL: 10 * time.Second}))
		must(t, second(c.ApplyAt(ctx, p, Entry{Index: 1, Time: replicaTime, Batches: []*Batch{b}})))
		shown := func(want bool) {
			t.Helper()
			answers := map[string]bool{"read": second(c.Read(ctx, key, "x")) == nil}
			for name, items := range map[string]func(func(Item, error) bool){
				"scan": c.Scan(ctx, key, IDRange{}, nil), "scan all": c.ScanAll(ctx, nil),
				"query": c.Query(ctx, AllPartitions(), Query{Where: Eq("/n", 1)}).All(),
				"order": c.Query(ctx, AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/n"}}}).All(),
			} {
				answers[name] = false
				for _, err := range items {
					must(t, err)
					answers[name] = true
				}
			}
			n, err := c.Count(ctx, AllPartitions(), Eq("/n", 1))
			must(t, err)
			answers["count"] = n == 1
			must(t, c.View(ctx, key, func(tx *Tx) error { answers["view"] = second(tx.Read("x")) == nil; return nil }))
			answers["feed"] = false
			for _, err := range c.Changes(ctx, AllPartitions(), ChangePosition{}, nil) {
				must(t, err)
				answers["feed"] = true
			}
			for name, got := range answers {
				if got != want {
					t.Errorf("clock ahead by %v, %s: shown %v", ahead, name, got)
				}
			}
		}
		shown(true)
		// The other partition has a later time of its own.
		must(t, second(c.ApplyAt(ctx, other, Entry{Index: 7, Time: replicaTime.Add(time.Minute)})))
		shown(true)
		must(t, second(c.ApplyAt(ctx, p, Entry{Index: 2, Time: replicaTime.Add(10*time.Second - time.Millisecond)})))
		shown(true)
		must(t, second(c.ApplyAt(ctx, p, Entry{Index: 3, Time: replicaTime.Add(10 * time.Second)})))
		shown(false)
		must(t, second(c.ApplyAt(ctx, p, Entry{Index: 4, Time: replicaTime})))
		shown(false)
	}
}

// TestDigestOfExpired: a replica that has dropped an item that has expired has the digest of
// one that has not.
func TestDigestOfExpired(t *testing.T) {
	ctx := t.Context()
	sums := make(map[bool][32]byte)
	for _, compacted := range []bool{false, true} {
		o := replicaOptions(vfs.NewMem(), 100*time.Hour)
		o.elapsed = func() time.Duration { return 100 * time.Hour }
		db, c := openStore(t, o, evictDef)
		p := c.Partitions()[0].ID
		must(t, applyItem(c, 1, "k1", &WriteOptions{TTL: time.Second}))
		must(t, applyItem(c, 2, "k2", nil))
		must(t, second(c.ApplyAt(ctx, p, Entry{Index: 3, Time: replicaTime.Add(24 * time.Hour)})))
		if compacted {
			must(t, db.Compact(ctx))
			if n := c.Partitions()[0].Items; n != 1 {
				t.Fatalf("%d items are left", n)
			}
		}
		_, sum, err := c.DigestPartition(ctx, p)
		must(t, err)
		sums[compacted] = sum
	}
	if sums[false] != sums[true] {
		t.Errorf("digests %x and %x", sums[false], sums[true])
	}
}

// TestCheck: conditions of batches, on versions in memory and in files, on items that are
// missing, deleted or expired, and before writes of the same item.
func TestCheck(t *testing.T) {
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.clock = func() time.Time { return now }
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	key := StringKey("a")
	put := func(id string, o *WriteOptions) ETag {
		m, err := c.Upsert(ctx, doc(id, "a", 1), o)
		must(t, err)
		return m.ETag
	}
	x := put("x", nil)
	gone := put("gone", nil)
	must(t, c.Delete(ctx, key, "gone", nil))
	expired := put("expired", &WriteOptions{TTL: time.Second})
	now = now.Add(time.Minute)
	for _, flushed := range []bool{false, true} {
		for name, tc := range map[string]struct {
			id   string
			etag ETag
			want error
		}{
			"present": {"x", x, nil}, "other etag": {"x", x + 1, ErrPrecondition}, "not absent": {"x", 0, ErrPrecondition},
			"absent": {"none", 0, nil}, "missing": {"none", x, ErrPrecondition},
			"deleted": {"gone", gone, ErrPrecondition}, "deleted, absent": {"gone", 0, nil},
			"expired": {"expired", expired, ErrPrecondition}, "expired, absent": {"expired", 0, nil},
		} {
			for _, alone := range []bool{true, false} {
				b := c.NewBatch(key)
				if !alone {
					must(t, b.Upsert(doc("w-"+name, "a", 1), nil))
				}
				must(t, b.Check(tc.id, tc.etag))
				metas, err := c.Commit(ctx, b)
				if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
					t.Errorf("flushed %v, %s, alone %v: %v", flushed, name, alone, err)
				}
				if failed, ok := errors.AsType[*BatchError](err); err != nil && (!ok || failed.Index != 0 || failed.Op != "check") {
					t.Errorf("flushed %v, %s: %v", flushed, name, err)
				}
				_, read := c.Read(ctx, key, "w-"+name)
				if written := read == nil; !alone && written != (tc.want == nil) || err == nil && len(metas) != map[bool]int{true: 0, false: 1}[alone] {
					t.Errorf("flushed %v, %s, alone %v: written %v, %d metas", flushed, name, alone, written, len(metas))
				}
				if !alone && read == nil {
					must(t, c.Delete(ctx, key, "w-"+name, nil))
				}
			}
		}
		must(t, db.Flush(ctx))
	}
	// A condition holds before the operations, wherever it was added.
	b := c.NewBatch(key)
	must(t, b.Upsert(doc("x", "a", 2), nil))
	must(t, b.Check("x", x))
	metas, err := c.Commit(ctx, b)
	must(t, err)
	if _, err := c.Commit(ctx, b); !errors.Is(err, ErrPrecondition) {
		t.Errorf("again: %v", err)
	}
	if it, err := c.Read(ctx, key, "x"); err != nil || it.ETag != metas[0].ETag {
		t.Errorf("%v, %v", it.ETag, err)
	}
	if b.Reset(); b.Len() != 0 || b.Size() != 0 {
		t.Errorf("after Reset: %d operations, %d bytes", b.Len(), b.Size())
	}
	if err := b.Check("", x); !errors.Is(err, ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
	for i := 0; ; i++ {
		if err := b.Check(fmt.Sprint(i), x); err != nil {
			if !errors.Is(err, ErrTooLarge) || i != c.Def().Limits.BatchOperations {
				t.Errorf("%d conditions: %v", i, err)
			}
			break
		}
	}
}

// TestCheckInEntry: a condition in an entry is judged in every replica alike, and a batch of
// conditions only writes nothing.
func TestCheckInEntry(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, replicaOptions(vfs.NewMem(), time.Minute), evictDef)
	p := c.Partitions()[0].ID
	must(t, applyItem(c, 1, "k1", nil))
	it, err := c.Read(ctx, StringKey("k1"), "i1")
	must(t, err)
	check := func(index uint64, etag ETag, want error) {
		t.Helper()
		only, writes := c.NewBatch(StringKey("k2")), c.NewBatch(StringKey("k1"))
		must(t, only.Check("none", 0))
		must(t, writes.Check("i1", etag))
		must(t, writes.Upsert(doc("i1", "k1", 5), nil))
		out, err := c.ApplyAt(ctx, p, Entry{Index: index, Time: replicaTime.Add(time.Second), Batches: []*Batch{only, writes}})
		must(t, err)
		if out.Results[0].Err != nil || !errors.Is(out.Results[1].Err, want) || want == nil && out.Results[1].Err != nil {
			t.Errorf("%+v", out.Results)
		}
	}
	check(2, it.ETag+9, ErrPrecondition)
	check(3, it.ETag, nil)
	check(4, it.ETag, ErrPrecondition)
	if index, err := c.AppliedIndex(p); err != nil || index != 4 {
		t.Errorf("entry %d, %v", index, err)
	}
}
