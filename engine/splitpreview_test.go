package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// TestPreviewSplit compares what PreviewSplit says with what Split then does, before and
// after a flush, and with a boundary that is given. History then has the split.
func TestPreviewSplit(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	ctx := t.Context()
	for i := range 400 {
		must(t, second(c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i%50), 200), nil)))
	}
	id := c.Partitions()[0].ID
	inMemory, err := c.PreviewSplit(ctx, id, nil)
	must(t, err)
	must(t, db.Flush(ctx))
	best, err := c.PreviewSplit(ctx, id, nil)
	must(t, err)
	if best.LeftBytes+best.RightBytes != inMemory.LeftBytes+inMemory.RightBytes || min(best.LeftBytes, best.RightBytes) < 400*200/3 {
		t.Errorf("%+v in files, %+v in memory", best, inMemory)
	}
	given, err := c.PreviewSplit(ctx, id, &SplitOptions{At: "10"})
	if err != nil || !strings.HasPrefix(given.At, "1000") || given.LeftBytes+given.RightBytes != best.LeftBytes+best.RightBytes || given.LeftBytes >= best.LeftBytes {
		t.Errorf("at 10: %+v, %v; the best is %+v", given, err, best)
	}
	for at, want := range map[string]error{"zz": ErrInvalid, "40": ErrRefused, "FF": ErrInvalid} {
		if _, err := c.PreviewSplit(ctx, id, &SplitOptions{At: at}); !errors.Is(err, want) {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if _, err := c.PreviewSplit(ctx, 99, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such partition: %v", err)
	}
	if len(c.History()) != 0 || len(db.Jobs()) != 0 {
		t.Errorf("history %v, jobs %v", c.History(), db.Jobs())
	}
	job, err := c.Split(ctx, id, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	if p := job.Progress(); p.At != best.At || p.LeftBytes != best.LeftBytes || p.RightBytes != best.RightBytes {
		t.Errorf("the split made %+v of what the preview said: %+v", p, best)
	}
	h := c.History()
	if len(h) != 1 || h[0].Kind != "split" || len(h[0].Parents) != 1 || h[0].Parents[0] != (PartitionRange{id, "", "FF"}) {
		t.Fatalf("history %+v", h)
	}
	if now := c.Partitions(); h[0].Children[0] != (PartitionRange{now[0].ID, "", best.At}) || h[0].Children[1] != (PartitionRange{now[1].ID, best.At, "FF"}) {
		t.Errorf("history %+v, partitions %+v", h, now)
	}
	if db.ReadOnly() || db.Closed() {
		t.Error("open and writable")
	}
}

// TestPreviewSplitRefused: what Split refuses, and a partition that cannot be read, have no preview.
func TestPreviewSplitRefused(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	ctx, rt := t.Context(), c.routing.Load()
	p := rt.parts[0]
	p.Lost = errInjected
	if _, err := c.PreviewSplit(ctx, p.ID, nil); !errors.Is(err, errInjected) {
		t.Errorf("of a partition that is set aside: %v", err)
	}
	p.Lost = nil
	var entries []partmap.Entry
	for i, r := range partmap.Ranges(maxPartitions) {
		entries = append(entries, partmap.Entry{ID: PartitionID(i + 1), Range: r})
	}
	table, err := partmap.NewTable(entries)
	must(t, err)
	c.routing.Store(&routing{table: table, parts: rt.parts})
	defer c.routing.Store(rt)
	_, err = c.PreviewSplit(ctx, p.ID, nil)
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != RefusedTooMany {
		t.Errorf("of a container with the most partitions: %v", err)
	}
}

// TestStoreStateStays: what the store manifest said is not changed by what it says later.
func TestStoreStateStays(t *testing.T) {
	def := ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 100} // small edits of a large manifest are made in place
	s := newSplitStore(t, def, func(o *Options) { o.Durability = Buffered })
	for i := range 40 {
		s.put(i, "x", "")
	}
	s.split(0, &SplitOptions{At: "0010"})
	state := s.db.storeState()
	said := func() string { return fmt.Sprintf("%+v", state) + fmt.Sprintf("%+v", state.Lineage(s.c.id)) }
	before := said()
	s.split(0, &SplitOptions{At: "0008"})
	must(t, s.c.SetThroughput(t.Context(), 5000))
	if after := said(); after != before {
		t.Errorf("%d bytes that differ from the %d before", len(after), len(before))
	}
}

// TestLogicalPartitionsFrom begins a list at each of its places.
func TestLogicalPartitionsFrom(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	ctx := t.Context()
	for i := range 60 {
		must(t, second(c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil)))
		if i == 20 || i == 40 {
			must(t, db.Flush(ctx))
		}
	}
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	list := func(from string) (keys []PartitionKey) {
		for l, err := range c.LogicalPartitionsFrom(ctx, from) {
			must(t, err)
			key, err := l.Key()
			must(t, err)
			keys = append(keys, key)
		}
		return keys
	}
	all := list("")
	if len(all) != 60 {
		t.Fatalf("%d logical partitions", len(all))
	}
	for i, key := range all {
		if got := list(key.EPK().String()); len(got) != 60-i || got[0] != key {
			t.Errorf("from %v: %d of %d", key, len(got), 60-i)
		}
	}
	for _, err := range c.LogicalPartitionsFrom(ctx, "0") {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("half a byte: %v", err)
		}
	}
}
