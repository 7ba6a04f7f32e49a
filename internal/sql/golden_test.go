package sql_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// TestGolden carries out the commands in testdata. Arguments are parameters, as
// NAME=JSON; documents stand on lines of their own behind a query or condition.
//
//	parse     a query: its parts, or the refusal with its place; of one that exec does not do
//	          as a whole, its text
//	match     a condition: what it is for each document
//	rows      a query: the rows of the documents, in the order in which they stand
//	order     values: sorted, those without an order on one line
//	simplify  a condition: an equal one
//	values    PATH, a condition: the values that matching documents have there
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			first, rest, _ := strings.Cut(c.Input, "\n")
			docs := strings.Split(rest, "\n")
			switch c.Cmd {
			case "order":
				return ordered(strings.Split(c.Input, "\n"), c.HasArg("DESC"))
			case "parse":
				return parsed(c.Input, c.CmdArgs, describe)
			case "rows":
				return parsed(first, c.CmdArgs, func(s *query.Select) string { return rows(s, docs) })
			case "match":
				return parsed("SELECT * FROM c WHERE "+first, c.CmdArgs, func(s *query.Select) string { return truths(s.Where, docs) })
			case "simplify":
				return parsed("SELECT * FROM c WHERE "+first, c.CmdArgs, func(s *query.Select) string { return s.Where.Simplify().String() })
			case "values":
				at, err := query.ParsePath(c.CmdArgs[0].Key)
				if err != nil {
					t.Fatalf("%s: %v", c.Pos, err)
				}
				return parsed("SELECT * FROM c WHERE "+first, nil, func(s *query.Select) string { return valuesAt(s.Where, at) })
			}
			t.Fatalf("%s: no command %s", c.Pos, c.Cmd)
			return ""
		})
	})
}

// parsed parses a query and calls show, or tells of the refusal.
func parsed(text string, args []datadriven.CmdArg, show func(*query.Select) string) string {
	parameters := make(map[string]any)
	for _, arg := range args {
		var v any
		if err := json.Unmarshal([]byte(arg.Vals[0]), &v); err != nil {
			return fmt.Sprintf("%s: %v", arg, err)
		}
		parameters[arg.Key] = v
	}
	st, err := sql.Parse(text, parameters, sql.Options{})
	var bad *syntax.Error
	switch {
	case errors.As(err, &bad):
		return fmt.Sprintf("byte %d, %v", bad.Offset, err)
	case err != nil:
		return fmt.Sprintf("no *syntax.Error: %v", err)
	}
	s := *st.Select
	s.Offset, s.Limit = st.Offset, st.Limit
	if err := s.Check(); err != nil {
		return fmt.Sprintf("parsed, but %v", err)
	}
	if !st.Whole() {
		return "evaluated: " + st.Text()
	}
	return show(&s)
}

func describe(s *query.Select) string {
	var b strings.Builder
	part := func(name string, list ...string) {
		if len(list) > 0 {
			fmt.Fprintf(&b, "%-9s%s\n", name, strings.Join(list, ", "))
		}
	}
	var columns, groups, orders []string
	for _, c := range s.Columns {
		text := c.Path.String()
		if c.Func != query.NoFunc {
			if c.Path == nil {
				text = "1"
			}
			text = fmt.Sprintf("%v(%s)", c.Func, text)
		}
		if !s.Value {
			text += " as " + c.Name
		}
		columns = append(columns, text)
	}
	switch {
	case s.Value:
		part("value", columns...)
	case len(columns) == 0:
		part("columns", "whole documents")
	default:
		part("columns", columns...)
	}
	if s.Distinct {
		part("distinct", "yes")
	}
	part("where", s.Where.String())
	for _, p := range s.GroupBy {
		groups = append(groups, p.String())
	}
	for _, o := range s.OrderBy {
		text := o.Path.String()
		if o.Falling {
			text += " falling"
		}
		orders = append(orders, text)
	}
	part("group", groups...)
	part("order", orders...)
	if s.Offset+s.Limit > 0 {
		part("limit", fmt.Sprintf("%d behind %d", s.Limit, s.Offset))
	}
	return b.String()
}

// truths tells what a condition is for each document: a document is found if it is true,
// and by NOT if it is false.
func truths(f *query.Filter, docs []string) string {
	yes := query.Compile(f, nil).Evaluator()
	no := query.Compile(&query.Filter{Op: query.Not, Sub: []*query.Filter{f}}, nil).Evaluator()
	var b strings.Builder
	for _, doc := range docs {
		truth := "undefined"
		switch y, n := yes.Match([]byte(doc)), no.Match([]byte(doc)); {
		case y && n:
			truth = "both"
		case y:
			truth = "true"
		case n:
			truth = "false"
		}
		fmt.Fprintf(&b, "%-10s %s\n", truth, doc)
	}
	return b.String()
}

func valuesAt(f *query.Filter, path query.Path) string {
	values := f.ValuesAt(path)
	if values == nil {
		return "any"
	}
	return fmt.Sprint(values)
}

// rows returns the rows of documents: those of groups in the order of the groups.
func rows(s *query.Select, docs []string) string {
	if len(s.OrderBy) > 0 && !s.Grouped() || s.Limit > 0 || s.Offset > 0 || len(s.Columns) == 0 {
		return "package query makes neither orders nor pages"
	}
	paths, g := s.ColumnPaths(), (*query.Grouper)(nil)
	if s.Grouped() {
		g = s.Grouper()
		paths = g.Paths()
	}
	e := query.Compile(s.Where, paths).Evaluator()
	var b strings.Builder
	line := func(row []byte, some bool) {
		if !some {
			row = []byte("(none)")
		}
		fmt.Fprintf(&b, "%s\n", row)
	}
	for _, doc := range docs {
		switch {
		case !e.Match([]byte(doc)):
		case g != nil:
			g.Add(e.Wanted)
		default:
			line(s.Projector().Append(nil, e.Wanted))
		}
	}
	if g != nil {
		for _, key := range g.Keys() {
			line(g.Append(nil, key))
		}
	}
	return b.String()
}

// ordered sorts values by their order keys.
func ordered(values []string, falling bool) string {
	path, _ := query.ParsePath("/v")
	e := query.Compile(&query.Filter{}, []query.Path{path}).Evaluator()
	keys := make(map[string][]byte)
	for _, v := range values {
		doc := fmt.Sprintf(`{"v":%s}`, v)
		if v == "undefined" {
			doc = "{}"
		}
		e.Match([]byte(doc))
		keys[v] = query.AppendOrder(nil, &e.Wanted[0], false)
		if falling {
			query.Invert(keys[v])
		}
	}
	slices.SortStableFunc(values, func(a, b string) int { return bytes.Compare(keys[a], keys[b]) })
	var b strings.Builder
	for i, v := range values {
		switch {
		case i == 0:
		case bytes.Equal(keys[v], keys[values[i-1]]):
			b.WriteString("  ")
		default:
			b.WriteByte('\n')
		}
		b.WriteString(v)
	}
	return b.String()
}
