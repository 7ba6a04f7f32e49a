package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// BenchmarkOpenAfterKill opens copies of a store of which everything is in the log, and more
// than fits into memory. It tells how long the open took, and how long the files that it wrote
// had no index afterwards.
func BenchmarkOpenAfterKill(b *testing.B) {
	const documents = 200_000
	ctx := context.Background()
	for _, policy := range []struct {
		name string
		IndexPolicy
	}{{"plain", IndexPolicy{}}, {"indexed", IndexAll()}} {
		b.Run(policy.name, func(b *testing.B) {
			from, to := filepath.Join(b.TempDir(), "from"), filepath.Join(b.TempDir(), "to")
			all := Options{Durability: Buffered, MemoryBudget: 4 << 30, memtableBytes: 2 << 30, manual: true}
			db, err := Open(ctx, from, &all)
			must(b, err)
			g, err := workload.NewGenerator(workload.Params{Shape: "food", LogicalPartitions: 1000})
			must(b, err)
			c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{g.KeyPath()}, MinPartitions: 4, Index: policy.IndexPolicy})
			must(b, err)
			var doc []byte
			for i := range documents {
				doc = g.Append(doc[:0], int64(i), 0)
				_, err := c.Upsert(ctx, doc, nil)
				must(b, err)
			}
			var opened, indexed time.Duration
			for range b.N {
				b.StopTimer()
				must(b, os.RemoveAll(to))
				must(b, os.CopyFS(to, os.DirFS(from)))
				b.StartTimer()
				start := time.Now()
				rewritten := make(chan struct{}, 1<<16)
				again, err := Open(ctx, to, &Options{Events: &EventListener{Compacted: func(CompactionEvent) { rewritten <- struct{}{} }}})
				must(b, err)
				opened += time.Since(start)
				c, err := again.Container("c")
				must(b, err)
				start = time.Now()
				for {
					if files, _, _ := c.stale(); files == 0 {
						break
					}
					<-rewritten
				}
				indexed += time.Since(start)
				must(b, again.Close())
			}
			b.ReportMetric(float64(opened.Milliseconds())/float64(b.N), "ms-open")
			b.ReportMetric(float64(indexed.Milliseconds())/float64(b.N), "ms-until-indexed")
			must(b, db.Close())
		})
	}
}
