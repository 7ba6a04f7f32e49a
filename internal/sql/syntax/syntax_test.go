package syntax

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/sql/value"
)

// TestPrinted: a tree is printed with as few parentheses as its meaning allows, and so that
// it is read as the same tree.
func TestPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"select * from c": "SELECT * FROM c",
		"SELECT TOP 3 c.a, c['b c'] AS x FROM Families c WHERE c.a=1":                                `SELECT TOP 3 c.a, c["b c"] AS x FROM Families AS c WHERE c.a = 1`,
		"SELECT VALUE 1 + 2 * 3 - -4":                                                                "SELECT VALUE 1 + 2 * 3 - -4",
		"SELECT VALUE (1 + 2) * 3":                                                                   "SELECT VALUE (1 + 2) * 3",
		"SELECT VALUE 1 - (2 - 3)":                                                                   "SELECT VALUE 1 - (2 - 3)",
		"SELECT VALUE (1 - 2) - 3":                                                                   "SELECT VALUE 1 - 2 - 3",
		"SELECT VALUE c.a || 'x' = 'yx' FROM c":                                                      `SELECT VALUE c.a || "x" = "yx" FROM c`,
		"SELECT VALUE c.flags & 1 = 1 FROM c":                                                        "SELECT VALUE c.flags & 1 = 1 FROM c",
		"SELECT VALUE (c.flags & 1) = 1 FROM c":                                                      "SELECT VALUE (c.flags & 1) = 1 FROM c",
		"SELECT VALUE NOT c.a = 1 AND c.b OR c.d FROM c":                                             "SELECT VALUE NOT c.a = 1 AND c.b OR c.d FROM c",
		"SELECT VALUE NOT (c.a AND c.b) FROM c":                                                      "SELECT VALUE NOT (c.a AND c.b) FROM c",
		"SELECT VALUE c.a ? 1 : c.b ? 2 : 3 FROM c":                                                  "SELECT VALUE c.a ? 1 : c.b ? 2 : 3 FROM c",
		"SELECT VALUE (c.a ? 1 : 2) ?? 3 FROM c":                                                     "SELECT VALUE (c.a ? 1 : 2) ?? 3 FROM c",
		"SELECT VALUE c.a NOT BETWEEN 1 AND 2 AND c.b NOT IN (1,2) FROM c":                           "SELECT VALUE c.a NOT BETWEEN 1 AND 2 AND c.b NOT IN (1, 2) FROM c",
		"SELECT VALUE c.a LIKE '10!%' ESCAPE '!' FROM c":                                             `SELECT VALUE c.a LIKE "10!%" ESCAPE "!" FROM c`,
		"SELECT VALUE {a: 1, 'b c': [c.x, {}], \"d\": udf.f(1)} FROM c":                              `SELECT VALUE {"a": 1, "b c": [c.x, {}], "d": udf.f(1)} FROM c`,
		"SELECT c.a[0].b[c.i]['x'] FROM c JOIN t IN c.tags JOIN (SELECT VALUE 1) AS s":               "SELECT c.a[0].b[c.i].x FROM c JOIN t IN c.tags JOIN (SELECT VALUE 1) AS s",
		"SELECT c FROM c.children[0] AS c":                                                           "SELECT c FROM c.children[0] AS c",
		"SELECT VALUE EXISTS(SELECT VALUE t FROM t IN c.tags), FROM c":                               "",
		"SELECT EXISTS (SELECT VALUE t FROM t IN c.tags) e, ARRAY(SELECT t FROM t IN c.tags) FROM c": "SELECT EXISTS(SELECT VALUE t FROM t IN c.tags) AS e, ARRAY(SELECT t FROM t IN c.tags) FROM c",
		"SELECT COUNT(1) n, lower(c.a) FROM c GROUP BY lower(c.a) ORDER BY lower(c.a) desc, c.b asc OFFSET @o LIMIT 10": "SELECT COUNT(1) AS n, LOWER(c.a) FROM c GROUP BY LOWER(c.a) ORDER BY LOWER(c.a) DESC, c.b OFFSET @o LIMIT 10",
		"SELECT VALUE undefined ?? NULL":                                      "SELECT VALUE undefined ?? null",
		"SELECT VALUE [NaN, Infinity, -Infinity, 0x1F, .5, 1e3]":              "SELECT VALUE [NaN, Infinity, -(Infinity), 31, 0.5, 1000]",
		"SELECT VALUE ~1 >>> 2 << 3":                                          "SELECT VALUE ~(1) >>> 2 << 3",
		"SELECT -- one\n VALUE /* two\n */ 1":                                 "SELECT VALUE 1",
		"SELECT (value) FROM value":                                           "SELECT (value) FROM value",
		"SELECT value.x, top.y FROM value":                                    "SELECT (value.x), (top.y) FROM value",
		"SELECT VALUE 'it''s \\u00e9 \\ud83d\\ude00'":                         `SELECT VALUE "it's é 😀"`,
		"SELECT VALUE 12345678901234567":                                      "SELECT VALUE 12345678901234567",
		"SELECT c.order, c.group FROM c":                                      "SELECT c.order, c.group FROM c",
		`SELECT c.a AS "a b", c.b AS "order", c.d AS "\"", c.e AS "e" FROM c`: `SELECT c.a AS "a b", c.b AS "order", c.d AS "\"", c.e AS e FROM c`,
		`SELECT c.a AS "" FROM c`:                                             "",
		`SELECT c.a AS 'a' FROM c`:                                            "",
		`SELECT c.a "a b" FROM c`:                                             "",
		`SELECT VALUE c.a AS "a b" FROM c`:                                    "",
		"SELECT VALUE LEFT(c.a, 1) FROM c":                                    "SELECT VALUE LEFT(c.a, 1) FROM c",
		"SELECT VALUE {x: 1}.x":                                               `SELECT VALUE {"x": 1}.x`,
	} {
		q, err := Parse(text)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got := q.String(); got != want || want == "" {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		checkPrinted(t, q)
		q.Exprs(func(e Expr) { checkTexts(t, e) })
	}
}

// checkTexts: the texts of an expression are those that it and each below it have alone.
func checkTexts(t *testing.T, e Expr) {
	t.Helper()
	texts := Texts(e)
	Walk(e, func(e Expr) bool {
		if text, ok := texts[e]; !ok || text != Text(e) {
			t.Errorf("%s is printed as %q, %v, beside others", Text(e), text, ok)
		}
		_, sub := e.(*Sub)
		return !sub
	})
}

// checkPrinted: the text of a tree is read as the same tree.
func checkPrinted(t *testing.T, q *Query) {
	t.Helper()
	text := q.String()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%.2000s: %v", text, err)
	}
	if a, b := dump(reflect.ValueOf(q)), dump(reflect.ValueOf(again)); a != b {
		t.Fatalf("%.2000s is read as\n%.2000s\nwas\n%.2000s", text, b, a)
	}
}

// dump writes all of a tree but its offsets.
func dump(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "-"
		}
		return dump(v.Elem())
	case reflect.Struct:
		if l, ok := v.Interface().(value.Value); ok {
			return l.String()
		}
		var b strings.Builder
		b.WriteString(v.Type().Name() + "{")
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "At" && name != "Sign" {
				b.WriteString(dump(v.Field(i)) + " ")
			}
		}
		return b.String() + "}"
	case reflect.Slice:
		var b strings.Builder
		for i := range v.Len() {
			b.WriteString(dump(v.Index(i)) + ",")
		}
		return "[" + b.String() + "]"
	}
	return fmt.Sprintf("%q", fmt.Sprint(v.Interface()))
}

// TestRefused: an error tells the place, what was expected and what was found.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        "column 1: expected SELECT, found the end",
		"SELEC * FROM c":                          "column 1: expected SELECT, found SELEC",
		"SELECT * FRM c":                          "column 10: expected FROM, found FRM",
		"SELECT c.a FROM c WHERE c.b = ":          "column 31: expected an expression, found the end",
		"SELECT c.a\nFROM c\nWHERE c.b = = 2":     "line 3, column 13: expected an expression, found =",
		"SELECT c.a FROM c WHERE (c.b = 1":        "column 33: expected an operator or ), found the end",
		"SELECT c.a FROM c ORDER c.b":             "column 25: expected BY, found c",
		"SELECT c.a FROM c WHERE c.b = 1 c.d = 2": "column 33: expected an operator, GROUP BY, ORDER BY, OFFSET, LIMIT or the end of the query, found c",
		"SELECT c.a FROM c WHERE c.b BETWEEN 1":   "column 38: expected an operator or the AND between the bounds of BETWEEN, found the end",
		"SELECT c.a FROM c WHERE c.b IN 1":        "column 32: expected ( of IN, found 1",
		"SELECT VALUE {a 1}":                      "column 17: expected : after the name of a member, found 1",
		"SELECT VALUE [1":                         "column 16: expected , or ] of an array, found the end",
		"SELECT VALUE 'abc":                       "column 14: the string has no closing quote",
		"SELECT VALUE /* abc":                     "column 14: the comment has no end: expected */",
		"SELECT VALUE 1 ¤ 2":                      "column 16: unexpected character '¤'",
		"SELECT VALUE 12ab":                       "column 16: expected an end of the number 12, found a letter",
		"SELECT TOP x * FROM c":                   "column 12: expected a number after TOP, found x",
		"SELECT TOP 1.5 * FROM c":                 "column 12: expected a whole number up to 2147483647, found 1.5",
		"SELECT VALUE 1, 2":                       "column 15: VALUE has one column: expected an operator, FROM, WHERE, GROUP BY, ORDER BY, OFFSET, LIMIT or the end of the query",
		"SELECT * FROM c OFFSET 1 LIMIT":          "column 31: expected a number after LIMIT, found the end",
		"SELECT TOP 1 * FROM c LIMIT 1":           "column 23: expected no LIMIT beside TOP",
		"SELECT * FROM c ORDER BY RANK RRF(c.a)":  "column 26: ORDER BY RANK is not available: results are not ranked by scores",
		"SELECT c.a FROM (SELECT VALUE 1":         "column 32: expected a clause of the subquery or ), found the end",
		"SELECT * FROM c JOIN":                    "column 21: expected a name or a subquery in parentheses, found the end",
		"SELECT a AS select FROM c":               "column 13: expected a name for the column, found select",
		"SELECT VALUE @":                          "column 14: expected the name of a parameter after @",
		"SELECT VALUE \xff":                       "column 14: not valid UTF-8",
	} {
		_, err := Parse(text)
		bad := (*Error)(nil)
		if !errors.As(err, &bad) {
			t.Errorf("%q: error %v", text, err)
		} else if got := err.Error(); got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestHugeTexts: what is nested without end is refused, and what is only long is read, on
// little of a stack.
func TestHugeTexts(t *testing.T) {
	n := 250_000
	for name, test := range map[string]struct {
		text string
		ok   bool
	}{
		"parentheses":   {"SELECT VALUE " + strings.Repeat("(", n), false},
		"brackets":      {"SELECT VALUE " + strings.Repeat("[", n), false},
		"braces":        {"SELECT VALUE " + strings.Repeat("{a:", n/2), false},
		"signs":         {"SELECT VALUE " + strings.Repeat("~", n) + "1", false},
		"not":           {"SELECT VALUE " + strings.Repeat("NOT ", n/4) + "1", false},
		"subqueries":    {strings.Repeat("SELECT VALUE (", n/8), false},
		"sources":       {strings.Repeat("SELECT * FROM (", n/8), false},
		"conditions":    {"SELECT VALUE " + strings.Repeat("1?1:", n/2) + "1", false},
		"operators":     {"SELECT VALUE 1" + strings.Repeat("+1", n-100), false},
		"indexes":       {"SELECT VALUE c" + strings.Repeat("[0]", n/2) + " FROM c", false},
		"coalesced":     {"SELECT VALUE 1" + strings.Repeat("??1", n/3), false},
		"between":       {"SELECT VALUE 1" + strings.Repeat(" BETWEEN 1 AND 1", n/16), false},
		"columns":       {"SELECT 1" + strings.Repeat(",1", n-100), false},
		"too long":      {"SELECT VALUE '" + strings.Repeat("x", MaxText) + "'", false},
		"comment":       {"SELECT VALUE 1 --" + strings.Repeat("-", n), true},
		"string":        {"SELECT VALUE '" + strings.Repeat("x", n) + "'", true},
		"alternatives":  {"SELECT VALUE 1" + strings.Repeat(" OR 1", 9_999), true},
		"deep and long": {"SELECT VALUE " + strings.Repeat("(", 190) + strings.Repeat("1"+strings.Repeat("+1", 900)+")", 190), false},
		"elements":      {"SELECT VALUE [1" + strings.Repeat(",1", 9_999) + "]", true},
		"nested":        {"SELECT VALUE " + strings.Repeat("(", MaxNesting-3) + "1" + strings.Repeat(")", MaxNesting-3), true},
		"operators ok":  {"SELECT VALUE 1" + strings.Repeat("+1", 900), true},
	} {
		q, err := Parse(test.text)
		if (err == nil) != test.ok {
			t.Errorf("%s: error %v", name, err)
		}
		if err == nil {
			checkPrinted(t, q)
		}
	}
}

// TestBind: constants take the place of parameters, wherever they are.
func TestBind(t *testing.T) {
	text := "SELECT TOP @n {x: @o} FROM c WHERE c.a = @a AND EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = @t OFFSET @n LIMIT @n)"
	q, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := q.Bind(text, map[string]any{"@n": 2, "a": "x", "t": []any{1.5, nil}, "o": map[string]any{"b": true, "a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `SELECT TOP 2 {"x": {"a":1,"b":true}} FROM c WHERE c.a = "x" AND EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = [1.5,null] OFFSET 2 LIMIT 2)`
	if got := bound.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := q.String(); !strings.Contains(got, "@a") || !strings.Contains(got, "TOP @n") || !strings.Contains(got, "OFFSET @n") {
		t.Errorf("Bind has changed the query: %s", got)
	}
	for _, bad := range []map[string]any{{}, {"n": -1, "a": 1, "t": 1, "o": 1}, {"n": 1.5, "a": 1, "t": 1, "o": 1}, {"n": 1, "a": make(chan int), "t": 1, "o": 1}} {
		if _, err := q.Bind(text, bad); err == nil {
			t.Errorf("parameters %v are taken", bad)
		}
	}
}

// FuzzParse: no text makes the parser panic, and what it reads is printed as a text with the
// same meaning.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"SELECT * FROM c", "SELECT VALUE {a: [1, 'x', c.b[0]]} FROM c JOIN t IN c.tags WHERE t LIKE '%x' ESCAPE '!'",
		"SELECT DISTINCT TOP 3 c.a ?? -1 AS b FROM c GROUP BY c.a ORDER BY c.a DESC OFFSET 1 LIMIT @n",
		"SELECT c.a b, c.tags[] FROM c",
		"SELECT (value), top.x FROM value /* */ -- \n WHERE NOT c.a BETWEEN 1 AND 2 OR c['x'] IN (1, -2, ~3)",
		"SELECT VALUE (SELECT VALUE EXISTS(SELECT 1) ? ARRAY(SELECT udf.f(1e3)) : NaN)", "SELECT VALUE 1 | 2 ^ 3 & 4 = 5 < 6 >>> 7 || 8 + 9 * -(-1)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			if bad := (*Error)(nil); !errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if len(q.String()) > MaxText {
			return // printed, it is longer than a query may be
		}
		checkPrinted(t, q)
	})
}
