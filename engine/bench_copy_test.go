package engine

import (
	"context"
	"testing"
	"time"
)

// BenchmarkCopyTo copies 100,000 generated documents to another key, then what
// changed of 1,000 of them. Finish is measured apart.
func BenchmarkCopyTo(b *testing.B) {
	ctx := context.Background()
	const docs, changed = 100_000, 1_000
	s := makeBenchStore(b, docs, Buffered, FastCompression)
	s.load(b, 0, docs)
	s.settle(b)
	var finish time.Duration
	b.ResetTimer()
	for range b.N {
		p, err := copied(ctx, s.c, "copy", ContainerDef{PartitionKey: []string{"/id"}})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for i := range changed {
			it, err := s.c.Read(ctx, s.keys[s.of[i]], s.ids[i])
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.c.Upsert(ctx, it.Body, nil); err != nil {
				b.Fatal(err)
			}
		}
		at := time.Now()
		if err := p.CatchUp(ctx); err != nil {
			b.Fatal(err)
		}
		finish += time.Since(at)
		p.Cancel()
		must(b, s.db.DropContainer(ctx, "copy"))
		b.StartTimer()
	}
	b.ReportMetric(docs*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(float64(finish.Microseconds())/float64(b.N)/1000, "ms/pass")
}
