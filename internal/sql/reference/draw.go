package reference

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Draw writes queries and documents at random.
type Draw struct{ *rand.Rand }

func pick[T any](d Draw, list ...T) T { return list[d.IntN(len(list))] }

// Scalar returns a scalar as JSON.
func (d Draw) Scalar() string {
	return pick(d, "0", "1", "2", "-1", "1.5", "3", "7", "true", "false", "null", `"a"`, `"b"`, `"ab"`, `"Abc"`, `"ba"`, `""`, `"é"`, `"ab, B; a"`)
}

// Value returns a value as JSON.
func (d Draw) Value(depth int) string {
	switch n := d.IntN(8); {
	case depth == 0 || n < 5:
		return d.Scalar()
	case n < 7:
		var list []string
		for range d.IntN(4) {
			list = append(list, d.Value(depth-1))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	var list []string
	for _, name := range []string{"a", "b", "n"} {
		if d.IntN(2) == 0 {
			list = append(list, fmt.Sprintf("%q:%s", name, d.Value(depth-1)))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

// Members returns the members of a document as JSON, each with a comma before it.
func (d Draw) Members() string {
	var b strings.Builder
	for _, name := range []string{"a", "b", "n", "s", "o"} {
		if d.IntN(5) > 0 {
			fmt.Fprintf(&b, ",%q:%s", name, d.Value(2))
		}
	}
	if d.IntN(4) > 0 {
		var list []string
		for range d.IntN(5) {
			list = append(list, d.Value(1))
		}
		fmt.Fprintf(&b, `,"t":[%s]`, strings.Join(list, ","))
	}
	return b.String()
}

// path returns a path that begins with one of some names.
func (d Draw) path(names []string) string {
	p := pick(d, names...)
	for range 1 + d.IntN(2) {
		p += pick(d, ".a", ".b", ".n", ".s", ".t", ".o", ".o.a", ".t[0]", ".t[1].a", `["a"]`, ".none")
	}
	return p
}

// word returns what a full text function looks for. An object would end the query.
func (d Draw) word() string {
	return pick(d, "'a'", "'B'", "'ab'", "'ab, b'", "'b a'", "''", "1", "undefined")
}

// Expr returns an expression of the values of some names. aggregates says that those may
// stand in it.
func (d Draw) Expr(depth int, names []string, aggregates bool) string {
	x := func() string { return d.Expr(depth-1, names, aggregates) }
	if aggregates {
		if n := d.IntN(3); n == 0 || depth == 0 {
			return pick(d, "COUNT", "COUNTIF", "SUM", "AVG", "MIN", "MAX", "MAKESET", "COUNT") + "(" + d.Expr(max(depth-1, 0), names, false) + ")"
		}
	}
	leaf := func() string {
		if aggregates || d.IntN(3) == 0 || len(names) == 0 {
			if d.IntN(12) == 0 {
				return "undefined"
			}
			return d.Scalar()
		}
		return d.path(names)
	}
	if depth <= 0 {
		return leaf()
	}
	switch d.IntN(20) {
	case 0, 1, 2:
		return leaf()
	case 3, 4, 5:
		return "(" + x() + " " + pick(d, "=", "!=", "<", "<=", ">", ">=") + " " + x() + ")"
	case 6:
		return "(" + x() + " " + pick(d, "+", "-", "*", "&", "|", "^", "||", "??") + " " + x() + ")"
	case 7:
		return "(" + x() + " " + pick(d, "AND", "OR") + " " + x() + ")"
	case 8:
		return "(NOT " + x() + ")"
	case 9:
		return "(" + x() + pick(d, "", " NOT") + " IN (" + x() + ", " + x() + "))"
	case 10:
		return "(" + x() + pick(d, "", " NOT") + " BETWEEN " + x() + " AND " + x() + ")"
	case 11:
		return "(" + x() + pick(d, "", " NOT") + " LIKE " + pick(d, "'a%'", "'%b%'", "'_b'", "'ab'", "'%'", "'a_c'", "'b%a'", x()) + ")"
	case 12:
		return "(" + x() + " ? " + x() + " : " + x() + ")"
	case 13:
		return pick(d, "[", "[1, ") + x() + ", " + x() + "]" + pick(d, "", "[0]", "[1]")
	case 14:
		return "{a: " + x() + ", b: " + x() + "}" + pick(d, "", ".a", `["b"]`)
	case 15:
		return pick(d, "IS_DEFINED", "IS_NULL", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_BOOL", "LENGTH", "UPPER", "LOWER", "ABS", "FLOOR", "ARRAY_LENGTH") + "(" + x() + ")"
	case 16:
		return pick(d, "STARTSWITH", "ENDSWITH", "CONTAINS", "STRINGEQUALS", "ARRAY_CONTAINS", "SETUNION") + "(" + x() + ", " + x() + ")"
	case 17:
		return pick(d, "IIF("+x()+", "+x()+", "+x()+")", "SUBSTRING("+x()+", "+x()+", "+x()+")", "CONTAINS("+x()+", "+x()+", true)",
			pick(d, "FULLTEXTCONTAINSALL(", "FULLTEXTCONTAINSANY(")+x()+", "+d.word()+", "+d.word()+")", "FULLTEXTCONTAINS("+x()+", "+d.word()+")")
	case 18:
		if aggregates || len(names) == 0 {
			return leaf()
		}
		return pick(d, "EXISTS", "ARRAY", "ARRAY") + "(" + d.sub(depth-1, names) + ")"
	}
	if aggregates || len(names) == 0 {
		return leaf()
	}
	return "(SELECT VALUE " + pick(d, "COUNT(1)", "MAX(y)", "SUM(y.n)", "MAKELIST(y)") + " FROM y IN " + d.path(names) + ")"
}

// sub returns a subquery over an array.
func (d Draw) sub(depth int, names []string) string {
	if d.IntN(4) == 0 {
		return "SELECT DISTINCT " + pick(d, "", "TOP 2 ") + "VALUE x FROM x IN " + d.path(names) + pick(d, "", " ORDER BY x", " ORDER BY x.a DESC, x")
	}
	q := "SELECT " + pick(d, "", "", "TOP 2 ")
	inner := append([]string{"x"}, names...)
	q += pick(d, "VALUE x", "VALUE "+d.Expr(depth, inner, false), "x.a, "+d.Expr(depth, inner, false)+" AS z") + " FROM x IN " + d.path(names)
	if d.IntN(2) == 0 {
		q += " WHERE " + d.Expr(depth, inner, false)
	}
	if d.IntN(4) == 0 {
		q += " ORDER BY " + pick(d, "x", "x.a DESC", "x, x.n")
	}
	return q
}

// JoinedInOrder returns a query that makes several results of a document named c, in an order by
// paths of the document or by the elements of an array.
func (d Draw) JoinedInOrder() string {
	names := []string{"c", "j"}
	from := " FROM c JOIN j IN " + pick(d, "c.t", "c.t", "c.t", "c.o.t", "c.s")
	if d.IntN(4) == 0 {
		from += " JOIN k IN " + pick(d, "j", "c.t", "(SELECT VALUE x FROM x IN c.t WHERE "+d.Expr(1, []string{"x"}, false)+")")
		names = append(names, "k")
	}
	where := ""
	if d.IntN(3) == 0 {
		where = " WHERE " + pick(d, "c.n >= 1", "c.s LIKE '%b%'", "IS_DEFINED(c.a)", "c.k = 'a'", "c.k IN ('b', 4)") + pick(d, " AND ", " OR ") + d.Expr(1, names, false)
	} else if d.IntN(4) == 0 {
		where = " WHERE c.k = 'a'" + pick(d, "", " AND c.n != 1", " AND IS_DEFINED(j)")
	}
	var order []string
	for range 1 + d.IntN(2) {
		order = append(order, "c."+pick(d, "a", "b", "n", "s", "t", "o.a", "id")+pick(d, "", " DESC"))
	}
	if d.IntN(3) == 0 {
		order = []string{"j" + pick(d, "", " DESC")}
	}
	return "SELECT " + pick(d, "VALUE j", "VALUE {id: c.id, j: j}", "c.id, j", "VALUE "+d.Expr(2, names, false)) +
		from + where + " ORDER BY " + strings.Join(order, ", ") + pick(d, "", "", "", " OFFSET 3 LIMIT 20")
}

// Query returns a query over documents named c.
func (d Draw) Query() string {
	names := []string{"c", "c", "c"}
	from := " FROM " + pick(d, "c", "root c", "c")
	joins := d.IntN(3)
	switch d.IntN(12) {
	case 0:
		names, from = []string{"e"}, " FROM e IN c.t"
	case 1:
		names, from = []string{"e"}, " FROM c.o e"
	}
	first := names[0]
	for i := range joins {
		if d.IntN(2) == 0 {
			break
		}
		name := fmt.Sprintf("j%d", i)
		from += " JOIN " + pick(d, name+" IN "+d.path([]string{first}), name+" IN "+first+".t", "(SELECT VALUE k FROM k IN "+first+".t WHERE "+d.Expr(1, []string{"k", first}, false)+") AS "+name)
		names = append(names, name)
	}
	where := ""
	if d.IntN(3) == 0 {
		where = " WHERE " + pick(d, "", "NOT ", "NOT ") + d.Expr(2, names, false)
		if d.IntN(2) == 0 {
			where += " AND " + d.Expr(1, names[:1], false)
		}
		if d.IntN(3) == 0 {
			where = " WHERE " + first + pick(d, ".a = 1", ".s LIKE 'a%'", ".n >= 1", ".b IN ('a', 1)", ".a != null", ".s LIKE '%b'") + pick(d, " AND ", " OR ") + "(" + d.Expr(2, names, false) + ")"
		}
	}
	limits := pick(d, "", "", "", "", "", " OFFSET 1 LIMIT 3", " OFFSET 0 LIMIT 5", " OFFSET 2 LIMIT 1")
	order := ""
	switch d.IntN(4) {
	case 0:
		order = " ORDER BY " + d.path(names) + pick(d, "", " DESC", " ASC")
	case 1:
		order = " ORDER BY " + d.Expr(2, names, false) + pick(d, "", " DESC") + pick(d, "", ", "+d.path(names)+" DESC")
	}
	switch d.IntN(8) {
	case 0: // groups
		keys := []string{d.Expr(1, names, false)}
		if d.IntN(2) == 0 {
			keys = append(keys, d.path(names))
		}
		columns := []string{}
		for i, k := range keys {
			columns = append(columns, fmt.Sprintf("%s AS k%d", k, i))
		}
		columns = append(columns, d.Expr(2, names, true)+" AS v")
		return "SELECT " + pick(d, "", "", "DISTINCT ") + strings.Join(columns, ", ") + from + where + " GROUP BY " + strings.Join(keys, ", ") + limits
	case 1: // aggregates
		return "SELECT " + pick(d, "VALUE ", "") + d.Expr(2, names, true) + from + where
	case 2:
		a, b := d.Expr(2, names, false), d.path(names)
		columns := pick(d, "VALUE "+a, b+" AS p, "+a+" AS q")
		if strings.HasPrefix(columns, "VALUE") {
			b = a
		}
		return "SELECT DISTINCT " + columns + from + where + pick(d, "", " ORDER BY "+a, " ORDER BY "+a+" DESC, UPPER("+b+")") + limits
	case 3:
		if len(names) <= 3 && strings.HasSuffix(from, " c") {
			return "SELECT *" + from + where + order + limits
		}
	case 4:
		return "SELECT " + d.path(names) + " AS p, " + d.path(names) + " AS q" + from + where + order + limits
	}
	return "SELECT " + pick(d, "VALUE "+d.Expr(3, names, false), d.Expr(2, names, false)+", "+d.Expr(2, names, false)+" AS x") + from + where + order + limits
}
