package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// parse returns what encoding/json makes of a document, numbers as they are
// written.
func parse(t *testing.T, doc []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return v
}

// rebuild makes of a value, which w has returned, and of what w finds inside of it
// the same as parse.
func rebuild(w *Walker, v Value) any {
	switch v.Kind {
	case KindObject:
		m := map[string]any{}
		for name := w.Next(); name.Kind == KindString; name = w.Next() {
			m[string(name.AppendText(nil))] = rebuild(w, w.Next())
		}
		return m
	case KindArray:
		list := []any{}
		for e := w.Next(); e.Kind != KindUndefined; e = w.Next() {
			list = append(list, rebuild(w, e))
		}
		return list
	case KindString:
		var scratch []byte
		return string(v.Bytes(&scratch))
	case KindNumber:
		return json.Number(v.Text)
	case KindBool:
		return v.Bool()
	}
	return nil
}

// walked returns all of doc as a walker finds it.
func walked(doc []byte) any {
	w := Walk(doc)
	return rebuild(&w, w.Next())
}

// pathsOf adds the paths that lead into a value to a set.
func pathsOf(set map[string]Path, p Path, v any) {
	if len(p) > 0 {
		set[p.String()] = p
	}
	p = p[:len(p):len(p)]
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			pathsOf(set, append(p, Step{Name: name}), member)
		}
	case []any:
		for _, e := range v {
			pathsOf(set, append(p, Step{Element: true}), e)
		}
	}
}

// lookUp appends the values to which a path leads from v.
func lookUp(found []any, p Path, v any) []any {
	if len(p) == 0 {
		return append(found, v)
	}
	switch v := v.(type) {
	case map[string]any:
		if member, ok := v[p[0].Name]; ok && !p[0].Element {
			return lookUp(found, p[1:], member)
		}
	case []any:
		for _, e := range v {
			if p[0].Element {
				found = lookUp(found, p[1:], e)
			}
		}
	}
	return found
}

// checkWalk compares what is found in a document by a walker, by selectors of each
// of its paths and of all, and member by member, with what encoding/json finds. In
// what is no document, something is found, and it is a value.
func checkWalk(t *testing.T, doc []byte, accepted bool) {
	t.Helper()
	var root any
	if accepted {
		root = parse(t, doc)
		if got := walked(doc); !reflect.DeepEqual(got, root) {
			t.Fatalf("%q: walked\n%v, want\n%v", doc, got, root)
		}
	} else {
		root = walked(doc)
	}
	check := func(v Value, want any) {
		if v.Kind == KindString && (len(v.Text) < 2 || v.Text[0] != '"' || v.Text[len(v.Text)-1] != '"') || len(v.Text) == 0 {
			t.Fatalf("%q: %v %q is no value", doc, v.Kind, v.Text)
		}
		if got := walked(v.Text); accepted && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %s, want %v", doc, v.Text, want)
		}
	}

	set := map[string]Path{}
	pathsOf(set, nil, root)
	var all []Path
	for _, p := range set {
		all = append(all, p)
	}
	found := make([][]Value, len(all))
	NewSelector(all).Select(doc, func(slot int, v Value) { found[slot] = append(found[slot], v) })
	for slot, p := range all {
		var alone []Value
		NewSelector([]Path{p}).Select(doc, func(_ int, v Value) { alone = append(alone, v) })
		if accepted && !reflect.DeepEqual(alone, found[slot]) {
			t.Fatalf("%q: %s: alone %v, with others %v", doc, p, alone, found[slot])
		}
		want := lookUp(nil, p, root)
		if accepted && len(alone) != len(want) {
			t.Fatalf("%q: %s: %d values, want %d", doc, p, len(alone), len(want))
		}
		for i, v := range alone {
			if accepted {
				check(v, want[i])
			} else {
				check(v, nil)
			}
		}
	}

	var members func(object []byte, want any)
	members = func(object []byte, want any) {
		m, _ := want.(map[string]any)
		n := 0
		Members(object, func(name []byte, v Value) {
			n++
			check(v, m[string(name)])
			members(v.Text, m[string(name)])
		})
		if accepted && n != len(m) {
			t.Fatalf("%q: %d members, want %d", object, n, len(m))
		}
	}
	members(doc, root)
}

func TestWalk(t *testing.T) {
	for _, doc := range []string{
		`{}`, ` { "a" : [ ] , "b" : [ 1 , -2.5e3 , true , false , null , "x" , { } ] } `,
		`{"a\n\u00e9\ud83d\ude00":"\\\"\/","long name with é and 字":"` + strings.Repeat("é", 40) + `","a":{"b":{"c":[[1],[2,[3]]]}}}`,
		`{"id":"` + strings.Repeat("x", 100) + `\"","n":0.1,"m":12345678901234567890,"big":1e300,"e":-0}`,
		"{\n\t\"a\":\r\n          [\n                  {}, 1\n,\"]}\"          ]}\n",
	} {
		checkWalk(t, []byte(doc), true)
		w := Walk([]byte(doc))
		w.Whole()
		if v := w.Next(); v.Kind != KindUndefined {
			t.Errorf("%s: %s %s behind the document", doc, v.Kind, v.Text)
		}
		for cut := range doc {
			for _, more := range []string{"", "}", "]", `"`, ":", ",", "x", `\`, `\"`, `\u`, `"\ud800"`, `\uabc\\"`} {
				checkWalk(t, []byte(doc[:cut]+more), false)
			}
		}
	}
}

func TestMembers(t *testing.T) {
	const doc = " { \"a\" : 1 , \"b\\u0062\":[1,{\"x\":\"]}\"}], \"o\": {\"p\":{}, \"q\":[] } ,\"s\":\"a\\\"b,\",\"n\":null,\"f\":-1.5e3,\"\":true }\n"
	var got []string
	Members([]byte(doc), func(name []byte, v Value) { got = append(got, fmt.Sprintf("%s=%s", name, v.Text)) })
	want := []string{`a=1`, `bb=[1,{"x":"]}"}]`, `o={"p":{}, "q":[] }`, `s="a\"b,"`, `n=null`, `f=-1.5e3`, `=true`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	got = nil
	Members([]byte(`{"p":{"q":1}}`), func(_ []byte, v Value) {
		Members(v.Text, func(name []byte, v Value) { got = append(got, string(name)+string(v.Text)) })
	})
	if len(got) != 1 || got[0] != "q1" {
		t.Errorf("nested: %q", got)
	}
}

// TestWalkRandom walks through random documents, and through what damage leaves of
// them.
func TestWalkRandom(t *testing.T) {
	r := randtest.New(t)
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	var s Scanner
	paths := mustCompile(t, "/pk")
	documents := 0
	for range rounds {
		g := generator{r: r}
		g.document()
		doc := g.b
		for range r.IntN(3) {
			doc = damage(r, doc)
		}
		accepted := s.scan(doc, paths.places, DefaultMaxDepth) == nil
		s.trim()
		if accepted {
			documents++
		}
		checkWalk(t, doc, accepted)
	}
	if documents < rounds/10 {
		t.Errorf("only %d documents", documents)
	}
}

// FuzzWalk walks through any bytes.
func FuzzWalk(f *testing.F) {
	for _, doc := range []string{
		`{"a":{"b":"x"},"t":[1,{"x":"\u0041"},[2]]}`, `{"a":"\\","b":1}`, `{"a":{"b":{}`, `{"a`, `{"a":"`, `{"t":[`, `{"":1}`, `{"t":[{"x":1,"y":"]}"}]}`,
	} {
		f.Add([]byte(doc))
	}
	paths := mustCompile(f, "/pk")
	var s Scanner
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) > 4<<10 {
			return // paths into it may be as long, and as many
		}
		accepted := s.scan(doc, paths.places, DefaultMaxDepth) == nil
		s.trim()
		checkWalk(t, doc, accepted)
	})
}

// TestWalkerName goes on behind names as they are usually written, and behind no others.
func TestWalkerName(t *testing.T) {
	for _, name := range []string{`q"`, `back\slash`, "new\nline"} {
		if got := WrittenName(name); got != "" {
			t.Errorf("the name %q is written %q without escapes", name, got)
		}
	}
	doc := []byte(`{"a":1,"bé":"x", "c":2,"d" :3}`)
	w := Walk(doc)
	w.Next()
	for _, step := range []struct {
		name string
		is   bool
	}{{"a", true}, {"b", false}, {"bé", true}, {"c", false}} {
		at := w.Offset()
		if got := w.Name(WrittenName(step.name)); got != step.is {
			t.Fatalf("name %s at %d: %v", step.name, at, got)
		}
		if step.is {
			w.Next()
		}
	}
	if !w.Skip([]byte(`, "c":2`)) || w.Skip([]byte(`,"d":3`)) || w.Skip([]byte(`,"d" :3}x`)) {
		t.Fatal("Skip is not byte for byte")
	}
	if v := w.Next(); w.Offset() != len(doc)-len(` :3}`) || v.Kind != KindString {
		t.Fatalf("the walker is at %d, behind a %s", w.Offset(), v.Kind)
	}
	if w.Name("") {
		t.Fatal("a name that needs escapes was found")
	}
}
