package query

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// TestBuild: conditions built of texts and values read as the text form writes them, or name
// the path that is wrong.
func TestBuild(t *testing.T) {
	build := func(f *Filter, err error) string {
		if err != nil {
			if f != nil {
				t.Errorf("%v with the error %v", f, err)
			}
			return "error: " + err.Error()
		}
		return f.String()
	}
	one := Bound{Value: 1, Some: true, Inclusive: true}
	for _, tc := range []struct{ got, want string }{
		{build(Leaf(Eq, "/n", 1)), `/n = 1`},
		{build(Leaf(In, "/n", 1, "x")), `/n IN (1, "x")`},
		{build(Leaf(In, "/n", nil)), `/n IN (null)`},
		{build(Leaf(Exists, "/n")), `IS_DEFINED(/n)`},
		{build(Between("/n", one, Bound{Value: 2.5, Some: true})), `1 <= /n < 2.5`},
		{build(Between("/n", Bound{}, one)), `/n <= 1`},
		{build(OfKinds("/n", []Kind{jsondoc.KindNull})), `/n IS null`},
		{build(Leaf(Eq, "n", 1)), "error:"},
		{build(Leaf(Eq, "/n", math.NaN())), "error: /n: NaN"},
		{build(Between("n", one, one)), "error:"},
		{build(Between("/n", one, Bound{Value: t, Some: true})), "error: /n: *testing.T is no value"},
		{build(OfKinds("n", nil)), "error:"},
		{build(OfKinds("/n", []Kind{jsondoc.KindUndefined})), "error: /n: type 0"},
		{build(OfKinds("/n", []Kind{jsondoc.KindObject + 1})), "error: /n: type 7"},
	} {
		if tc.got != tc.want && !(strings.HasPrefix(tc.want, "error") && strings.HasPrefix(tc.got, tc.want)) {
			t.Errorf("%s, want %s", tc.got, tc.want)
		}
	}
}

// TestField: columns of texts, their names, and back.
func TestField(t *testing.T) {
	for _, tc := range []struct{ in, back Field }{
		{Field{Path: "/a/b"}, Field{Path: "/a/b", As: "b"}},
		{Field{Path: "/a/b", As: "x"}, Field{Path: "/a/b", As: "x"}},
		{Field{Func: Count}, Field{As: "$3", Func: Count}},
		{Field{Path: "/a", Func: Max}, Field{Path: "/a", As: "$3", Func: Max}},
	} {
		c, err := tc.in.Column(2)
		if err != nil || c.Field() != tc.back {
			t.Errorf("%+v: %+v, %v; want %+v", tc.in, c.Field(), err, tc.back)
		}
	}
	for _, bad := range []Field{{Path: "a"}, {Func: Max + 1}} {
		if _, err := bad.Column(0); err == nil {
			t.Errorf("%+v: %v", bad, errors.ErrUnsupported)
		}
	}
}

// TestCanonical: equal values have one canonical text, which is JSON, and other values have
// another one. Damaged documents, which may have brackets without end, have some text too.
func TestCanonical(t *testing.T) {
	text := func(written string) string {
		w := jsondoc.Walk([]byte(written))
		v := w.Whole()
		return string(appendCanonical(nil, &v, 0))
	}
	for want, list := range map[string][]string{
		`[1,0,100]`:                 {`[1,0,100]`, `[1.0,-0,1e2]`, "[ 10e-1,\t0.0 , 100 ]"},
		`[1e999,-1e999,0]`:          {`[1e400,-1e999,1e-400]`},
		`[9007199254740992]`:        {`[9007199254740992]`, `[9007199254740993]`},
		`{"a":1,"b":{"c":2,"d":3}}`: {`{"b":{"d":3,"c":2},"a":1}`, `{ "\u0061":1.0, "b" : {"c":2,"d":3.0} }`},
		`["é","\u0000","\"/",""]`:   {`["\u00e9","\u0000","\"\/",""]`},
		`[[],{},null,true,false]`:   {`[ [ ] , { } , null,true,false ]`},
		`{"":[{"a":[]}]}`:           {`{"":[{"a":[]}]}`},
	} {
		for _, written := range list {
			if got := text(written); got != want {
				t.Errorf("%s: %s, want %s", written, got, want)
			}
		}
	}
	for _, damaged := range []string{strings.Repeat("[", 1<<12), strings.Repeat(`{"a":`, 1<<12), `{"a"`, `{1`, `[1`, `["`, `{"a":"`} {
		text(damaged)
	}
}
