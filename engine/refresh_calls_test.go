package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRefreshCalls: after a Refresh each call on the DB and on the Container that the caller
// has answers as on a store that was opened anew.
func TestRefreshCalls(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem), ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), Limits: ContainerLimits{LogicalPartitionBytes: 1 << 20}})
	pk := StringKey("a")
	upsert(t, wc, "1", 20)
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)

	for i := range 40 {
		must(t, second(wc.Upsert(ctx, doc(fmt.Sprintf("%02d", i), fmt.Sprint("k", i%9), i), nil)))
	}
	upsert(t, wc, "2", 30)
	must(t, wc.SetKeyLimits(ctx, pk, KeyLimits{Bytes: 5000}))
	must(t, wc.SetDefaultKeyLimits(ctx, KeyLimits{Bytes: 7000}))
	job, err := wc.Split(ctx, wc.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	must(t, writer.Flush(ctx))
	must(t, db.Refresh(ctx))
	until(func() bool { // the former state is closed
		db.renewal.mu.Lock()
		defer db.renewal.mu.Unlock()
		return len(db.renewal.former) == 0
	})
	fresh := reader(t, mem)
	fc, err := fresh.Container("c")
	must(t, err)

	left := wc.Partitions()[0].ID
	gone := PartitionID(1 << 30)
	said := func(v any, err error) string { return fmt.Sprintf("%+v %v", v, err) }
	whole := Query{}
	anyItem := doc("x", "a", 1)
	onContainer := map[string]func(*Container) string{
		"AppliedIndex": func(c *Container) string { return said(c.AppliedIndex(left)) },
		"AppliedTTL":   func(c *Container) string { return said(c.AppliedTTL(left)) },
		"ApplyAt":      func(c *Container) string { return said(c.ApplyAt(ctx, left, Entry{Index: 1})) },
		"BaseKeys":     func(c *Container) string { return said(c.BaseKeys(pk)) },
		"Borrow":       func(c *Container) string { return said(nil, c.Borrow(ctx, pk, "2", func(Item) error { return nil })) },
		"Changes": func(c *Container) string {
			var b strings.Builder
			for ch, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
				fmt.Fprintf(&b, "%+v %v %s %v\n", ch.Item, ch.Kind, ch.Position(), err)
			}
			return b.String()
		},
		"Commit": func(c *Container) string { return said(c.Commit(ctx, c.NewBatch(pk))) },
		"CopyTo": func(c *Container) string { return said(c.CopyTo(ctx, "d", byK)) },
		"Count":  func(c *Container) string { return said(c.Count(ctx, AllPartitions(), Filter{})) },
		"CountStats": func(c *Container) string {
			n, _, err := c.CountStats(ctx, AllPartitions(), Filter{})
			return said(n, err)
		},
		"Create":       func(c *Container) string { return said(c.Create(ctx, anyItem, nil)) },
		"Def":          func(c *Container) string { return said(c.Def(), nil) },
		"Delete":       func(c *Container) string { return said(nil, c.Delete(ctx, pk, "1", nil)) },
		"DerivedKey":   func(c *Container) string { return said(c.DerivedKey(pk)) },
		"DurableIndex": func(c *Container) string { return said(c.DurableIndex(left)) },
		"Evict":        func(c *Container) string { return said(nil, c.Evict(ctx, left)) },
		"Explain":      func(c *Container) string { return said(c.Explain(ctx, AllPartitions(), whole)) },
		"History":      func(c *Container) string { return said(c.History(), nil) },
		"Hot":          func(c *Container) string { return fmt.Sprint(len(c.Hot(0))) }, // what it names is sampled
		"KeyOf":        func(c *Container) string { return said(c.KeyOf(anyItem)) },
		"LimitedKeys":  func(c *Container) string { return fmt.Sprint(iterated(c.LimitedKeys())) },
		"Load":         func(c *Container) string { return said(c.Load(ctx, func(func([]byte, error) bool) {}, nil)) },
		"Merge":        func(c *Container) string { return said(c.Merge(ctx, left, gone)) },
		"MoveBoundary": func(c *Container) string { return said(c.MoveBoundary(ctx, left, gone, "40")) },
		"Name":         func(c *Container) string { return c.Name() },
		"NewBatch":     func(c *Container) string { return fmt.Sprint(c.NewBatch(pk).Upsert(anyItem, nil)) },
		"Partitions": func(c *Container) string {
			list := c.Partitions()
			for i := range list {
				list[i].Load = 0
			}
			return said(list, nil)
		},
		"Patch":           func(c *Container) string { return said(c.Patch(ctx, pk, "1", new(Patch), nil)) },
		"PreviewSplit":    func(c *Container) string { return said(c.PreviewSplit(ctx, left, nil)) },
		"Put":             func(c *Container) string { return said(c.Put(ctx, pk, "1", nil, nil)) },
		"Query":           func(c *Container) string { return all(c.Query(ctx, AllPartitions(), whole).All()) },
		"Read":            func(c *Container) string { return said(c.Read(ctx, pk, "2")) },
		"ReadIf":          func(c *Container) string { return said(c.ReadIf(ctx, pk, "2", 0)) },
		"ReadInto":        func(c *Container) string { return said(c.ReadInto(ctx, pk, "2", nil)) },
		"ReadMany":        func(c *Container) string { return all(c.ReadMany(ctx, []ItemIdentity{{pk, "2"}, {pk, "3"}})) },
		"Redistribute":    func(c *Container) string { return said(nil, c.Redistribute(ctx, nil)) },
		"RegisterTrigger": func(c *Container) string { return said(nil, c.RegisterTrigger("", Trigger{})) },
		"Replace":         func(c *Container) string { return said(c.Replace(ctx, anyItem, nil)) },
		"Scan":            func(c *Container) string { return all(c.Scan(ctx, pk, IDRange{}, nil)) },
		"ScanAll":         func(c *Container) string { return all(c.ScanAll(ctx, nil)) },
		"ScanReadable":    func(c *Container) string { return all(c.ScanReadable(ctx, pk, new(RepairReport))) },
		"SetIndexPolicy":  func(c *Container) string { return said(c.SetIndexPolicy(ctx, IndexPolicy{})) },
		"SetKeyLimits":    func(c *Container) string { return said(nil, c.SetKeyLimits(ctx, pk, KeyLimits{})) },
		"SetDefaultTTL":   func(c *Container) string { return said(nil, c.SetDefaultTTL(ctx, time.Hour)) },
		"SetThroughput":   func(c *Container) string { return said(nil, c.SetThroughput(ctx, 500)) },
		"Split":           func(c *Container) string { return said(c.Split(ctx, left, nil)) },
		"Update":          func(c *Container) string { return said(nil, c.Update(ctx, pk, func(*Tx) error { return nil })) },
		"UpdateWith":      func(c *Container) string { return said(c.UpdateWith(ctx, pk, nil, func(*Tx) error { return nil })) },
		"Upsert":          func(c *Container) string { return said(c.Upsert(ctx, anyItem, nil)) },
		"Usage":           func(c *Container) string { return said(c.Usage(ctx, pk, &UsageOptions{Exact: true})) },
		"DeleteLogicalPartition": func(c *Container) string {
			return said(nil, c.DeleteLogicalPartition(ctx, pk, nil))
		},
		"ExportPartition": func(c *Container) string {
			content, err := c.ExportPartition(ctx, left, io.Discard)
			content.Bytes = 0
			return said(content, err)
		},
		"InstallPartition": func(c *Container) string {
			return said(c.InstallPartition(ctx, strings.NewReader("")))
		},
		"DigestPartition": func(c *Container) string {
			index, sum, err := c.DigestPartition(ctx, left)
			return said(fmt.Sprintf("%d %x", index, sum), err)
		},
		"FlushPartition": func(c *Container) string { return said(c.FlushPartition(ctx, left)) },
		"ReplacePartition": func(c *Container) string {
			return said(c.ReplacePartition(ctx, left, strings.NewReader("")))
		},
		"LogicalPartitions": func(c *Container) string { return logical(c.LogicalPartitions(ctx)) },
		"LogicalPartitionsFrom": func(c *Container) string {
			return logical(c.LogicalPartitionsFrom(ctx, "20"))
		},
		"SetDefaultKeyLimits": func(c *Container) string {
			return said(nil, c.SetDefaultKeyLimits(ctx, KeyLimits{}))
		},
		"Snapshot": func(c *Container) string {
			s, err := c.Snapshot(ctx)
			if err != nil {
				return err.Error()
			}
			defer s.Close()
			return said(s.Count(ctx, AllPartitions(), Filter{}))
		},
		"View": func(c *Container) string {
			return said(nil, c.View(ctx, pk, func(tx *Tx) error { return second(tx.Read("2")) }))
		},
	}
	onDB := map[string]func(*DB) string{
		"Checkpoint":    func(db *DB) string { return said(db.Checkpoint(ctx, "there")) },
		"Closed":        func(db *DB) string { return fmt.Sprint(db.Closed()) },
		"Compact":       func(db *DB) string { return said(nil, db.Compact(ctx)) },
		"Containers":    func(db *DB) string { return fmt.Sprint(slices.Collect(db.Containers())) },
		"Dir":           func(db *DB) string { return db.Dir() },
		"DropContainer": func(db *DB) string { return said(nil, db.DropContainer(ctx, "c")) },
		"Flush":         func(db *DB) string { return said(nil, db.Flush(ctx)) },
		"Jobs":          func(db *DB) string { return said(db.Jobs(), nil) },
		"Metrics":       func(db *DB) string { return fmt.Sprint(len(db.Metrics().Metrics)) },
		"ReadOnly":      func(db *DB) string { return fmt.Sprint(db.ReadOnly()) },
		"Stats":         func(db *DB) string { s := db.Stats(); return said(s.Containers[0].ContainerInfo, s.Failed) },
		"Verify":        func(db *DB) string { return all(db.Verify(ctx)) },
		"Backup": func(db *DB) string {
			var b bytes.Buffer
			info, err := db.Backup(ctx, &b, nil)
			return said(info.Seq, err)
		},
		"Container": func(db *DB) string { return said(nil, second(db.Container("c"))) },
		"CreateContainer": func(db *DB) string {
			return said(db.CreateContainer(ctx, "d", byK))
		},
		"EnsureContainer": func(db *DB) string {
			return said(nil, second(db.EnsureContainer(ctx, "d", byK)))
		},
	}
	for name, call := range onContainer {
		if got, want := call(c), call(fc); got != want {
			t.Errorf("Container.%s: %.600s\nof a store that was opened anew: %.600s", name, got, want)
		}
	}
	for name, call := range onDB {
		if got, want := call(db), call(fresh); got != want {
			t.Errorf("DB.%s: %.600s\nof a store that was opened anew: %.600s", name, got, want)
		}
	}
	for of := range reflect.TypeFor[*Container]().Methods() {
		if onContainer[of.Name] == nil {
			t.Errorf("Container.%s is not tried", of.Name)
		}
	}
	for of := range reflect.TypeFor[*DB]().Methods() {
		if onDB[of.Name] == nil && !slices.Contains([]string{"Close", "Refresh", "Shutdown"}, of.Name) {
			t.Errorf("DB.%s is not tried", of.Name)
		}
	}
}

// all describes what a loop shows.
func all[T any](loop iter.Seq2[T, error]) string {
	var b strings.Builder
	for v, err := range loop {
		fmt.Fprintf(&b, "%+v %v\n", v, err)
	}
	return b.String()
}

// iterated returns the pairs of a loop.
func iterated[K, V any](loop iter.Seq2[K, V]) (pairs []any) {
	for k, v := range loop {
		pairs = append(pairs, k, v)
	}
	return pairs
}

func logical(loop iter.Seq2[LogicalPartition, error]) string {
	var b strings.Builder
	for l, err := range loop {
		l.found = nil
		fmt.Fprintf(&b, "%+v %v\n", l, err)
	}
	return b.String()
}
