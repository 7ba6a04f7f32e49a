package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

func TestEdit(t *testing.T) {
	const doc = ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `
	for _, tc := range []struct {
		edit Edit
		want string // "": an error that says says
		says string
	}{
		{Edit{Kind: EditSet, Path: "/n", Value: []byte(`"v"`)}, ` {"id" : "a","n": "v", "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditSet, Path: "/new", Value: []byte(`[1]`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true,"new":[1]} `, ""},
		{Edit{Kind: EditSet, Path: "/e/q\"\\\n", Value: []byte(`1`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{"q\"\\\u000a":1},"t\u0061g":true} `, ""},
		{Edit{Kind: EditSet, Path: "/l/1", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, 9 ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditSet, Path: "/l/3", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3,9],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditSet, Path: "/l/4", Value: []byte(`9`)}, "", "index"},
		{Edit{Kind: EditSet, Path: "/l/01", Value: []byte(`9`)}, "", "index"},
		{Edit{Kind: EditSet, Path: "/l/x", Value: []byte(`9`)}, "", "index"},
		{Edit{Kind: EditSet, Path: "/no/x", Value: []byte(`9`)}, "", "not there"},
		{Edit{Kind: EditSet, Path: "/n/x", Value: []byte(`9`)}, "", "no object"},
		{Edit{Kind: EditSet, Path: "n", Value: []byte(`9`)}, "", "slash"},
		{Edit{Kind: EditSet, Path: "", Value: []byte(`9`)}, "", "itself"},
		{Edit{Kind: EditSet, Path: "/a~2", Value: []byte(`9`)}, "", "~"},
		{Edit{Kind: EditAdd, Path: "/l/0", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[9,1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditAdd, Path: "/l/-", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3,9],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditAdd, Path: "/o/y~1z/-", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[9 ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditAdd, Path: "/tag", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":9} `, ""},
		{Edit{Kind: EditReplace, Path: "/l/1/k", Value: []byte(`9`)}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":9} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditReplace, Path: "/l/-", Value: []byte(`9`)}, "", "nothing"},
		{Edit{Kind: EditReplace, Path: "/no", Value: []byte(`9`)}, "", "nothing"},
		{Edit{Kind: EditRemove, Path: "/id"}, ` {"n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditRemove, Path: "/tag"}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{}} `, ""},
		{Edit{Kind: EditRemove, Path: "/l/1"}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, 3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditRemove, Path: "/l/1/k"}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditRemove, Path: "/no"}, "", "nothing"},
		{Edit{Kind: EditIncrement, Path: "/n", By: 41}, ` {"id" : "a","n": 42, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditIncrement, Path: "/n", By: -0.5}, ` {"id" : "a","n": 0.5, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditIncrement, Path: "/e/c", By: 2}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, {"k":2} ,3],"e":{"c":2},"t\u0061g":true} `, ""},
		{Edit{Kind: EditIncrement, Path: "/id", By: 2}, "", "no number"},
		{Edit{Kind: EditMove, From: "/l/0", Path: "/n"}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[{"k":2} ,3],"e":{},"t\u0061g":true} `, ""},
		{Edit{Kind: EditMove, From: "/l/1", Path: "/e/m"}, ` {"id" : "a","n": 1, "o":{"x":1.5,"y/z":[ ]},"l":[1, 3],"e":{"m":{"k":2}},"t\u0061g":true} `, ""},
		{Edit{Kind: EditMove, From: "/o", Path: "/o/x"}, "", "itself"},
		{Edit{Kind: EditMove, From: "/no", Path: "/o/x"}, "", "nothing"},
	} {
		t.Run(fmt.Sprint(tc.edit.Kind, " ", tc.edit.Path), func(t *testing.T) {
			got, err := tc.edit.Apply([]byte(doc))
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q, %v: want an error with %q", got, err, tc.says)
				}
				return
			}
			if err != nil || string(got) != tc.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, tc.want)
			}
		})
	}
}

func TestIncrement(t *testing.T) {
	for _, tc := range []struct {
		from, want string
		by         float64
	}{
		{"9007199254740993", "9007199254740994", 1}, // beyond the integers of doubles
		{"-9223372036854775808", "-9.223372036854776e+18", -1},
		{"9223372036854775807", "9.223372036854776e+18", 1},
		{"1e2", "101", 1},
		{"-0", "3", 3},
		{"5", "5", 0},
		{"1e308", "", 1.7e308},
		{"999999.5", "1000000", 0.5},
		{"1e17", "100000000000000000", 0.5},
		{"1e20", "1e+20", 0.5},
		{"-1234567.5", "-1234567.25", 0.25},
		{"0.000007", "0.000008", 0.000001},
		{"0", "1e-7", 1e-7},
		{"0.5", "1.5e+300", 1.5e300},
		{"0.5", "1.5", 1},
	} {
		got, err := (&Edit{Kind: EditIncrement, Path: "/n", By: tc.by}).Apply([]byte(`{"n":` + tc.from + `}`))
		if tc.want == "" {
			if err == nil {
				t.Errorf("%s + %v: %s", tc.from, tc.by, got)
			}
			continue
		}
		if err != nil || string(got) != `{"n":`+tc.want+`}` {
			t.Errorf("%s + %v: %s, %v", tc.from, tc.by, got, err)
		}
	}
}

// TestEditModel compares edits of random documents with the same on maps and
// slices.
func TestEditModel(t *testing.T) {
	seed := randtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var s Scanner
	paths, err := Compile([]string{"/k"})
	if err != nil {
		t.Fatal(err)
	}
	for range randtest.Lone(3000) {
		root := map[string]any{"id": "x", "a": randomValue(rng, 3), "b": randomValue(rng, 3)}
		doc, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			switch rng.IntN(3) { // written in another way
			case 0:
				var indented bytes.Buffer
				if err := json.Indent(&indented, doc, " ", "\t"); err != nil {
					t.Fatal(err)
				}
				doc = indented.Bytes()
			case 1:
				doc = bytes.ReplaceAll(doc, []byte(`"b"`), []byte(`"\u0062"`))
			}
			e := Edit{Kind: EditKind(rng.IntN(4)), Path: randomPath(rng)}
			e.Value, _ = json.Marshal(randomValue(rng, 1))
			got, err := e.Apply(doc)
			want, ok := applyModel(root, &e)
			if ok != (err == nil) {
				t.Fatalf("seed %d: %s %s in %s: %v, model %v", seed, e.Kind, e.Path, doc, err, ok)
			}
			if err != nil {
				continue
			}
			var have any
			if err := json.Unmarshal(got, &have); err != nil || !reflect.DeepEqual(have, want) {
				t.Fatalf("seed %d: %s %s %s in %s: %s, %v", seed, e.Kind, e.Path, e.Value, doc, got, err)
			}
			var d Doc
			if err := s.Scan(got, paths, Limits{}, &d); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, got, err)
			}
			root, doc = want.(map[string]any), got
		}
	}
}

func randomValue(rng *rand.Rand, depth int) any {
	if depth == 0 {
		return []any{"s", 1.5, true, nil}[rng.IntN(4)]
	}
	if rng.IntN(2) == 0 {
		list := make([]any, rng.IntN(3))
		for i := range list {
			list[i] = randomValue(rng, depth-1)
		}
		return list
	}
	m := make(map[string]any)
	for range rng.IntN(3) {
		m[string("abc"[rng.IntN(3)])] = randomValue(rng, depth-1)
	}
	return m
}

func randomPath(rng *rand.Rand) string {
	path := "/" + string("ab"[rng.IntN(2)])
	for range rng.IntN(3) {
		path += "/" + []string{"a", "b", "c", "0", "1", "-"}[rng.IntN(6)]
	}
	return path
}

// applyModel makes a change in a copy of a document.
func applyModel(root any, e *Edit) (any, bool) {
	var value any
	if err := json.Unmarshal(e.Value, &value); err != nil {
		return nil, false
	}
	var at func(v any, tokens []string) (any, bool)
	at = func(v any, tokens []string) (any, bool) {
		last := len(tokens) == 1
		switch v := v.(type) {
		case map[string]any:
			out := make(map[string]any)
			for name, member := range v {
				out[name] = member
			}
			old, exists := v[tokens[0]]
			switch {
			case !last && !exists, last && !exists && e.Kind >= EditReplace:
				return nil, false
			case !last:
				child, ok := at(old, tokens[1:])
				out[tokens[0]] = child
				return out, ok
			case e.Kind == EditRemove:
				delete(out, tokens[0])
			default:
				out[tokens[0]] = value
			}
			return out, true
		case []any:
			out := append([]any{}, v...)
			i := len(v)
			if tokens[0] != "-" {
				if _, err := fmt.Sscanf(tokens[0], "%d", &i); err != nil {
					return nil, false
				}
			}
			switch {
			case i > len(v), i == len(v) && (!last || e.Kind >= EditReplace):
				return nil, false
			case !last:
				child, ok := at(v[i], tokens[1:])
				out[i] = child
				return out, ok
			case e.Kind == EditRemove:
				return append(out[:i], out[i+1:]...), true
			case e.Kind == EditAdd, i == len(v):
				return append(append(append([]any{}, v[:i]...), value), v[i:]...), true
			}
			out[i] = value
			return out, true
		}
		return nil, false
	}
	return at(root, strings.Split(e.Path, "/")[1:])
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"id":"a","l":[1,{"x":2}]}`), "/l/1/x", "/l/0", uint8(0))
	f.Add([]byte(`{"id":"a", "o" : { } }`), "/o/n", "/id", uint8(5))
	for _, doc := range []string{`{"o"}`, `{"o"`, `{"o":`, `{"o":"`, `{"o":[`, `{1:2}`, `{"o":}`, `{"o" 1 "l" 2}`, `{"\uabc\\":1}`} {
		f.Add([]byte(doc), "/o", "/o", uint8(4))
	}
	paths, err := Compile([]string{"/k"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte, path, from string, kind uint8) {
		before := bytes.Clone(doc)
		e := Edit{Kind: EditKind(kind % 6), Path: path, From: from, Value: []byte(`{"v":[1]}`), By: 3}
		got, err := e.Apply(doc) // must not panic, whatever the bytes are
		if !bytes.Equal(doc, before) {
			t.Fatal("the document was changed")
		}
		var s Scanner
		var d Doc
		if err != nil || s.Scan(doc, paths, Limits{}, &d) != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s %q %q of %q: %q", e.Kind, path, from, doc, got)
		}
		if err := s.Scan(got, paths, Limits{}, &d); err != nil && !slices.Contains([]string{"/id", "/ttl", "/k"}, path) && !slices.Contains([]string{"/id", "/ttl", "/k"}, from) {
			if kind := err.(*Error).Kind; kind != ErrTooDeep {
				t.Fatalf("%s %q %q of %q: %q: %v", e.Kind, path, from, doc, got, err)
			}
		}
	})
}
