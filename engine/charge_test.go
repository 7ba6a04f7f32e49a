package engine

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCharges compares the charges with the published anchors.
func TestCharges(t *testing.T) {
	for _, c := range []struct {
		bytes                 int
		read, insert, replace float64
	}{
		{0, 1, 5, 10},
		{100, 1, 5, 10},
		{1 << 10, 1, 5, 10},
		{4 << 10, 2, 10, 20},
		{25 << 10, 5, 25, 50},
		{100 << 10, 10, 50, 100},
		{1 << 20, 32, 160, 320},
	} {
		if got := cost.Read(c.bytes); got != c.read {
			t.Errorf("read of %d bytes: %v, not %v", c.bytes, got, c.read)
		}
		if got := cost.Insert(c.bytes); got != c.insert {
			t.Errorf("insert of %d bytes: %v, not %v", c.bytes, got, c.insert)
		}
		if got := cost.Replace(c.bytes); got != c.replace {
			t.Errorf("replace of %d bytes: %v, not %v", c.bytes, got, c.replace)
		}
	}
}

// TestChargeOfCalls looks at what calls return.
func TestChargeOfCalls(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	want := func(what string, charge float64, m Meta, err error) {
		t.Helper()
		if err != nil || m.Charge != charge {
			t.Errorf("%s: charge %v, not %v; %v", what, m.Charge, charge, err)
		}
	}
	m, err := c.Create(ctx, documentOf("a", "k", 100<<10), nil)
	want("create", 50, m, err)
	m, err = c.Replace(ctx, documentOf("a", "k", 4<<10), nil)
	want("replace", 20, m, err)
	m, err = c.Upsert(ctx, documentOf("a", "k", 4<<10), &WriteOptions{IfMatch: m.ETag})
	want("upsert with an etag", 20, m, err)
	m, err = c.Upsert(ctx, documentOf("b", "k", 1<<10), nil)
	want("upsert", 5, m, err)
	it, err := c.Read(ctx, StringKey("k"), "a")
	want("read", 2, it.Meta, err)
	it, err = c.ReadIf(ctx, StringKey("k"), "a", it.ETag)
	if err != ErrNotModified || it.Charge != 2 {
		t.Errorf("read of what is known: charge %v, %v", it.Charge, err)
	}
	scanned := 0.0
	for it, err := range c.Scan(ctx, StringKey("k"), IDRange{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		scanned += it.Charge
	}
	if math.Abs(scanned-(cost.Visit+2+1)) > 1e-9 {
		t.Errorf("scan: charge %v", scanned)
	}
}

// TestChargeOfScan scans a thousand documents of 1 KB in several partitions.
func TestChargeOfScan(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	c, err := db.CreateContainer(ctx, "many", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := c.Upsert(ctx, documentOf(fmt.Sprint(i), fmt.Sprint("k", i%100), 1<<10), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []*ScanOptions{nil, {Reverse: true}, {Borrow: true}} {
		scanned := 0.0
		for it, err := range c.ScanAll(ctx, o) {
			if err != nil {
				t.Fatal(err)
			}
			scanned += it.Charge
		}
		if math.Abs(scanned-(4*cost.Visit+1000)) > 1e-6 {
			t.Errorf("%+v: charge %v", o, scanned)
		}
	}
}

// TestChargeOfDeleted: a scan that passes over more deleted documents than a batch does is charged
// for one visit of the partition, whether it shows any or not.
func TestChargeOfDeleted(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes = 4 << 20
	_, c := openStore(t, opts)
	for i := range 9000 {
		id := fmt.Sprintf("%04d", i)
		upsert(t, c, id, 1)
		must(t, c.Delete(ctx, StringKey("a"), id, nil))
	}
	for items := range 3 {
		for _, all := range []bool{false, true} {
			var charge, sum float64
			o := &ScanOptions{Charge: &charge}
			loop := c.Scan(ctx, StringKey("a"), IDRange{}, o)
			if all {
				loop = c.ScanAll(ctx, o)
			}
			for it, err := range loop {
				must(t, err)
				sum += it.Charge
			}
			if want := cost.Visit + float64(items); math.Abs(charge-want) > 1e-9 || items > 0 && sum != charge {
				t.Errorf("%d items, all %v: charged %v, not %v; the items were charged %v", items, all, charge, want, sum)
			}
		}
		upsert(t, c, fmt.Sprintf("z%d", items), 1)
	}
}
