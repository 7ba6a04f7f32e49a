package valuerank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/randtest"
)

// build indexes documents.
func build(t *testing.T, docs []string) *index.Reader {
	t.Helper()
	c, err := index.Compile(index.All())
	if err != nil {
		t.Fatal(err)
	}
	b := index.NewBuilder(c, 1<<20, nil)
	defer b.Close()
	for i, doc := range docs {
		if err := b.Add(uint32(i), []byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	var text []byte
	if err := b.WriteTo(func(p []byte) error { text = append(text, p...); return nil }, uint32(len(docs))); err != nil {
		t.Fatal(err)
	}
	r, err := index.Open(index.Memory(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pathA(t *testing.T) index.Path {
	t.Helper()
	p, err := index.ParsePath("/a")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// draw returns a document with any value at /a, or none.
func draw(rng *rand.Rand) string {
	a := []string{
		"null", "true", "false", fmt.Sprint(rng.IntN(9) - 4), fmt.Sprintf("%q", strings.Repeat("s", rng.IntN(5))), `[1]`, `["s"]`, `{"b":1}`, `{}`,
	}[rng.IntN(9)]
	if rng.IntN(6) == 0 {
		return `{"z":1}`
	}
	return `{"0":3,"a":` + a + `,"b":7}`
}

// orderKey returns the key of a document in the order of /a.
func orderKey(t *testing.T, doc string) []byte {
	t.Helper()
	path, err := query.ParsePath("/a")
	if err != nil {
		t.Fatal(err)
	}
	eval := query.Compile(&query.Filter{}, []query.Path{path}).Evaluator()
	eval.Match([]byte(doc))
	return query.AppendOrder(nil, &eval.Wanted[0], false)
}

// TestRanks: ordinals in the order of ranks, from any point on, are documents in the order of
// the path, and of their ordinals where the values are equal.
func TestRanks(t *testing.T) {
	rng := randtest.New(t)
	for range 100 {
		docs := make([]string, 1+rng.IntN(200))
		keys := make([][]byte, len(docs))
		var list []uint32
		for i := range docs {
			docs[i] = draw(rng)
			keys[i] = orderKey(t, docs[i])
			list = append(list, uint32(i))
		}
		r := build(t, docs)
		ranks, _, err := Of(t.Context(), r.Cursor(), r.Info().Items, pathA(t))
		if err != nil || len(ranks) != len(docs) {
			t.Fatalf("%d ranks, %v", len(ranks), err)
		}
		falling := rng.IntN(2) == 0
		compare := func(a, b uint32) int {
			c := bytes.Compare(keys[a], keys[b])
			if falling {
				c = -c
			}
			if c == 0 {
				return int(a) - int(b)
			}
			return c
		}
		want := slices.Clone(list)
		slices.SortFunc(want, compare)
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		Sort(list, ranks, falling)
		if !slices.Equal(list, want) {
			t.Fatalf("order %v, want %v of %q", list, want, docs)
		}
		at := rng.IntN(len(want))
		point := want[at]
		got := Behind(slices.Clone(list), ranks, falling, Point{Rank: ranks[point], Equal: true, From: point})
		if !slices.Equal(got, want[at:]) {
			t.Fatalf("behind %d: %v, want %v of %q", point, got, want[at:], docs)
		}
		// A value that none has lies before the next greater one.
		got = Behind(slices.Clone(list), ranks, falling, Point{Rank: ranks[point]})
		from := slices.IndexFunc(want, func(o uint32) bool { return ranks[o] == ranks[point] })
		for falling && from < len(want) && ranks[want[from]] == ranks[point] {
			from++
		}
		if !slices.Equal(got, want[from:]) {
			t.Fatalf("before the value of %d: %v, want %v of %q", point, got, want[from:], docs)
		}
	}
}

// TestNoRanks: where strings are longer than terms, and when the query has ended, there are none.
func TestNoRanks(t *testing.T) {
	docs := []string{`{"a":1}`, `{"a":"` + strings.Repeat("s", 2*index.MaxString) + `"}`}
	r := build(t, docs)
	ranks, _, err := Of(t.Context(), r.Cursor(), r.Info().Items, pathA(t))
	if err != nil || ranks == nil || len(ranks) > 0 {
		t.Errorf("%v, %v", ranks, err)
	}
	docs = nil
	for i := range 3000 {
		docs = append(docs, fmt.Sprintf(`{"a":%d}`, i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = build(t, docs)
	if _, _, err := Of(ctx, r.Cursor(), r.Info().Items, pathA(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
