package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkScan scans parts of logical partitions of about 1,000 documents of
// 0.8 to 2 KB, from a document at random on. ns/doc is the time of a scan over
// its documents; a limit of 1000 is a whole logical partition.
func BenchmarkScan(b *testing.B) {
	for _, source := range []struct {
		name string
		docs int64
		runs int // 0: all stay in the memtables
	}{{"run=1", 100_000, 1}, {"run=4", 100_000, 4}, {"memtable", 10_000, 0}} {
		for _, compression := range []Compression{FastCompression, NoCompression} {
			if source.runs == 0 && compression == NoCompression {
				continue // the same
			}
			b.Run(fmt.Sprintf("%s/%v", source.name, compression), func(b *testing.B) {
				s := newBenchStoreOf(b, source.docs, source.runs, compression)
				for _, reverse := range []bool{false, true} {
					for _, limit := range []int{10, 100, 1000} {
						direction := "forward"
						if reverse {
							direction = "backward"
						}
						b.Run(fmt.Sprintf("%s/%d", direction, limit), func(b *testing.B) { s.scan(b, limit, reverse) })
					}
				}
			})
		}
	}
}

func (s *benchStore) scan(b *testing.B, limit int, reverse bool) {
	ctx := context.Background()
	rng := rand.NewPCG(1, 1)
	o := ScanOptions{Limit: limit, Reverse: reverse, Borrow: true}
	docs, sum := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		i := rng.Uint64() % uint64(s.n)
		ids := IDRange{From: s.ids[i]}
		switch {
		case limit == 1000:
			ids = IDRange{}
		case reverse:
			ids = IDRange{To: s.ids[i]}
		}
		for it, err := range s.c.Scan(ctx, s.keys[s.of[i]], ids, &o) {
			if err != nil {
				b.Fatal(err)
			}
			docs++
			sum += int(it.Body[len(it.Body)-1])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(docs), "ns/doc")
	if sum == 0 {
		b.Fatal("no documents")
	}
}
