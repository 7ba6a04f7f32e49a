package query_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// TestValueOf: what Go values are as constants.
func TestValueOf(t *testing.T) {
	for _, test := range []struct {
		v    any
		want string // as JSON, or the refusal
	}{
		{nil, "null"}, {true, "true"}, {false, "false"}, {"é\"", `"é\""`}, {"", `""`},
		{1.5, "1.5"}, {float32(0.5), "0.5"}, {math.Inf(1), "1e999"}, {math.Copysign(0, -1), "0"},
		{-1, "-1"}, {int8(-8), "-8"}, {int16(-16), "-16"}, {int32(-32), "-32"}, {int64(math.MinInt64), "-9223372036854776000"},
		{uint(1), "1"}, {uint8(8), "8"}, {uint16(16), "16"}, {uint32(32), "32"}, {uint64(math.MaxUint64), "18446744073709552000"},
		{json.Number("12"), "12"}, {json.Number("-1e400"), "-1e999"}, {json.Number("x"), `"x" is no number`},
		{query.Value{Kind: jsondoc.KindBool, Bool: true}, "true"},
		{math.NaN(), "NaN is no value"}, {json.Number("nan"), "NaN is no value"},
		{"\xff", "a string is not valid UTF-8"},
		{strings.Repeat("x", query.MaxConstants+1), "a string of 2097153 bytes: at most 2097152 can be compared with"},
		{[]int{1}, "[]int is no value: want nil, a boolean, a number or a string"},
		{struct{}{}, "struct {} is no value: want nil, a boolean, a number or a string"},
		{new(int), "*int is no value: want nil, a boolean, a number or a string"},
	} {
		v, err := query.ValueOf(test.v)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%T: %s, want %s", test.v, got, test.want)
		}
	}
	if got := (query.Value{}).String(); got != "undefined" {
		t.Errorf("the zero Value is %s", got)
	}
}

// TestCheck: queries that only a program can make and that have no meaning.
func TestCheck(t *testing.T) {
	path, number, text := query.Path{{Name: "a"}}, query.Value{Kind: jsondoc.KindNumber}, query.Value{Kind: jsondoc.KindString}
	deep := &query.Filter{}
	for range query.MaxDepth {
		deep = &query.Filter{Op: query.Not, Sub: []*query.Filter{deep}}
	}
	for _, test := range []struct {
		s    query.Select
		want string
	}{
		{query.Select{Where: &query.Filter{Op: query.Not, Sub: []*query.Filter{{}, {}}}}, "not of 2 conditions"},
		{query.Select{Where: &query.Filter{Op: query.Not}}, "not of 0 conditions"},
		{query.Select{Where: deep}, "a filter of more than 100 nested conditions"},
		{query.Select{Where: deep.Sub[0]}, ""},
		{query.Select{Where: &query.Filter{Op: query.Eq, Value: number}}, "a condition without a path"},
		{query.Select{Where: &query.Filter{Op: query.Range, Path: path}}, "range of /a: no bound"},
		{query.Select{Where: &query.Filter{Op: query.Range, Path: path, Lo: query.Limit{Value: number}, Hi: query.Limit{Value: text}}}, "range of /a: bounds are a number and a string"},
		{query.Select{Where: &query.Filter{Op: query.Prefix, Path: path, Value: number}}, "/a: the text to look for is a number"},
		{query.Select{Where: &query.Filter{Op: query.Contains, Path: path}}, "/a: the text to look for is a undefined"},
		{query.Select{Where: &query.Filter{Op: query.In, Path: path}}, ""},
		{query.Select{Where: &query.Filter{Op: query.In, Path: path, Values: make([]query.Value, query.MaxLeaves+1)}}, "a filter of more than 10000 conditions and values"},
		{query.Select{Offset: -1}, "offset -1, limit 0: must not be negative"},
		{query.Select{Limit: -2}, "offset 0, limit -2: must not be negative"},
		{query.Select{Value: true}, "0 columns: bare values are of one"},
		{query.Select{Columns: []query.Column{{Func: query.Sum}}}, "column without a path"},
		{query.Select{Columns: []query.Column{{Func: query.Count}}, GroupBy: []query.Path{nil}}, "group without a path"},
		{query.Select{OrderBy: []query.Order{{}}}, "order without a path"},
		{query.Select{OrderBy: make([]query.Order, 101)}, "more than 100 columns or paths"},
		{query.Select{GroupBy: make([]query.Path, 101)}, "more than 100 columns or paths"},
	} {
		if test.s.Where == nil {
			test.s.Where = &query.Filter{}
		}
		got := ""
		if err := test.s.Check(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v: %q, want %q", test.s, got, test.want)
		}
	}
}
