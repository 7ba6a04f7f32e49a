package docpatch

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// equals is the condition that a member has a value.
func equals(path string, n float64) *query.Filter {
	return &query.Filter{Op: query.Eq, Path: jsondoc.KeyPath(path), Value: query.Value{Kind: jsondoc.KindNumber, Number: n}}
}

// TestApply: edits see what the edits before them left; the document itself stays.
func TestApply(t *testing.T) {
	doc := []byte(`{"n":1,"l":[1,2],"o":{"p":true}}`)
	before := string(doc)
	var p Patch
	p.Value(jsondoc.EditSet, "/s", "t")
	p.Value(jsondoc.EditAdd, "/l/0", 0)
	p.Increment("/n", 2)
	p.Move("/o/p", "/q")
	p.Remove("/s")
	p.When(equals("/n", 1), nil)
	if err := p.Check(); err != nil || p.Len() != 5 {
		t.Fatal(p.Len(), err)
	}
	got, err := p.Apply(t.Context(), doc, 0)
	if want := `{"n":3,"l":[0,1,2],"o":{},"q":true}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if string(doc) != before {
		t.Errorf("the document was changed in place: %s", doc)
	}
	if _, err := p.Apply(t.Context(), got, 0); !errors.Is(err, ErrCondition) {
		t.Errorf("the condition is not true any more: %v", err)
	}
	var undefined Patch
	undefined.Remove("/n")
	undefined.When(equals("/missing", 1), nil)
	if _, err := undefined.Apply(t.Context(), doc, 0); !errors.Is(err, ErrCondition) {
		t.Errorf("the condition is undefined: %v", err)
	}
}

// TestValue: values are encoded without escapes for HTML, and raw ones stay as they are but
// for white space.
func TestValue(t *testing.T) {
	raw := json.RawMessage(` ["a&b", "\u0026<\u00e9"] `)
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"<a&b>", `"<a&b>"`},
		{raw, `["a&b","\u0026<\u00e9"]`},
		{&raw, `["a&b","\u0026<\u00e9"]`},
		{map[string]any{"r": raw}, `{"r":["a&b","\u0026<\u00e9"]}`},
		{json.RawMessage(nil), "null"},
		{"two\n", `"two\n"`},
	} {
		var p Patch
		p.Value(jsondoc.EditSet, "/v", tc.value)
		got, err := p.Apply(t.Context(), []byte(`{"n":1}`), 0)
		if want := `{"n":1,"v":` + tc.want + `}`; err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	var p Patch
	p.Value(jsondoc.EditSet, "/v", json.RawMessage(`1 2`))
	if p.Check() == nil {
		t.Error("two values are none")
	}
}

// TestErrors: the first edit that cannot be made is named, met early or late.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		build func(*Patch)
		index int // of the edit; -1: the error names none
		late  bool
	}{
		{"empty", func(*Patch) {}, -1, false},
		{"bad path", func(p *Patch) { p.Remove("/a"); p.Remove("a"); p.Remove("b") }, 1, false},
		{"bad source of a move", func(p *Patch) { p.Move("a", "/b") }, 0, false},
		{"no number", func(p *Patch) { p.Increment("/n", math.NaN()) }, 0, false},
		{"no JSON", func(p *Patch) { p.Value(jsondoc.EditSet, "/n", func() {}) }, 0, false},
		{"too many", func(p *Patch) {
			for range MaxEdits + 1 {
				p.Value(jsondoc.EditSet, "/n", 1)
			}
		}, MaxEdits, false},
		{"bad condition", func(p *Patch) { p.Remove("/n"); p.When(nil, errors.New("bad")) }, -1, false},
		{"missing place", func(p *Patch) { p.Value(jsondoc.EditSet, "/a", 1); p.Remove("/no") }, 1, true},
	} {
		var p Patch
		tc.build(&p)
		err := p.Check()
		if (err == nil) != tc.late {
			t.Errorf("%s: Check: %v", tc.name, err)
		}
		if tc.late {
			_, err = p.Apply(t.Context(), []byte(`{"n":1}`), 0)
		}
		at := &Error{Index: -1}
		if errors.As(err, &at); err == nil || at.Index != tc.index {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
