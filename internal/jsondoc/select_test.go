package jsondoc

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func paths(t testing.TB, texts ...string) []Path {
	t.Helper()
	var list []Path
	for _, text := range texts {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// found returns what a selector visits, as text.
func found(s *Selector, doc string) []string {
	var list []string
	s.Select([]byte(doc), func(slot int, v Value) {
		list = append(list, fmt.Sprintf("%d %s %s", slot, v.Kind, v.Text))
	})
	return list
}

func TestSelect(t *testing.T) {
	s := NewSelector(paths(t, "/a", "/a/b", "/t/[]", "/t/[]/x", `/"a/b"`, `/n/[]/[]`, "/z"))
	for doc, want := range map[string][]string{
		`{"id":"1"}`:    nil,
		`{"a":1,"b":2}`: {"0 number 1"},
		` { "a" : { "q":[1,{"b":3}], "b" : "x\"}" , "c":{} } }`: {`1 string "x\"}"`, `0 object { "q":[1,{"b":3}], "b" : "x\"}" , "c":{} }`},
		`{"t":[1,"two",null,true,{"x":-1.5e3},[{"x":1}]]}`:      {"2 number 1", `2 string "two"`, "2 null null", "2 boolean true", "3 number -1.5e3", `2 object {"x":-1.5e3}`, `2 array [{"x":1}]`},
		`{"t":{"x":1},"a/b":false,"n":[[1,2],3,[[4]]]}`:         {"4 boolean false", "5 number 1", "5 number 2", "5 array [4]"},
		`{"\u0061":7,"a\/b":8}`:                                 {"0 number 7", "4 number 8"},
		`{"x":"a","y":{"a":1},"a":[],"z":0,"t":[ ] , "n":[[]]}`: {"0 array []", "6 number 0"},
	} {
		if got := found(s, doc); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", doc, got, want)
		}
	}
}

// TestSelectMany: many paths are found as few are, in time that does not grow with their number.
func TestSelectMany(t *testing.T) {
	var names, members []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("/m%05d", i))
	}
	for i := range 50_000 { // those that are wanted come last
		members = append(members, fmt.Sprintf(`"m%05d":%[1]d`, 49_999-i))
	}
	n := 0
	NewSelector(paths(t, names...)).Select([]byte("{"+strings.Join(members, ",")+"}"), func(slot int, v Value) {
		if n++; string(v.Text) != fmt.Sprint(slot) {
			t.Fatalf("path %d leads to %s", slot, v.Text)
		}
	})
	if n != len(names) {
		t.Errorf("%d values, want %d", n, len(names))
	}
}

func TestPathText(t *testing.T) {
	for _, text := range []string{"/a", "/a/b c/é", "/t/[]/x", `/"a/b"/c`, `/"[]"/[]`, `/""`, `/"\"q"`} {
		p := paths(t, text)[0]
		again, err := ParsePath(p.String())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("%s: %v, %v, %v", text, p, again, err)
		}
	}
	for _, text := range []string{"", "a", "/", "/a/", "//a", "/a/*", "/?", `/"a`, `/"a"b`, "/\xff", strings.Repeat("/a", 200)} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	docs := foodDocuments(1000)
	bytes := 0
	for _, d := range docs {
		bytes += len(d)
	}
	for name, list := range map[string][]string{
		"first": {"/description"}, "last": {"/version"}, "absent": {"/nothing"}, "nested": {"/nutrients/[]/id", "/foodGroup"},
	} {
		s := NewSelector(paths(b, list...))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bytes / len(docs)))
			n := 0
			visit := func(int, Value) { n++ }
			for i := range b.N {
				s.Select(docs[i%len(docs)], visit)
			}
		})
	}
}
