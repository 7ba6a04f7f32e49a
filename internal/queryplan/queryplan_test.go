package queryplan

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/sql/reference"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// TestForms: the rewritten queries and the types have the form that clients read.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * FROM c WHERE c.a = @p":                                                          `None "" [] [] map[] false`,
		"SELECT * FROM c WHERE c.a = 1 OR c.b ORDER BY c.x":                                       `None "SELECT c._rid, [{\"item\": c.x}] AS orderByItems, c AS payload FROM c WHERE (c.a = 1 OR c.b) AND ({documentdb-formattableorderbyquery-filter}) ORDER BY c.x" [Ascending] [] map[] true`,
		"SELECT c.a, c.b AS d FROM root c ORDER BY c.x DESC, c.y OFFSET 2 LIMIT 3":                `None "SELECT c._rid, [{\"item\": c.x}, {\"item\": c.y}] AS orderByItems, {\"a\": c.a, \"d\": c.b} AS payload FROM root AS c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.x DESC, c.y OFFSET 0 LIMIT 5" [Descending Ascending] [] map[] true`,
		"SELECT TOP 4 VALUE c.a FROM c ORDER BY c.a":                                              `None "SELECT TOP 4 c._rid, [{\"item\": c.a}] AS orderByItems, c.a AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a" [Ascending] [] map[] true`,
		`SELECT c.a, 'filter\u005f' AS x FROM c ORDER BY c.a`:                                     `None "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, {\"a\": c.a, \"x\": \"filter_\"} AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a" [Ascending] [] map[] true`,
		`SELECT c["filter\u005f"] AS x FROM c ORDER BY c.filter__`:                                `None "SELECT c._rid, [{\"item\": c.filter__}] AS orderByItems, {\"x\": c.filter_} AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.filter__" [Ascending] [] map[] true`,
		"SELECT VALUE COUNT(1) FROM c":                                                            `None "SELECT VALUE [{\"item\": COUNT(1)}] FROM c" [] [Count] map[] true`,
		"SELECT VALUE AVG(c.a) FROM c WHERE c.b > 1":                                              `None "SELECT VALUE [{\"item\": {\"sum\": SUM(c.a), \"count\": COUNT(c.a)}}] FROM c WHERE c.b > 1" [] [Average] map[] true`,
		"SELECT MAX(c.a) AS m, COUNT(1) FROM c":                                                   `None "SELECT {\"m\": {\"item\": MAX(c.a), \"item2\": {\"max\": MAX(c.a), \"count\": COUNT(c.a)}}, \"$1\": {\"item\": COUNT(1)}} AS payload FROM c" [] [] map[$1:Count m:Max] true`,
		"SELECT c.k, MIN(c.a) AS m FROM c GROUP BY c.k":                                           `None "SELECT [{\"item\": c.k}] AS groupByItems, {\"k\": c.k, \"m\": {\"item\": MIN(c.a), \"item2\": {\"min\": MIN(c.a), \"count\": COUNT(c.a)}}} AS payload FROM c GROUP BY c.k" [] [] map[k: m:Min] true`,
		"SELECT VALUE c.k FROM c GROUP BY c.k":                                                    `None "SELECT [{\"item\": c.k}] AS groupByItems, c.k AS payload FROM c GROUP BY c.k" [] [] map[] true`,
		"SELECT DISTINCT VALUE c.a FROM c":                                                        `Unordered "SELECT DISTINCT VALUE c.a FROM c" [] [] map[] true`,
		"SELECT DISTINCT c.a FROM c ORDER BY c.a":                                                 `Unordered "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, {\"a\": c.a} AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a" [Ascending] [] map[] true`,
		"SELECT DISTINCT VALUE e.id FROM c.e ORDER BY e.id":                                       `Unordered "SELECT e._rid, [{\"item\": e.id}] AS orderByItems, e.id AS payload FROM c.e WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY e.id" [Ascending] [] map[] true`,
		"SELECT DISTINCT c.id, c.a FROM c WHERE c.b = 1 AND IS_PRIMITIVE(c.a) ORDER BY c.a, c.id": `Ordered "SELECT c._rid, [{\"item\": c.a}, {\"item\": c.id}] AS orderByItems, {\"id\": c.id, \"a\": c.a} AS payload FROM c WHERE (c.b = 1 AND IS_PRIMITIVE(c.a)) AND ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a, c.id" [Ascending Ascending] [] map[] true`,
		"SELECT DISTINCT VALUE c.a FROM c WHERE c.b = 1 OR IS_STRING(c.a) ORDER BY c.a":           `Unordered "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, c.a AS payload FROM c WHERE (c.b = 1 OR IS_STRING(c.a)) AND ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a" [Ascending] [] map[] true`,
		"SELECT DISTINCT c.a FROM c OFFSET 1 LIMIT 2":                                             `Unordered "SELECT DISTINCT c.a FROM c" [] [] map[] true`,
		"SELECT TOP @n * FROM c":                                                                  `None "SELECT TOP 7 * FROM c" [] [] map[] true`,
		"SELECT c.id, t FROM c JOIN t IN c.t WHERE udf.f(t) = @p":                                 `None "" [] [] map[] false`,
		"SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.t) FROM c":                               `None "" [] [] map[] false`,
		"SELECT VALUE COUNT(1) + 1 FROM c":                                                        `column 14: an aggregate inside of another expression cannot be answered over several partitions: select it alone, and compute in the program`,
		"SELECT COUNT(1) AS n FROM c ORDER BY COUNT(1)":                                           `column 1: ORDER BY and DISTINCT with GROUP BY or aggregates cannot be answered over several partitions`,
		"SELECT c.a FROM": `column 16: expected a name or a subquery in parentheses, found the end`,
	} {
		p, err := Of(text, map[string]any{"n": 7, "p": "x"})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			i := &p.Info
			types := make(map[string]string)
			for name, kind := range i.GroupByAliasToAggregateType {
				if types[name] = ""; kind != nil {
					types[name] = *kind
				}
			}
			got = fmt.Sprintf("%s %q %v %v %v %v", i.DistinctType, i.RewrittenQuery, i.OrderBy, i.Aggregates, types, p.Merges())
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	p, err := Of("SELECT * FROM c", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"partitionedQueryExecutionInfoVersion":2,"queryInfo":{"distinctType":"None","top":null,"offset":null,"limit":null,"orderBy":[],"orderByExpressions":[],"groupByExpressions":[],"groupByAliases":[],"aggregates":[],"groupByAliasToAggregateType":{},"rewrittenQuery":"","hasSelectValue":false,"dCountInfo":null,"hasNonStreamingOrderBy":false},"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// TestLongName: a query with a long name like that of the placeholder has a plan at once.
func TestLongName(t *testing.T) {
	p, err := Of("SELECT * FROM c ORDER BY c.filter"+strings.Repeat("_", 400_000), nil)
	if err != nil || !strings.Contains(p.Info.RewrittenQuery, " WHERE ("+FilterPlaceholder+") ") {
		t.Errorf("no placeholder, error %v", err)
	}
}

// TestLargestLimit: what is sent to each partition is a query, also if OFFSET and LIMIT are as large as
// they can be.
func TestLargestLimit(t *testing.T) {
	for _, text := range []string{"SELECT * FROM c OFFSET 2147483647 LIMIT 2147483647", "SELECT * FROM c ORDER BY c.a OFFSET 1 LIMIT 2147483647"} {
		p, err := Of(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := syntax.Parse(strings.ReplaceAll(p.Info.RewrittenQuery, FilterPlaceholder, "true"))
		if err != nil || q.Limit.N != math.MaxInt32 {
			t.Errorf("%s: %s: %v", text, p.Info.RewrittenQuery, err)
		}
	}
}

// merged does what a client does with the results of partitions.
func merged(t *testing.T, p *Plan, parts [][]any) []any {
	i := &p.Info
	var all []any
	for _, part := range parts {
		all = append(all, part...)
	}
	member := func(v any, name string) any {
		if m, ok := v.(map[string]any)[name]; ok {
			return m
		}
		return reference.Undefined
	}
	if len(i.OrderBy) > 0 {
		slices.SortStableFunc(all, func(a, b any) int {
			x, y := member(a, "orderByItems").([]any), member(b, "orderByItems").([]any)
			for n := range x {
				if c := reference.Compare(member(x[n], "item"), member(y[n], "item")); c != 0 {
					if i.OrderBy[n] == "Descending" {
						c = -c
					}
					return c
				}
			}
			return 0
		})
		for n, v := range all {
			all[n] = member(v, "payload")
		}
	}
	if len(i.Aggregates)+len(i.GroupByAliases)+len(i.GroupByExpressions) > 0 {
		all = mergedGroups(t, i, all)
	}
	all = slices.DeleteFunc(all, func(v any) bool { return v == reference.Undefined })
	if i.DistinctType != "None" {
		seen := make(map[string]bool)
		all = slices.DeleteFunc(all, func(v any) bool {
			key := canonical(t, v)
			had := seen[key]
			if i.DistinctType == "Ordered" {
				clear(seen) // only of the result before
			}
			seen[key] = true
			return had
		})
	}
	if i.Offset != nil {
		all = all[min(*i.Offset, len(all)):]
	}
	for _, most := range []*int{i.Top, i.Limit} {
		if most != nil {
			all = all[:min(*most, len(all))]
		}
	}
	return all
}

// mergedGroups merges the parts of groups.
func mergedGroups(t *testing.T, i *Info, all []any) (out []any) {
	byKey := make(map[string][]any)
	var keys []string
	for _, v := range all {
		key := ""
		payload := v
		if row, ok := v.(map[string]any); ok && (row["groupByItems"] != nil || !i.HasSelectValue) {
			key = canonical(t, row["groupByItems"])
			if payload, ok = row["payload"]; !ok {
				payload = reference.Undefined
			}
		}
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], payload)
	}
	for _, key := range keys {
		list := byKey[key]
		if i.HasSelectValue {
			if len(i.Aggregates) == 0 {
				out = append(out, list[0])
				continue
			}
			var parts []any
			for _, v := range list {
				parts = append(parts, v.([]any)[0])
			}
			out = append(out, mergedParts(i.Aggregates[0], parts))
			continue
		}
		row := make(map[string]any)
		for _, name := range i.GroupByAliases {
			if kind := i.GroupByAliasToAggregateType[name]; kind != nil {
				var parts []any
				for _, v := range list {
					parts = append(parts, v.(map[string]any)[name])
				}
				if v := mergedParts(*kind, parts); v != reference.Undefined {
					row[name] = v
				}
			} else if v, ok := list[0].(map[string]any)[name]; ok {
				row[name] = v
			}
		}
		out = append(out, row)
	}
	return out
}

// mergedParts merges the parts of one aggregate.
func mergedParts(kind string, parts []any) any {
	total, n := 0.0, 0.0
	best := reference.Undefined
	list := []any{}
	for _, p := range parts {
		part := p.(map[string]any)
		v, ok := part["item"]
		if second, has := part["item2"]; has {
			v, ok = second, true
		}
		if !ok {
			return reference.Undefined
		}
		switch kind {
		case "Count", "CountIf", "Sum":
			total += v.(float64)
		case "Average":
			s, ok := v.(map[string]any)["sum"]
			if !ok {
				return reference.Undefined
			}
			total += s.(float64)
			n += v.(map[string]any)["count"].(float64)
		case "Min", "Max":
			m := v.(map[string]any)
			x, ok := m[strings.ToLower(kind)]
			if m["count"].(float64) == 0 {
				continue
			}
			if !ok {
				return reference.Undefined
			}
			if c := reference.Compare(x, best); best == reference.Undefined || kind == "Min" && c < 0 || kind == "Max" && c > 0 {
				best = x
			}
		default:
			list = append(list, v.([]any)...)
		}
	}
	switch kind {
	case "Average":
		if n == 0 {
			return reference.Undefined
		}
		return total / n
	case "Min", "Max":
		return best
	case "MakeList", "MakeSet":
		return list
	}
	return total
}

func canonical(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMergedAgainstReference: the results of partitions, merged as the plan says, are those
// of the query over all documents.
func TestMergedAgainstReference(t *testing.T) {
	d := reference.Draw{Rand: rand.New(rand.NewPCG(5, 6))}
	one := func(list ...string) string { return list[d.IntN(len(list))] }
	path := func() string { return "c." + one("a", "b", "n", "s", "o.a", "t[0]") }
	aggregate := func() string {
		return one("COUNT", "SUM", "AVG", "MIN", "MAX", "COUNTIF", "COUNT", "MAKELIST") + "(" + one(path(), "1", d.Expr(2, []string{"c"}, false)) + ")"
	}
	some := 0
	for range 3000 {
		where := one("", "", " WHERE "+d.Expr(2, []string{"c"}, false))
		limits := one("", "", " OFFSET 1 LIMIT 3", " OFFSET 0 LIMIT 4")
		order := " ORDER BY " + path() + one("", " DESC") + one("", ", "+d.Expr(1, []string{"c"}, false)+" DESC")
		p := path()
		text := one(
			"SELECT * FROM c"+where+order+limits,
			"SELECT "+path()+" AS x, "+d.Expr(2, []string{"c"}, false)+" FROM c"+where+order+limits,
			"SELECT VALUE ["+path()+"] FROM c"+where+order+limits,
			"SELECT {x: "+path()+", t: t} AS r FROM c JOIN t IN c.t"+where+order+limits,
			"SELECT VALUE "+aggregate()+" FROM c"+where,
			"SELECT "+aggregate()+" AS x, "+aggregate()+" FROM c"+where,
			"SELECT "+p+" AS k, "+aggregate()+" AS x FROM c"+where+" GROUP BY "+p,
			"SELECT VALUE "+p+" FROM c"+where+" GROUP BY "+p,
			"SELECT VALUE "+aggregate()+" FROM c"+where+" GROUP BY "+p,
			"SELECT DISTINCT VALUE "+p+" FROM c"+where,
			"SELECT DISTINCT "+p+" AS x FROM c"+where+" ORDER BY "+p,
			"SELECT DISTINCT VALUE "+p+" FROM c WHERE "+one("IS_STRING", "IS_NUMBER", "IS_BOOL")+"("+p+") ORDER BY "+p,
			"SELECT TOP 3 {a: "+path()+"} AS r FROM c"+where,
			"SELECT c.a, c.b FROM c"+where+limits,
		)
		q, err := syntax.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Of(text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		sent := plan.Info.RewrittenQuery
		if sent == "" {
			sent = text
		}
		rewritten, err := syntax.Parse(strings.ReplaceAll(sent, FilterPlaceholder, "true"))
		if err != nil {
			t.Fatalf("%s is rewritten as %s: %v", text, sent, err)
		}
		var docs []any
		var parts [][]any
		failed := false
		for range 1 + d.IntN(3) {
			var part []any
			for range d.IntN(5) {
				var doc any
				if err := json.Unmarshal([]byte(`{"id":"x"`+d.Members()+`}`), &doc); err != nil {
					t.Fatal(err)
				}
				part = append(part, doc)
			}
			docs = append(docs, part...)
			results, err := reference.Results(rewritten, part)
			failed = failed || err != nil
			parts = append(parts, results)
		}
		want, err := reference.Results(q, docs)
		if err != nil || failed {
			continue
		}
		got := merged(t, plan, parts)
		a, b := make([]string, len(got)), make([]string, len(want))
		for i := range got {
			a[i] = canonical(t, got[i])
		}
		for i := range want {
			b[i] = canonical(t, want[i])
		}
		if len(plan.Info.GroupByExpressions) > 0 {
			slices.Sort(a)
			slices.Sort(b)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\nis rewritten as %s\n got %v\nwant %v", text, sent, a, b)
		}
		if plan.Merges() != (plan.Info.RewrittenQuery != "") {
			t.Fatalf("%s: merges %v, rewritten as %q", text, plan.Merges(), plan.Info.RewrittenQuery)
		}
		some += min(1, len(want))
	}
	if some < 1000 {
		t.Errorf("%d queries had results", some)
	}
}
