package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkCommit commits batches of documents of 0.8 to 2 KB, of one logical
// partition each. A document counts as an operation.
func BenchmarkCommit(b *testing.B) {
	for _, d := range []Durability{Buffered, Synced} {
		for _, size := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%v/%d", d, size), func(b *testing.B) {
				s := newBenchStore(b, 20_000, d)
				batches := make([]*Batch, benchPartitions)
				for i := range s.n {
					of := s.of[i]
					if batches[of] == nil {
						batches[of] = s.c.NewBatch(s.keys[of])
					}
					if batches[of].Len() == size {
						continue
					}
					if err := batches[of].Upsert(s.g.Append(nil, i, 1), nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; {
					metas, err := s.c.Commit(context.Background(), batches[n/size%benchPartitions])
					if err != nil {
						b.Fatal(err)
					}
					n += len(metas)
				}
			})
		}
	}
}

// BenchmarkUpdate reads and replaces two documents of one logical partition.
func BenchmarkUpdate(b *testing.B) {
	for _, serializable := range []bool{false, true} {
		b.Run(fmt.Sprintf("serializable=%v", serializable), func(b *testing.B) {
			s := newBenchStore(b, 20_000, Buffered)
			docs := make([][]byte, s.n)
			first := make(map[int32]int64)
			pairs := make([][2]int64, 0, s.n)
			for i := range s.n {
				docs[i] = s.g.Append(nil, i, 1)
				if j, ok := first[s.of[i]]; ok {
					pairs = append(pairs, [2]int64{j, i})
					delete(first, s.of[i])
				} else {
					first[s.of[i]] = i
				}
			}
			rng := rand.New(rand.NewPCG(1, 1))
			buf := make([]byte, 0, 8<<10)
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<16)
			for b.Loop() {
				start := time.Now()
				pair := pairs[rng.IntN(len(pairs))]
				_, err := s.c.UpdateWith(context.Background(), s.keys[s.of[pair[0]]], &UpdateOptions{Serializable: serializable}, func(tx *Tx) error {
					for _, i := range pair {
						if _, err := tx.ReadInto(s.ids[i], buf[:0]); err != nil {
							return err
						}
						if err := tx.Replace(docs[i], nil); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
		})
	}
}

// BenchmarkView reads documents one by one, in transactions of a hundred reads.
func BenchmarkView(b *testing.B) {
	s := newBenchStore(b, 100_000, Buffered)
	s.settle(b)
	of := make([][]string, benchPartitions)
	for i := range s.n {
		of[s.of[i]] = append(of[s.of[i]], s.ids[i])
	}
	for _, in := range []string{"view", "plain"} {
		b.Run(in, func(b *testing.B) {
			rng := rand.NewPCG(1, 1)
			buf := make([]byte, 0, 4<<10)
			ctx := context.Background()
			read := func(key PartitionKey, ids []string, read func(id string) (Item, error)) error {
				for range 100 {
					if _, err := read(ids[rng.Uint64()%uint64(len(ids))]); err != nil {
						return err
					}
				}
				return nil
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += 100 {
				at := rng.Uint64() % benchPartitions
				key, ids := s.keys[at], of[at]
				var err error
				if in == "view" {
					err = s.c.View(ctx, key, func(tx *Tx) error {
						return read(key, ids, func(id string) (Item, error) { return tx.ReadInto(id, buf[:0]) })
					})
				} else {
					err = read(key, ids, func(id string) (Item, error) { return s.c.ReadInto(ctx, key, id, buf[:0]) })
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
