package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
)

// foods returns documents of the shape food and the sum of their lengths.
func foods(b *testing.B, n int) (docs [][]byte, raw int64) {
	g, err := workload.NewGenerator(workload.Params{Shape: "food", LogicalPartitions: 1000})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		docs = append(docs, g.Append(nil, int64(i), 1))
		raw += int64(len(docs[i]))
	}
	return docs, raw
}

func buildFoods(b *testing.B, docs [][]byte) []byte {
	builder := NewBuilder(mustCompile(b, All()), 0, newTempFiles().create)
	defer builder.Close()
	for o, doc := range docs {
		if err := builder.Add(uint32(o), doc); err != nil {
			b.Fatal(err)
		}
	}
	return written(b, builder, len(docs))
}

func BenchmarkBuild(b *testing.B) {
	docs, raw := foods(b, 25_000)
	b.ReportAllocs()
	var bytes int
	for b.Loop() {
		bytes = len(buildFoods(b, docs))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(docs)), "ns/doc")
	b.ReportMetric(float64(bytes)/float64(raw), "of-raw")
}

func BenchmarkMerge(b *testing.B) {
	const files = 8
	docs, _ := foods(b, files*10_000)
	readers := make([]*Reader, files)
	remaps := make([]Remap, files)
	for f := range readers {
		var own [][]byte
		for o := f; o < len(docs); o += files {
			own = append(own, docs[o])
			remaps[f].New = append(remaps[f].New, uint32(o))
		}
		readers[f] = mustOpen(b, buildFoods(b, own))
	}
	b.ReportAllocs()
	for b.Loop() {
		builder := NewBuilder(mustCompile(b, All()), 0, nil)
		for f := range readers {
			builder.Take(readers[f], remaps[f])
		}
		written(b, builder, len(docs))
		builder.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(docs)), "ns/doc")
}

func BenchmarkRead(b *testing.B) {
	docs, _ := foods(b, 200_000)
	r := mustOpen(b, buildFoods(b, docs))
	items := uint32(len(docs))
	maker := Equal(mustPath(b, "/manufacturer"), StringValue(manufacturer(b, r)))
	kcal := Between(mustPath(b, "/kcal"), Bound{Value: NumberValue(100)}, Bound{Value: NumberValue(200)})
	upc := OfType(mustPath(b, "/upc"), String)
	var set, other Set
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := r.Lookup(maker.From); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("and", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			set.Reset(0, items)
			if err := r.Union(context.Background(), maker, &set); err != nil {
				b.Fatal(err)
			}
			p, _, _ := r.Lookup(Equal(mustPath(b, "/kcal"), NumberValue(100)).From)
			if _, err := p.CountIn(&set); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, span := range map[string]Span{"range/few-terms": kcal, "range/unique": upc} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				other.Reset(0, items)
				if err := r.Union(context.Background(), span, &other); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(other.Count()), "found")
		})
	}
	b.Run("facets", func(b *testing.B) {
		b.ReportAllocs()
		set.Reset(0, items)
		set.Fill()
		c := r.Cursor()
		for b.Loop() {
			n := 0
			span := OfType(mustPath(b, "/manufacturer"), String)
			for ok := c.Seek(span.From); ok && string(c.Key()) < string(span.To); ok = c.Next() {
				if _, err := c.Posting().CountIn(&set); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n), "values")
		}
	})
}

func manufacturer(b *testing.B, r *Reader) string {
	c := r.Cursor()
	if !c.Seek(OfType(mustPath(b, "/manufacturer"), String).From) {
		b.Fatal(c.Err())
	}
	term, _ := c.Term()
	return term.Value.Text
}

// storedPosting returns the posting of ordinals below a million as it is read.
func storedPosting(b *testing.B, ordinals []uint32) Posting {
	var out []byte
	w := newWriter(func(p []byte) error { out = append(out, p...); return nil })
	key := appendTerm(nil, mustPath(b, "/a"), NumberValue(1))
	if err := w.add(key, ordinals); err != nil {
		b.Fatal(err)
	}
	if err := w.finish(1_000_000, mustCompile(b, All()), false); err != nil {
		b.Fatal(err)
	}
	p, _, err := mustOpen(b, slices.Clone(out)).Lookup(key)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkPosting(b *testing.B) {
	for _, n := range []int{100, 500, 5_000, 500_000} {
		ordinals := make([]uint32, n)
		for i := range ordinals {
			ordinals[i] = uint32(i * (1_000_000 / n))
		}
		p := storedPosting(b, ordinals)
		var set Set
		b.Run(fmt.Sprint(p.Kind(), "/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Reset(0, 1_000_000)
				if err := p.AddTo(&set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBoth meets two postings of a million ordinals.
func BenchmarkBoth(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(share float64) *Posting {
		var ordinals []uint32
		for o := range uint32(1_000_000) {
			if rng.Float64() < share {
				ordinals = append(ordinals, o)
			}
		}
		p := storedPosting(b, ordinals)
		return &p
	}
	short, long, dense := draw(0.02), draw(0.05), draw(0.2)
	for _, c := range []struct {
		name string
		p, q *Posting
	}{{"short-long", short, long}, {"long-long", long, draw(0.05)}, {"short-dense", short, dense}, {"dense-dense", dense, draw(0.2)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.p.CountBoth(c.q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
