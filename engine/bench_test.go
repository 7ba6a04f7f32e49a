package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
)

// benchStore is a store of generated food documents in four partitions.
type benchStore struct {
	db   *DB
	c    *Container
	g    *workload.Generator
	n    int64
	keys []PartitionKey // by logical partition
	ids  []string       // by document
	of   []int32        // logical partition of each document
}

const benchPartitions = 100

func newBenchStore(b *testing.B, n int64, d Durability) *benchStore {
	b.Helper()
	s := makeBenchStore(b, n, d, FastCompression)
	s.load(b, 0, n)
	return s
}

// newBenchStoreOf makes a store whose documents lie in so many runs a
// partition, each with a share of every logical partition; in memtables if
// there are none.
func newBenchStoreOf(b *testing.B, shape string, n int64, runs int, compression Compression) *benchStore {
	b.Helper()
	s := makeShapedStore(b, shape, n, Buffered, compression)
	for i := range int64(max(runs, 1)) {
		s.load(b, i*n/int64(max(runs, 1)), (i+1)*n/int64(max(runs, 1)))
		switch {
		case runs == 1:
			s.settle(b)
		case runs > 1:
			if err := s.db.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

func makeBenchStore(b *testing.B, n int64, d Durability, compression Compression) *benchStore {
	b.Helper()
	return makeShapedStore(b, "food", n, d, compression)
}

func makeShapedStore(b *testing.B, shape string, n int64, d Durability, compression Compression) *benchStore {
	b.Helper()
	ctx := context.Background()
	g, err := workload.NewGenerator(workload.Params{Shape: shape, Seed: 1, LogicalPartitions: benchPartitions})
	if err != nil {
		b.Fatal(err)
	}
	db, err := Open(ctx, b.TempDir(), &Options{Durability: d})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(ctx, shape, ContainerDef{PartitionKey: []string{g.KeyPath()}, MinPartitions: 4, Compression: compression})
	if err != nil {
		b.Fatal(err)
	}
	s := &benchStore{db: db, c: c, g: g, n: n}
	for p := range benchPartitions {
		s.keys = append(s.keys, StringKey(string(g.AppendKey(nil, p))))
	}
	for i := range n {
		s.ids = append(s.ids, string(g.AppendID(nil, i)))
		s.of = append(s.of, int32(g.Partition(i)))
	}
	return s
}

func (s *benchStore) load(b *testing.B, from, to int64) {
	b.Helper()
	if _, err := s.c.Load(context.Background(), s.g.All(from, to), nil); err != nil {
		b.Fatal(err)
	}
}

func (s *benchStore) settle(b *testing.B) {
	if err := s.db.Compact(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func (s *benchStore) read(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.NewPCG(rand.Uint64(), 1)
		ctx := context.Background()
		buf := make([]byte, 0, 4<<10)
		for pb.Next() {
			i := rng.Uint64() % uint64(s.n)
			it, err := s.c.ReadInto(ctx, s.keys[s.of[i]], s.ids[i], buf[:0])
			if err != nil || len(it.Body) == 0 {
				b.Errorf("document %d: %v", i, err)
				return
			}
		}
	})
}

// BenchmarkRead reads documents of 0.8 to 2 KB at random, out of files and out
// of a memtable, and looks for ones that are not there.
func BenchmarkRead(b *testing.B) {
	b.Run("files", func(b *testing.B) {
		s := newBenchStore(b, 100_000, Buffered)
		s.settle(b)
		b.ResetTimer()
		s.read(b)
	})
	b.Run("memtable", func(b *testing.B) {
		s := newBenchStore(b, 10_000, Buffered)
		b.ResetTimer()
		s.read(b)
	})
	b.Run("absent", func(b *testing.B) {
		s := newBenchStore(b, 100_000, Buffered)
		s.settle(b)
		absent := make([]string, 1<<10)
		for i := range absent {
			absent[i] = fmt.Sprintf("no %d", i)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if _, err := s.c.ReadInto(context.Background(), s.keys[i%benchPartitions], absent[i%len(absent)], nil); err != ErrNotFound {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUpsert overwrites documents of 0.8 to 2 KB at random. What is
// written is flushed and merged meanwhile.
func BenchmarkUpsert(b *testing.B) {
	for _, bench := range []struct {
		durability Durability
		writers    int
	}{{Buffered, 1}, {Buffered, 16}, {Synced, 1}, {Synced, 64}} {
		b.Run(fmt.Sprintf("%v/%d", bench.durability, bench.writers), func(b *testing.B) {
			s := newBenchStore(b, 20_000, bench.durability)
			docs := make([][]byte, s.n)
			for i := range docs {
				docs[i] = s.g.Append(nil, int64(i), 1)
			}
			var seed atomic.Uint64
			b.ReportAllocs()
			b.SetParallelism(max(1, bench.writers/2)) // times GOMAXPROCS
			b.ResetTimer()
			work := func(next func() bool) {
				rng := rand.NewPCG(seed.Add(1), 1)
				for next() {
					if _, err := s.c.Upsert(context.Background(), docs[rng.Uint64()%uint64(s.n)], nil); err != nil {
						b.Error(err)
						return
					}
				}
			}
			if bench.writers == 1 {
				work(b.Loop)
				return
			}
			b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
		})
	}
}

// BenchmarkLoad loads documents of 0.8 to 2 KB with one durable point a batch.
func BenchmarkLoad(b *testing.B) {
	s := newBenchStore(b, 1000, Synced)
	docs := make([][]byte, 10_000)
	size := 0
	for i := range docs {
		docs[i] = s.g.Append(nil, int64(i), 1)
		size += len(docs[i])
	}
	b.SetBytes(int64(size / len(docs)))
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	if _, err := s.c.Load(context.Background(), func(yield func([]byte, error) bool) {
		for ; n < b.N && yield(docs[n%len(docs)], nil); n++ {
		}
	}, nil); err != nil {
		b.Fatal(err)
	}
}
