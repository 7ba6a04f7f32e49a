package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkScan scans parts of logical partitions of about 1,000 documents of
// 0.8 to 2 KB, or of 72 bytes, from a document at random on. ns/doc is the time of a scan
// over its documents; a limit of 1000 is a whole logical partition. "written" had one write for
// each three documents, at random, "rewritten" one for each document: two thirds of the writes
// are in files. "held" has all documents in the scan cache. The last byte of each document is read.
func BenchmarkScan(b *testing.B) {
	for _, source := range []struct {
		name    string
		shape   string
		docs    int64
		runs    int   // 0: all stay in the memtables
		written int64 // writes by document, in ninths; 0: none
		held    bool
	}{
		{"run=1", "food", 100_000, 1, 0, false}, {"run=4", "food", 100_000, 4, 0, false}, {"memtable", "food", 10_000, 0, 0, false},
		{"written", "food", 100_000, 1, 3, false}, {"rewritten", "food", 100_000, 1, 9, false}, {"small", "small", 100_000, 1, 0, false},
		{"small-written", "small", 100_000, 1, 3, false}, {"held", "food", 100_000, 1, 0, true}, {"small-held", "small", 100_000, 1, 0, true},
	} {
		for _, compression := range []Compression{FastCompression, NoCompression} {
			if source.runs == 0 && compression == NoCompression {
				continue // the same
			}
			b.Run(fmt.Sprintf("%s/%v", source.name, compression), func(b *testing.B) {
				s := newBenchStoreOf(b, source.shape, source.docs, source.runs, compression)
				if source.written > 0 {
					s.overwrite(b, source.written)
				}
				if source.held {
					s.hold(b)
				}
				for _, o := range []ScanOptions{{Borrow: true}, {Borrow: true, Reverse: true}, {InPlace: true}} {
					for _, limit := range []int{10, 100, 1000} {
						how := "forward"
						switch {
						case o.Reverse:
							how = "backward"
						case o.InPlace:
							how = "in-place"
						}
						o.Limit = limit
						b.Run(fmt.Sprintf("%s/%d", how, limit), func(b *testing.B) { s.scan(b, o) })
					}
				}
			})
		}
	}
}

// overwrite writes documents at random, ninths for each nine documents: two files and a
// memtable of each partition.
func (s *benchStore) overwrite(b *testing.B, ninths int64) {
	b.Helper()
	rng := rand.NewPCG(2, 2)
	for part := range 3 {
		for range s.n * ninths / 27 {
			if _, err := s.c.Upsert(context.Background(), s.g.Append(nil, int64(rng.Uint64()%uint64(s.n)), 1), nil); err != nil {
				b.Fatal(err)
			}
		}
		if part < 2 {
			if err := s.db.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// hold opens the store anew with room for all documents in the scan cache, and scans them until they are there.
func (s *benchStore) hold(b *testing.B) {
	b.Helper()
	dir, ctx := s.db.Dir(), context.Background()
	err := s.db.Close()
	if err == nil {
		s.db, err = Open(ctx, dir, &Options{Durability: Buffered, ScanCacheBytes: 512 << 20})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.db.Close() })
	if s.c, err = s.db.Container(s.c.Name()); err != nil {
		b.Fatal(err)
	}
	for range 8 {
		for _, err := range s.c.ScanAll(ctx, &ScanOptions{Borrow: true}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func (s *benchStore) scan(b *testing.B, o ScanOptions) {
	ctx := context.Background()
	rng := rand.NewPCG(1, 1)
	docs, sum := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		i := rng.Uint64() % uint64(s.n)
		ids := IDRange{From: s.ids[i]}
		switch {
		case o.Limit == 1000:
			ids = IDRange{}
		case o.Reverse:
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
