package engine

import (
	"bytes"
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

// BenchmarkBatchRate writes synced batches of 100 documents and single synced
// puts, in turns, from one goroutine. "ratio" is that of the documents a second.
func BenchmarkBatchRate(b *testing.B) {
	for _, docs := range []string{"food", "account"} {
		b.Run(docs, func(b *testing.B) {
			const size, singles = 100, 10
			ctx := context.Background()
			s := newBenchStore(b, 20_000, Synced)
			of := make([][][]byte, benchPartitions)
			for i := range s.n {
				doc := s.g.Append(nil, i, 1)
				if docs == "account" {
					doc = s.account(i)
				}
				of[s.of[i]] = append(of[s.of[i]], doc)
			}
			var single, batched time.Duration
			for n := 0; b.Loop(); n++ {
				docs := of[n%benchPartitions]
				start := time.Now()
				for i := range singles {
					_, err := s.c.Upsert(ctx, docs[i], nil)
					must(b, err)
				}
				middle := time.Now()
				batch := s.c.NewBatch(s.keys[n%benchPartitions])
				for i := range size {
					must(b, batch.Upsert(docs[(n+i)%len(docs)], nil))
				}
				_, err := s.c.Commit(ctx, batch)
				must(b, err)
				single += middle.Sub(start)
				batched += time.Since(middle)
			}
			b.ReportMetric(singles*float64(b.N)/single.Seconds(), "single-docs/s")
			b.ReportMetric(size*float64(b.N)/batched.Seconds(), "batched-docs/s")
			b.ReportMetric(single.Seconds()/singles/(batched.Seconds()/size), "ratio")
		})
	}
}

// account returns a document of 60 bytes in the place of a generated one.
func (s *benchStore) account(i int64) []byte {
	return fmt.Appendf(nil, `{"id":%q,"foodGroup":%q,"balance":%d}`, s.ids[i], s.g.AppendKey(nil, int(s.of[i])), 1000+i)
}

// BenchmarkUpdate reads two documents of one logical partition, changes a member
// of each and replaces them; "p50-ns" is what half of them stay below. The
// documents are those of the other benchmarks, 1.4 KB in the mean, or accounts of
// 60 bytes.
func BenchmarkUpdate(b *testing.B) {
	for _, docs := range []string{"food", "account"} {
		for _, serializable := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/serializable=%v", docs, serializable), func(b *testing.B) {
				s := makeBenchStore(b, 20_000, Buffered, FastCompression)
				member := []byte(`"upc":"`)
				if docs == "food" {
					s.load(b, 0, s.n)
				} else {
					member = []byte(`"balance":`)
					_, err := s.c.Load(context.Background(), func(yield func([]byte, error) bool) {
						for i := range s.n {
							if !yield(s.account(i), nil) {
								return
							}
						}
					}, nil)
					must(b, err)
				}
				s.update(b, member, &UpdateOptions{Serializable: serializable})
			})
		}
	}
}

// update changes the digit behind member in two documents of a logical
// partition at a time.
func (s *benchStore) update(b *testing.B, member []byte, o *UpdateOptions) {
	first := make(map[int32]int64)
	pairs := make([][2]int64, 0, s.n)
	for i := range s.n {
		if j, ok := first[s.of[i]]; ok {
			pairs = append(pairs, [2]int64{j, i})
			delete(first, s.of[i])
		} else {
			first[s.of[i]] = i
		}
	}
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 0, 8<<10)
	took := make([]time.Duration, 0, 1<<16)
	b.ReportAllocs()
	for b.Loop() {
		pair := pairs[rng.IntN(len(pairs))]
		start := time.Now()
		_, err := s.c.UpdateWith(ctx, s.keys[s.of[pair[0]]], o, func(tx *Tx) error {
			for _, i := range pair {
				it, err := tx.ReadInto(s.ids[i], buf[:0])
				if err != nil {
					return err
				}
				digit := &it.Body[bytes.Index(it.Body, member)+len(member)]
				*digit = '1' + (*digit-'0')%9
				if err := tx.Replace(it.Body, nil); err != nil {
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
}

// BenchmarkView reads documents one by one, plainly and in transactions, in
// turns: so many reads each. "ratio" is that of the times of one read.
func BenchmarkView(b *testing.B) {
	s := newBenchStore(b, 100_000, Buffered)
	s.settle(b)
	of := make([][]string, benchPartitions)
	for i := range s.n {
		of[s.of[i]] = append(of[s.of[i]], s.ids[i])
	}
	for _, reads := range []int{100, 1} {
		b.Run(fmt.Sprint(reads), func(b *testing.B) {
			rng := rand.NewPCG(1, 1)
			buf := make([]byte, 0, 4<<10)
			ctx := context.Background()
			var plain, view time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				for range 100 / reads {
					at := rng.Uint64() % benchPartitions
					key, ids := s.keys[at], of[at]
					for range reads {
						if _, err := s.c.ReadInto(ctx, key, ids[rng.Uint64()%uint64(len(ids))], buf[:0]); err != nil {
							b.Fatal(err)
						}
					}
				}
				middle := time.Now()
				for range 100 / reads {
					at := rng.Uint64() % benchPartitions
					key, ids := s.keys[at], of[at]
					err := s.c.View(ctx, key, func(tx *Tx) error {
						for range reads {
							if _, err := tx.ReadInto(ids[rng.Uint64()%uint64(len(ids))], buf[:0]); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				plain += middle.Sub(start)
				view += time.Since(middle)
			}
			b.ReportMetric(float64(plain)/float64(b.N)/100, "plain-ns/read")
			b.ReportMetric(float64(view)/float64(b.N)/100, "view-ns/read")
			b.ReportMetric(float64(view)/float64(plain), "ratio")
		})
	}
}
