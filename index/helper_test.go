package index

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func mustPath(t testing.TB, text string) Path {
	t.Helper()
	p, err := ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustCompile(t testing.TB, p Policy) *Compiled {
	t.Helper()
	c, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fact is a term in a form of its own.
type fact struct {
	path  string
	kind  Type
	value string
}

// facts flattens a document by way of encoding/json.
func facts(t testing.TB, c *Compiled, doc string) map[fact]bool {
	var root any
	if err := json.Unmarshal([]byte(doc), &root); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	out := make(map[fact]bool)
	var walk func(p Path, v any)
	walk = func(p Path, v any) {
		scalars, containers := c.Covers(p)
		note := func(covered bool, kind Type, value string) {
			if covered {
				out[fact{p.String(), kind, value}] = true
			}
		}
		switch v := v.(type) {
		case nil:
			note(scalars, Null, "")
		case bool:
			note(scalars, Bool, fmt.Sprint(v))
		case float64:
			note(scalars, Number, fmt.Sprint(v+0))
		case string:
			note(scalars, String, v)
		case []any:
			note(containers, Array, "")
			for _, e := range v {
				walk(p.Element(), e)
			}
		case map[string]any:
			note(containers, Object, "")
			for name, e := range v {
				walk(p.Member(name), e)
			}
		}
	}
	walk(Path{}, root)
	return out
}

// valueOf returns the value of a fact.
func (f fact) valueOf() Value {
	switch f.kind {
	case Bool:
		return BoolValue(f.value == "true")
	case Number:
		var n float64
		fmt.Sscan(f.value, &n)
		return NumberValue(n)
	case String:
		return StringValue(f.value)
	}
	return Value{Type: f.kind}
}

// generator draws documents.
type generator struct {
	*rand.Rand
	unique int
}

var names = []string{"a", "b", "c", "", "x\x00y", "\x01", "é", "a/b", `q"`, "?", "long name of a member"}

func (g *generator) document() string {
	m := g.object(0)
	b, _ := json.Marshal(m)
	return string(b)
}

func (g *generator) object(depth int) map[string]any {
	m := make(map[string]any)
	for range g.IntN(5) {
		m[names[g.IntN(len(names))]] = g.value(depth + 1)
	}
	return m
}

func (g *generator) value(depth int) any {
	switch k := g.IntN(14); {
	case k < 2 && depth < 4:
		return g.object(depth)
	case k < 4 && depth < 4:
		var list []any
		for range g.IntN(4) {
			list = append(list, g.value(depth+1))
		}
		if list == nil {
			return []any{}
		}
		return list
	case k < 5:
		return nil
	case k < 6:
		return g.IntN(2) == 0
	case k < 9:
		return g.number()
	case k < 10:
		g.unique++
		return fmt.Sprint("unique ", g.unique)
	case k < 11:
		return strings.Repeat("long", 14+g.IntN(6)) + fmt.Sprint(g.IntN(5))
	default:
		return []string{"", "red", "green", "blue", "bluer", "\x00", "é\n"}[g.IntN(7)]
	}
}

func (g *generator) number() float64 {
	switch g.IntN(5) {
	case 0:
		return float64(g.IntN(10))
	case 1:
		return -float64(g.IntN(1000)) / 8
	case 2:
		return math.Float64frombits(g.Uint64()&^(0x7FF<<52) | uint64(g.IntN(2046))<<52)
	case 3:
		return float64(g.IntN(100)) / 100
	}
	return math.Copysign(0, -1)
}

// build returns the bytes of the index of documents; an empty one is a tombstone.
func build(t testing.TB, c *Compiled, docs []string, limit int64, temp *tempFiles) []byte {
	t.Helper()
	b := NewBuilder(c, limit, temp.create)
	defer b.Close()
	for o, doc := range docs {
		if err := b.Add(uint32(o), []byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	return written(t, b, len(docs))
}

func written(t testing.TB, b *Builder, items int) []byte {
	t.Helper()
	var out []byte
	err := b.WriteTo(func(p []byte) error { out = append(out, p...); return nil }, uint32(items))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustOpen(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := Open(Memory(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// content returns all terms of documents with their ordinals, by way of a
// cursor.
func content(t testing.TB, r *Reader) map[string][]uint32 {
	t.Helper()
	out := make(map[string][]uint32)
	c := r.Cursor()
	for ok := c.First(); ok; ok = c.Next() {
		list, err := c.Posting().AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != c.Posting().Len() || !slices.IsSorted(list) {
			t.Fatalf("%q: posting of %d: %v", c.Key(), c.Posting().Len(), list)
		}
		out[string(c.Key())] = list
	}
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	return out
}
