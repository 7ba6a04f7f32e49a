package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/randtest"
)

func paths(text ...string) (list []CompositePath) {
	for _, t := range text {
		path, descending := strings.CutSuffix(t, " DESC")
		list = append(list, CompositePath{path, descending})
	}
	return list
}

// TestCompositePolicy: what is refused, and that the order of composite indexes, but not
// that of their paths, is the same policy.
func TestCompositePolicy(t *testing.T) {
	many := make([][]CompositePath, MaxComposites+1)
	for i := range many {
		many[i] = paths("/a", fmt.Sprintf("/b%d", i))
	}
	for want, list := range map[string][][]CompositePath{
		"at least 2 are needed":            {paths("/a")},
		"at most 8 are possible":           {paths("/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i")},
		"at most 100 are possible":         many,
		"must begin with a slash":          {paths("/a", "b")},
		"several values in an array":       {paths("/a", "/b/[]")},
		"? is left out":                    {paths("/a", "/b/?")},
		"* is left out":                    {paths("/a/*", "/b")},
		"a document as a whole":            {paths("/a", "/")},
		`path "/a" is listed twice`:        {paths("/a", "/b", "/a")},
		"(/a, /b DESC): is listed twice":   {paths("/a", "/b DESC"), paths(`/"a"`, "/b DESC")},
		"longer than 1024 bytes":           {paths("/a", "/"+strings.Repeat("b", 1024))},
		"composite index (/x DESC, /y/[])": {paths("/x DESC", "/y/[]")},
	} {
		if _, err := Compile(Policy{Composite: list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	one := mustCompile(t, Policy{Include: []string{"/*"}, Composite: [][]CompositePath{paths("/a", "/b"), paths("/c", `/"d"`)}})
	two := mustCompile(t, Policy{Include: []string{"/*"}, Composite: [][]CompositePath{paths("/c", "/d"), paths("/a", "/b")}})
	if one.Fingerprint() != two.Fingerprint() {
		t.Error("the order of composite indexes counts")
	}
	for _, other := range []Policy{All(), {Include: []string{"/*"}, Composite: [][]CompositePath{paths("/b", "/a"), paths("/c", "/d")}},
		{Include: []string{"/*"}, Composite: [][]CompositePath{paths("/a", "/b DESC"), paths("/c", "/d")}}} {
		if mustCompile(t, other).Fingerprint() == one.Fingerprint() {
			t.Errorf("%v has the same fingerprint", other)
		}
	}
	if (Policy{Composite: [][]CompositePath{paths("/a", "/b")}}).Empty() {
		t.Error("a policy of a composite index alone is empty")
	}
	for _, text := range []string{"/a, /b DESC", "/a/b DESC, /c, /d e"} {
		x, err := ParseComposite(text)
		if err != nil || CompositeText(x) != text {
			t.Errorf("%q: %v, %v", text, x, err)
		}
	}
	if x, err := ParseComposite(`/"a,b" desc, /c`); err != nil || len(x) != 2 || x[0] != (CompositePath{`/"a,b"`, true}) || x[1].Path != "/c" {
		t.Errorf("a comma in quotes: %v, %v", x, err)
	}
	if x, err := ParseComposite("/a asc,/b desc"); err != nil || CompositeText(x) != "/a, /b DESC" {
		t.Errorf("%v, %v", x, err)
	}
}

// compositeText draws a string: often one of two that are longer than MaxString and begin
// alike, or that has zeros.
func compositeText(rng *rand.Rand) string {
	long := strings.Repeat("x", MaxString-1)
	all := []string{"", "a", "a\x00", "a\x00b", "\x00", "a\x01", "\xff", "b", long, long + "y", long + "y1", long + "y2", long + "\x00", long + "\x00z", long + "z"}
	return all[rng.IntN(len(all))]
}

// TestCompositeText: the text of a composite index is read as the same one, whatever its names are.
func TestCompositeText(t *testing.T) {
	odd := [][]CompositePath{
		{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}}, {{Path: "/a"}, {Path: "/b, /c"}},
		{{Path: "/d", Descending: true}, {Path: "/e"}}, {{Path: "/d DESC"}, {Path: "/e"}}, {{Path: "/f,g asc"}, {Path: "/h ", Descending: true}},
	}
	c := mustCompile(t, Policy{Composite: odd})
	var read [][]CompositePath
	for _, x := range c.Composites() {
		paths, err := ParseComposite(x.String())
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		read = append(read, paths)
	}
	if mustCompile(t, Policy{Composite: read}).Fingerprint() != c.Fingerprint() {
		t.Errorf("%v is read as %v", odd, read)
	}
}

// TestCompositeTerms compares the order of terms, the spans, and what terms say of the order
// with the values of random documents.
func TestCompositeTerms(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 0))
	for range 300 {
		n := 2 + rng.IntN(3)
		var list []CompositePath
		for i := range n {
			list = append(list, CompositePath{fmt.Sprintf("/p%d", i), rng.IntN(2) == 0})
		}
		c := mustCompile(t, Policy{Composite: [][]CompositePath{list, paths("/p1", "/other")}})
		x := c.Composites()[slices.IndexFunc(c.Composites(), func(x *Composite) bool { return x.Paths[0] == mustPath(t, "/p0") })]
		type doc struct {
			text   string
			values []string // JSON; "": absent
			sort   []byte
			term   []byte
		}
		docs := make([]doc, 40)
		texts := make([]string, len(docs))
		for i := range docs {
			d := &docs[i]
			for k := range n {
				s := [...]string{"", "null", "false", "true", "-1.5", "0", "2", "1e300", "[1]", "{}", "", "", "", "", "", ""}[rng.IntN(16)]
				if s == "" && rng.IntN(4) > 0 {
					s = string(jsondoc.AppendString(nil, strings.ToValidUTF8(compositeText(rng), "é")))
				}
				d.values = append(d.values, s)
				if s != "" {
					d.text += fmt.Sprintf(`,"p%d":%s`, k, s)
				}
				from := len(d.sort)
				v := jsondoc.Value{}
				if s != "" {
					v = scalarOf(s)
				}
				if d.sort = query.AppendOrder(d.sort, &v, false); list[k].Descending {
					query.Invert(d.sort[from:])
				}
			}
			d.text = "{" + strings.TrimPrefix(d.text, ",") + "}"
			texts[i] = d.text
		}
		r := mustOpen(t, build(t, c, texts, 0, newTempFiles()))
		seen := 0
		for term, ordinals := range content(t, r) {
			y, _, _, ok := c.DecodeComposite([]byte(term))
			if !ok {
				t.Fatalf("term %q does not decode", term)
			}
			if y != x {
				continue
			}
			for _, o := range ordinals {
				docs[o].term = []byte(term)
				seen++
			}
		}
		if seen != len(docs) {
			t.Fatalf("%d documents have a term of %d", seen, len(docs))
		}
		for i := range docs {
			a := &docs[i]
			from := rng.IntN(n)
			key, cut, ok := x.Order(a.term, from)
			skipped := 0
			for k := range from {
				size, _ := component(a.sort[skipped:], list[k].Descending)
				skipped += size
			}
			if want := a.sort[skipped:]; !ok || !cut && !bytes.Equal(key, want) || cut && !bytes.HasPrefix(want, key) {
				t.Fatalf("%s: the term %q has the order key %q from path %d, want %q", a.text, a.term, key, from, want)
			}
			for j := range docs {
				b := &docs[j]
				ka, cutA, _ := x.Order(a.term, 0)
				kb, cutB, _ := x.Order(b.term, 0)
				if together := cutA && cutB && bytes.Equal(ka, kb); !together && bytes.Compare(a.term, b.term) != bytes.Compare(a.sort, b.sort) {
					t.Fatalf("terms %q and %q are not in the order of %s and %s", a.term, b.term, a.text, b.text)
				}
			}
			checkAfter(t, x, a.sort, a.term)
		}
		checkSpans(t, rng, x, func(visit func(values []string, term []byte)) {
			for i := range docs {
				visit(docs[i].values, docs[i].term)
			}
		})
	}
}

// checkAfter: the place of an order key is that of its term.
func checkAfter(t *testing.T, x *Composite, key, term []byte) {
	t.Helper()
	s, n, whole, ok := x.After(nil, append(bytes.Clone(key), "behind"...))
	if !ok || n != len(key) || string(term) < string(s.From) || string(term) >= string(s.To) {
		t.Fatalf("After of %q: %q to %q, %d bytes, %t; the term is %q", key, s.From, s.To, n, ok, term)
	}
	if _, cut, _ := x.Order(term, 0); whole == cut {
		t.Fatalf("After of %q: whole %t, cut %t", key, whole, cut)
	}
}

// checkSpans: a span has the documents that meet the conditions, and others only if it is
// loose.
func checkSpans(t *testing.T, rng *rand.Rand, x *Composite, each func(func(values []string, term []byte))) {
	t.Helper()
	valueOf := func(s string) (v Value) {
		if s == "" {
			return Value{}
		}
		w := scalarOf(s)
		switch v.Type = Type(w.Kind); v.Type {
		case Bool:
			v.Bool = w.Bool()
		case Number:
			v.Number = w.Number()
		case String:
			var scratch []byte
			v.Text = string(w.Bytes(&scratch))
		}
		return v
	}
	var drawn [][]string
	each(func(values []string, _ []byte) { drawn = append(drawn, values) })
	for range 20 {
		like := drawn[rng.IntN(len(drawn))]
		var equal []Value
		for k := range rng.IntN(len(x.Paths) + 1) {
			v := valueOf(like[k])
			if v.Type == 0 || v.Type >= Array {
				break
			}
			equal = append(equal, v)
		}
		for _, v := range equal {
			if len(v.Text) > MaxString && !x.Equal(equal).Loose {
				t.Fatalf("(%v), %v: not loose", x, equal)
			}
		}
		meets := func(Value) bool { return true }
		s, what := x.Equal(equal), fmt.Sprint(equal)
		if at := len(equal); at < len(x.Paths) {
			lo, hi := Bound{valueOf(like[at]), rng.IntN(2) == 0}, Bound{valueOf(drawn[rng.IntN(len(drawn))][at]), rng.IntN(2) == 0}
			switch {
			case lo.Value.Type == 0 || lo.Value.Type >= Array:
			case lo.Value.Type == String && rng.IntN(3) == 0:
				text := lo.Value.Text[:rng.IntN(len(lo.Value.Text)+1)]
				s, meets = x.HasPrefix(equal, text), func(v Value) bool { return v.Type == String && strings.HasPrefix(v.Text, text) }
				what += fmt.Sprintf(" prefix %q", text)
			default:
				if hi.Value.Type != lo.Value.Type || rng.IntN(3) == 0 {
					hi = Bound{}
				}
				if rng.IntN(3) == 0 && !hi.none() {
					lo = Bound{}
				}
				s, what = x.Between(equal, lo, hi), what+fmt.Sprint(lo, hi)
				meets = func(v Value) bool {
					if v.Type != max(lo.Value.Type, hi.Value.Type) {
						return false
					}
					above := lo.none() || less(lo.Value, v) || lo.Inclusive && v == lo.Value
					below := hi.none() || less(v, hi.Value) || hi.Inclusive && v == hi.Value
					return above && below
				}
			}
		}
		each(func(values []string, term []byte) {
			want := true
			for k, v := range equal {
				want = want && valueOf(values[k]) == v
			}
			if len(equal) < len(values) {
				want = want && meets(valueOf(values[len(equal)]))
			}
			got := string(term) >= string(s.From) && string(term) < string(s.To)
			if got != want && (want || !s.Loose) {
				t.Fatalf("(%v), %s: %q in the span %t, want %t; loose %t", x, what, values, got, want, s.Loose)
			}
		})
	}
}

func scalarOf(text string) jsondoc.Value {
	w := jsondoc.Walk([]byte(text))
	return w.Next()
}

func less(a, b Value) bool {
	switch a.Type {
	case Bool:
		return !a.Bool && b.Bool
	case Number:
		return a.Number < b.Number
	}
	return a.Text < b.Text
}

// TestCompositeHostile: bytes that are no term are refused.
func TestCompositeHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 0))
	c := mustCompile(t, Policy{Composite: [][]CompositePath{paths("/a", "/b DESC"), paths("/a DESC", "/b", "/c")}})
	for range randtest.Lone(20_000) {
		term := []byte{termComposite, byte(rng.IntN(3))}
		for range rng.IntN(30) {
			term = append(term, [...]byte{0, 1, 2, 3, 4, 5, 6, 7, 0xFF, 0xFB, 0xFE, 0xFD, 'x'}[rng.IntN(13)])
		}
		x, values, _, ok := c.DecodeComposite(term)
		for _, y := range c.Composites() {
			if _, cut, fine := y.Order(term, 0); fine && !cut != (ok && x == y) && !(cut && ok) && !cut {
				t.Fatalf("%q: Order says %t, DecodeComposite %t", term, fine, ok)
			}
			y.After(nil, term[2:])
		}
		if ok && len(values) != len(x.Paths) {
			t.Fatalf("%q: %v", term, values)
		}
	}
}
