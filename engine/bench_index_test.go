package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/workload"
)

// BenchmarkLoadIndexed loads generated food documents and settles, without an
// index and with one of everything.
func BenchmarkLoadIndexed(b *testing.B) {
	const n = 150_000
	g, err := workload.NewGenerator(workload.Params{Shape: "food", LogicalPartitions: 1000})
	if err != nil {
		b.Fatal(err)
	}
	for name, policy := range map[string]IndexPolicy{"none": {}, "all": IndexAll()} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			for b.Loop() {
				db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
				if err != nil {
					b.Fatal(err)
				}
				c, err := db.CreateContainer(ctx, "food", ContainerDef{PartitionKey: []string{g.KeyPath()}, MinPartitions: 4, Index: policy})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Load(ctx, g.All(0, n), nil); err != nil {
					b.Fatal(err)
				}
				if err := db.Compact(ctx); err != nil {
					b.Fatal(err)
				}
				var raw, bytes int64
				for _, p := range c.Partitions() {
					raw, bytes = raw+p.RawBytes, bytes+p.FileBytes
				}
				b.ReportMetric(float64(bytes)/float64(raw), "file/raw")
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "docs/s")
		})
	}
}

// BenchmarkIndexMemtable measures what a query adds to the index of a memtable of
// 20,000 documents after one more write.
func BenchmarkIndexMemtable(b *testing.B) {
	ctx := context.Background()
	db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "docs", ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	if err != nil {
		b.Fatal(err)
	}
	put := func(i int) {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","n":%d,"tags":["x","y"],"text":"some words"}`, i, i%100), nil); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 20_000 {
		put(i)
	}
	p := c.routing.Load().parts[0]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		put(i)
		guard := db.env.Epoch.Enter()
		if err := new(lsm.Sources).Open(p.Data(), p.Version.Load(), p.Visible.Load(), lifetime.Past{}, c.family.Indexing.Load(), true, nil, nil); err != nil {
			b.Fatal(err)
		}
		guard.Leave()
	}
}
