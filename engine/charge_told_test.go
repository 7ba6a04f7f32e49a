package engine

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/meter"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestChargesAreTold: every call tells what its partition has been charged, with
// and without unique keys, also if it fails, finds nothing or deletes.
func TestChargesAreTold(t *testing.T) {
	for name, unique := range map[string][][]string{"": nil, "unique keys": {{"/id"}}} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			db, _ := openStore(t, testOptions(vfs.NewMem()))
			c, err := db.CreateContainer(ctx, "told", ContainerDef{PartitionKey: []string{"/k"}, Throughput: 10_000, UniqueKeys: unique, Index: IndexAll()})
			if err != nil {
				t.Fatal(err)
			}
			p := c.routing.Load().parts[0]
			p.meter.Store(meter.New(1e12, false, 0, 0)) // never throttled
			pk, none := StringKey("k"), StringKey("none")
			var told float64
			o := func() *WriteOptions { return &WriteOptions{Charge: &told} }
			meta := func(m Meta, err error) error { told += m.Charge; return err }
			found := func(it Item, err error) error { return meta(it.Meta, err) }
			doc := func(id string) []byte { return documentOf(id, "k", 4<<10) }
			for _, call := range []struct {
				name string
				want float64 // 0: not tested
				err  error
				do   func() error
			}{
				{"create", 10, nil, func() error { return meta(c.Create(ctx, doc("a"), nil)) }},
				{"create, told in the options", 10, nil, func() error { _, err := c.Create(ctx, doc("b"), o()); return err }},
				{"create again", 1, ErrExists, func() error { return meta(c.Create(ctx, doc("a"), nil)) }},
				{"read", 2, nil, func() error { return found(c.Read(ctx, pk, "a")) }},
				{"read of nothing", 1, ErrNotFound, func() error { return found(c.Read(ctx, pk, "x")) }},
				{"typed read of nothing", 1, ErrNotFound, func() error {
					it, err := Typed[map[string]any](c, nil).Read(ctx, pk, "x")
					return meta(it.Meta, err)
				}},
				{"replace of nothing", 1, ErrNotFound, func() error { return meta(c.Replace(ctx, doc("x"), nil)) }},
				{"patch of nothing", 1, ErrNotFound, func() error {
					var p Patch
					p.Set("/n", 1)
					return meta(c.Patch(ctx, pk, "x", &p, nil))
				}},
				{"wrong etag", 1, ErrPrecondition, func() error { return meta(c.Upsert(ctx, doc("a"), &WriteOptions{IfMatch: 12345})) }},
				{"delete of nothing", 1, ErrNotFound, func() error { return c.Delete(ctx, pk, "x", o()) }},
				{"delete", 5, nil, func() error { return c.Delete(ctx, pk, "b", o()) }},
				{"scan", cost.Visit + 2, nil, func() error {
					for _, err := range c.Scan(ctx, pk, IDRange{}, &ScanOptions{Charge: &told}) {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"scan of nothing", cost.Visit, nil, func() error {
					for _, err := range c.Scan(ctx, none, IDRange{}, &ScanOptions{Charge: &told}) {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"count", cost.Visit + 2, nil, func() error {
					n, st, err := c.CountStats(ctx, AllPartitions(), Eq("/k", "k"))
					if told += st.Charge; n != 1 {
						t.Errorf("count: %d", n)
					}
					return err
				}},
				{"update", 2 + 1 + 2 + cost.Visit + 10 + 5, nil, func() error {
					_, err := c.UpdateWith(ctx, pk, &UpdateOptions{Charge: &told}, func(tx *Tx) error {
						if _, err := tx.Read("a"); err != nil {
							return err
						}
						if _, err := tx.Read("x"); err != ErrNotFound {
							return err
						}
						for _, err := range tx.Scan(IDRange{}, nil) {
							if err != nil {
								return err
							}
						}
						return errors.Join(tx.Upsert(doc("c"), nil), tx.Delete("a", nil))
					})
					return err
				}},
				{"changes", cost.Visit + 2, nil, func() error {
					for _, err := range c.Changes(ctx, OnePartition(pk), ChangePosition{}, &ChangeOptions{Charge: &told}) {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"readable", 0, nil, func() error {
					var report RepairReport
					for it, err := range c.ScanReadable(ctx, pk, &report) {
						if told += it.Charge; err != nil {
							return err
						}
					}
					return nil
				}},
				{"explain, usage and keys", 0, nil, func() error {
					_, err := c.Explain(ctx, AllPartitions(), Query{Where: Eq("/k", "k")})
					_, usageErr := c.Usage(ctx, pk, nil)
					for _, keyErr := range c.LogicalPartitions(ctx) {
						err = errors.Join(err, keyErr)
					}
					return errors.Join(err, usageErr)
				}},
				{"load", 10 + 10, nil, func() error {
					docs := func(yield func([]byte, error) bool) { _ = yield(doc("l1"), nil) && yield(doc("l2"), nil) }
					st, err := c.Load(ctx, docs, nil)
					told += st.Charge
					return err
				}},
				{"typed load that fails", 0, ErrInvalid, func() error {
					values := func(yield func(any, error) bool) {
						_ = yield(map[string]string{"id": "l3", "k": "k"}, nil) && yield(map[string]int{"id": 4}, nil)
					}
					st, err := Typed[any](c, nil).Load(ctx, values, nil)
					if told += st.Charge; st.Committed != 1 || st.Charge == 0 {
						t.Errorf("load: %+v", st)
					}
					return err
				}},
				{"update that meets a conflict", 0, ErrConflict, func() error {
					_, err := c.UpdateWith(ctx, pk, &UpdateOptions{Charge: &told, Reruns: 2}, func(tx *Tx) error {
						if _, err := c.Upsert(ctx, doc("c"), o()); err != nil {
							return err
						}
						return tx.Upsert(doc("c"), nil)
					})
					return err
				}},
				{"delete of a logical partition", 5, nil, func() error { return c.DeleteLogicalPartition(ctx, pk, o()) }},
			} {
				if unique != nil && call.name == "delete of a logical partition" {
					continue // it is refused
				}
				before := p.consumed.Load()
				told = 0
				if err := call.do(); !errors.Is(err, call.err) {
					t.Errorf("%s: %v", call.name, err)
				}
				took := float64(p.consumed.Load()-before) / 1000
				if math.Abs(took-told) > 0.002 || call.want > 0 && math.Abs(took-call.want) > 0.002 {
					t.Errorf("%s: told %v, took %v, want %v", call.name, told, took, call.want)
				}
			}
			b := c.NewBatch(pk)
			if err := b.Delete("a", o()); !errors.Is(err, ErrInvalid) {
				t.Errorf("charge of an operation of a batch: %v", err)
			}
		})
	}
}

// TestChargesAreToldOfBodies is TestChargesAreTold for opaque containers.
func TestChargesAreToldOfBodies(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	c, err := db.CreateContainer(ctx, "told", ContainerDef{Kind: Opaque})
	if err != nil {
		t.Fatal(err)
	}
	told := 0.0
	pk := StringKey("k")
	if _, err := c.Put(ctx, pk, "a", make([]byte, 4<<10), &WriteOptions{Charge: &told}); err != nil || told != 10 {
		t.Errorf("put: %v, %v", told, err)
	}
	if err := c.Delete(ctx, pk, "a", &WriteOptions{Charge: &told}); err != nil || told != 15 {
		t.Errorf("remove: %v, %v", told, err)
	}
	if err := c.Delete(ctx, pk, "a", &WriteOptions{Charge: &told}); err != ErrNotFound || told != 16 {
		t.Errorf("remove of nothing: %v, %v", told, err)
	}
	if it, err := c.Read(ctx, pk, "a"); err != ErrNotFound || it.Charge != 1 {
		t.Errorf("get of nothing: %v, %v", it.Charge, err)
	}
}
