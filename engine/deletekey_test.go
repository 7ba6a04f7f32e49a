package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestDeleteLogicalPartition: what each kind of read sees after the delete,
// wherever items and tombstone lie.
func TestDeleteLogicalPartition(t *testing.T) {
	ctx := context.Background()
	a, b := StringKey("a"), StringKey("b")
	for _, where := range []string{"memory", "frozen", "files", "merged", "merged at once", "settled", "split", "reopened"} {
		t.Run(where, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := testOptions(mem)
			db, err := Open(ctx, "db", opts)
			must(t, err)
			defer func() { db.Close() }()
			c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
			must(t, err)
			for i := range 6 {
				_, err := c.Upsert(ctx, doc(fmt.Sprint("i", i), "a", i), nil)
				must(t, err)
				_, err = c.Upsert(ctx, doc(fmt.Sprint("i", i), "b", i), nil)
				must(t, err)
				if i == 2 && where != "memory" && where != "merged at once" {
					must(t, db.Flush(ctx))
				}
			}
			before, err := c.Snapshot(ctx)
			must(t, err)
			defer before.Close()
			must(t, c.DeleteLogicalPartition(ctx, a, nil))
			deleted, err := c.Snapshot(ctx)
			must(t, err)
			defer deleted.Close()
			_, err = c.Create(ctx, doc("i1", "a", 11), nil)
			must(t, err)
			_, err = c.Create(ctx, doc("n", "a", 12), nil)
			must(t, err)
			switch where {
			case "frozen":
				p := db.partitions()[0]
				p.Freeze()
			case "files", "merged at once":
				must(t, db.Flush(ctx))
			case "merged":
				must(t, db.Flush(ctx))
				p := db.partitions()[0]
				_, err := p.CompactRuns(ctx, p.PickDead(ctx))
				must(t, err)
			case "settled":
				must(t, db.Compact(ctx))
			case "split":
				_, err := c.Upsert(ctx, doc("x", "other", 1), nil)
				must(t, err)
				job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
				must(t, err)
				must(t, job.Wait(ctx))
			case "reopened":
				before.Close()
				deleted.Close()
				must(t, db.Close())
				db, err = Open(ctx, "db", opts)
				must(t, err)
				c, err = db.Container("c")
				must(t, err)
			}
			see := func(what string, got []string, want ...string) {
				t.Helper()
				if !slices.Equal(got, want) {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			ids := func(scan scanFunc, r IDRange, o *ScanOptions) (ids []string) {
				t.Helper()
				for it, err := range scan(ctx, a, r, o) {
					must(t, err)
					ids = append(ids, it.ID)
				}
				return ids
			}
			see("scan", ids(c.Scan, IDRange{}, nil), "i1", "n")
			see("scan from the middle", ids(c.Scan, IDRange{From: "i2"}, nil), "n")
			see("reverse", ids(c.Scan, IDRange{}, &ScanOptions{Reverse: true}), "n", "i1")
			see("reverse from the middle", ids(c.Scan, IDRange{To: "i4"}, &ScanOptions{Reverse: true}), "i1")
			if where != "reopened" {
				all := []string{"i0", "i1", "i2", "i3", "i4", "i5"}
				see("before", ids(before.Scan, IDRange{}, nil), all...)
				see("before, from the middle", ids(before.Scan, IDRange{From: "i4"}, nil), "i4", "i5")
				see("deleted", ids(deleted.Scan, IDRange{}, nil))
				see("deleted, reverse", ids(deleted.Scan, IDRange{}, &ScanOptions{Reverse: true}))
				if it, err := before.Read(ctx, a, "i0"); err != nil || string(it.Body) != string(doc("i0", "a", 0)) {
					t.Errorf("before: %s, %v", it.Body, err)
				}
				if _, err := deleted.Read(ctx, a, "i1"); !errors.Is(err, ErrNotFound) {
					t.Errorf("deleted: %v", err)
				}
			}
			if _, err := c.Read(ctx, a, "i0"); !errors.Is(err, ErrNotFound) {
				t.Errorf("read: %v", err)
			}
			if it, err := c.Read(ctx, a, "i1"); err != nil || string(it.Body) != string(doc("i1", "a", 11)) {
				t.Errorf("read: %s, %v", it.Body, err)
			}
			n := 0
			for _, err := range c.ScanAll(ctx, nil) {
				must(t, err)
				n++
			}
			if want := 8; n != want && n != want+1 {
				t.Errorf("%d items in all", n)
			}
			for _, q := range []struct {
				scope Scope
				where Filter
				want  int64
			}{{OnePartition(a), Filter{}, 2}, {OnePartition(b), Filter{}, 6}, {AllPartitions(), Filter{}, int64(n)}, {AllPartitions(), Eq("/n", 3), 1}, {AllPartitions(), Range("/n", Excl(10), Unbounded()), 2}} {
				got, err := c.Count(ctx, q.scope, q.where)
				must(t, err)
				if got != q.want {
					t.Errorf("count of %v in %v: %d, want %d", q.where, q.scope, got, q.want)
				}
			}
			if err := c.Delete(ctx, a, "i3", nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("delete: %v", err)
			}
			if _, err := c.Create(ctx, doc("i2", "a", 2), nil); err != nil {
				t.Errorf("create: %v", err)
			}
			must(t, err)
			checkVerified(t, db)
		})
	}
}
