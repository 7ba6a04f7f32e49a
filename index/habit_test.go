package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// habitual draws a document whose values mostly determine each other, in objects and in arrays,
// and are mostly written alike.
func habitual(rng *rand.Rand) string {
	var doc strings.Builder
	seldom := func(usual, other string) string {
		if rng.IntN(8) == 0 {
			return other
		}
		return usual
	}
	members := func() {
		id := rng.IntN(6)
		fmt.Fprintf(&doc, `{"id"%s"n%d"`, seldom(":", " : "), id)
		fmt.Fprintf(&doc, `%s"%s":"%s%d"`, seldom(",", ", "), seldom("name", `n\u0061me`), seldom("name ", `n\u0061me `), id)
		if rng.IntN(8) > 0 {
			fmt.Fprintf(&doc, `,"unit":"u%d%s"`, id%3, seldom("", "x"))
		}
		fmt.Fprintf(&doc, `,"%s":%s`, seldom("value", "unit2"), seldom(`"u1"`, fmt.Sprint(rng.IntN(9))))
		fmt.Fprintf(&doc, `,"long":"%s"}`, strings.Repeat("ab", 20+rng.IntN(20)))
	}
	doc.WriteString(`{"first":`)
	members()
	doc.WriteString(`,"list":[`)
	for i := range 1 + rng.IntN(8) {
		if i > 0 {
			doc.WriteString(",")
		}
		members()
	}
	doc.WriteString(`],"words":["n1"`)
	for range rng.IntN(6) {
		fmt.Fprintf(&doc, `,"%s"`, seldom("name", "unit"))
	}
	doc.WriteString(`],"last":{"list":`)
	members()
	doc.WriteString("}}")
	return doc.String()
}

// TestHabits compares indexes of documents whose values determine each other with what
// encoding/json finds in them.
func TestHabits(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	for _, policy := range []Policy{
		All(),
		{Include: []string{"/*"}, Exclude: []string{"/list/[]/name/?"}},
		{Include: []string{"/list/[]/id/?", "/list/[]/unit/?", "/words/*", "/last/*"}},
	} {
		c := mustCompile(t, policy)
		docs := make([]string, 500)
		for i := range docs {
			docs[i] = habitual(rng)
		}
		compare(t, fmt.Sprint(policy), content(t, mustOpen(t, build(t, c, docs, 0, newTempFiles()))), expected(t, c, docs))
	}
}

// TestHabitsKeepComposites finds all documents under one term of a composite index, which has
// a value that follows on another in all of them.
func TestHabitsKeepComposites(t *testing.T) {
	c := mustCompile(t, Policy{Include: []string{"/*"}, Composite: [][]CompositePath{{{Path: "/a"}, {Path: "/b"}}}})
	var docs []string
	var all []uint32
	for i := range 20 {
		docs, all = append(docs, `{"a":"x","b":"y","c":"z"}`), append(all, uint32(i))
	}
	got := content(t, mustOpen(t, build(t, c, docs, 0, newTempFiles())))
	for term, ordinals := range got {
		if !slices.Equal(ordinals, all) {
			t.Errorf("term %q of documents %v", term, ordinals)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d terms of 20 documents alike, want those of a, b and c, and one of a with b", len(got))
	}
}
