package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestSortTerms sorts terms of one path as comparisons do, of one type and of several.
func TestSortTerms(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	number := func(b *Builder) { b.addNumber(1, numberBits(float64(rng.IntN(1<<20))/64-1000)) }
	text := func(b *Builder) {
		b.addString(1, fmt.Append(nil, []string{"", "same head of all ", "a\x00"}[rng.IntN(3)], rng.IntN(1<<20)), true)
	}
	for name, add := range map[string]func(b *Builder){
		"numbers": number,
		"texts":   text,
		"both": func(b *Builder) {
			number(b)
			text(b)
		},
	} {
		for _, n := range []int{1, fewKeys, fewKeys + 1, 5_000} {
			b := NewBuilder(mustCompile(t, All()), 0, nil)
			b.begin()
			b.tree.add("a", "a", b.tree.nodes[0].scope)
			for range n {
				add(b)
			}
			b.findSought()
			terms := make([]uint32, len(b.terms))
			var keys []sortKey
			for i := range terms {
				terms[i] = uint32(i)
				keys = append(keys, b.sortKeyOf(uint32(i)))
			}
			slices.SortFunc(keys, b.compareKeys)
			b.sortTerms(terms)
			for i := range terms {
				if terms[i] != keys[i].term {
					t.Fatalf("%s: term %d of %d is another than by comparisons", name, i, len(terms))
				}
			}
			b.Close()
		}
	}
}

func BenchmarkSortKeys(b *testing.B) {
	var builder Builder
	for _, n := range []int{64, 256, 1_024, 16_384} {
		rng := rand.New(rand.NewPCG(1, 1))
		drawn := make([]sortKey, n)
		for i := range drawn {
			drawn[i] = sortKey{head: numberBits(float64(rng.IntN(100_000)) / 100), term: uint32(i), kind: Number}
		}
		keys, spare := make([]sortKey, n), make([]sortKey, n)
		run := func(name string, sort func()) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					copy(keys, drawn)
					sort()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
			})
		}
		run("digits", func() { sortByHead(keys, spare) })
		run("compared", func() { slices.SortFunc(keys, builder.compareKeys) })
	}
}
