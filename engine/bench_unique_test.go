package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkUnique writes documents of 80 bytes with no, one and two unique keys:
// new ones, and ones whose values stay what they are.
func BenchmarkUnique(b *testing.B) {
	ctx := context.Background()
	keys := [][]string{{"/mail"}, {"/name"}}
	for n := range len(keys) + 1 {
		for _, what := range []string{"create", "replace"} {
			b.Run(fmt.Sprintf("%d/%s", n, what), func(b *testing.B) {
				db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
				must(b, err)
				defer db.Close()
				c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4, UniqueKeys: keys[:n]})
				must(b, err)
				var buf []byte
				document := func(i int) []byte {
					buf = fmt.Appendf(buf[:0], `{"id":"i%d","k":"k%d","mail":"m%d@example.com","name":"name %d","n":%d}`, i, i%1000, i, i, i)
					return buf
				}
				const items = 100_000
				if what == "replace" {
					for i := range items {
						_, err := c.Create(ctx, document(i), nil)
						must(b, err)
					}
				}
				took := make([]time.Duration, 0, 1<<20)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					var doc []byte
					if what == "create" {
						doc = document(i)
					} else {
						doc = document(i * 7919 % items)
					}
					start := time.Now()
					if what == "create" {
						_, err = c.Create(ctx, doc, nil)
					} else {
						_, err = c.Replace(ctx, doc, nil)
					}
					must(b, err)
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			})
		}
	}
}
