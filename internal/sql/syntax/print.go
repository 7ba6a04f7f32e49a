package syntax

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// String returns the text of the query.
func (q *Query) String() string {
	var b printer
	q.print(&b)
	return b.String()
}

// Text returns the text of an expression.
func Text(e Expr) string {
	var b printer
	show(&b, e)
	return b.String()
}

// Texts returns the texts of an expression and of those below it, but for what subqueries hold. All
// are parts of one text.
func Texts(e Expr) map[Expr]string {
	b := printer{spans: make(map[Expr]span)}
	show(&b, e)
	texts := make(map[Expr]string, len(b.spans))
	for e, at := range b.spans {
		texts[e] = b.String()[at.begin:at.end]
	}
	return texts
}

// printer makes a text.
type printer struct {
	strings.Builder
	spans map[Expr]span // of expressions in the text; nil: they are not wanted
}

type span struct{ begin, end int }

func (q *Query) print(b *printer) {
	b.WriteString("SELECT ")
	if q.Distinct {
		b.WriteString("DISTINCT ")
	}
	if q.Top != nil {
		b.WriteString("TOP " + q.Top.String() + " ")
	}
	switch {
	case q.Star:
		b.WriteByte('*')
	case q.Value:
		b.WriteString("VALUE ")
	}
	for i, item := range q.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		showFirst(b, item.Expr)
		switch {
		case isName(item.As):
			b.WriteString(" AS " + item.As)
		case item.As != "":
			b.WriteString(" AS ")
			b.Write(jsondoc.AppendString(nil, item.As))
		}
	}
	if q.From != nil {
		b.WriteString(" FROM ")
		q.From.print(b)
	}
	for _, s := range q.Joins {
		b.WriteString(" JOIN ")
		s.print(b)
	}
	if q.Where != nil {
		b.WriteString(" WHERE ")
		show(b, q.Where)
	}
	if len(q.GroupBy) > 0 {
		b.WriteString(" GROUP BY ")
		showList(b, q.GroupBy)
	}
	for i, o := range q.OrderBy {
		if i == 0 {
			b.WriteString(" ORDER BY ")
		} else {
			b.WriteString(", ")
		}
		showFirst(b, o.Expr)
		if o.Desc {
			b.WriteString(" DESC")
		}
	}
	if q.Offset != nil {
		b.WriteString(" OFFSET " + q.Offset.String())
	}
	if q.Limit != nil {
		b.WriteString(" LIMIT " + q.Limit.String())
	}
}

// String returns the text of the number.
func (c *Count) String() string {
	if c.Param != "" {
		return "@" + c.Param
	}
	return strconv.Itoa(c.N)
}

func (s *Source) print(b *printer) {
	if s.In {
		b.WriteString(s.Name + " IN ")
	}
	if s.Query != nil {
		b.WriteByte('(')
		s.Query.print(b)
		b.WriteByte(')')
	} else {
		show(b, s.Collection)
	}
	if s.Named && !s.In {
		b.WriteString(" AS " + s.Name)
	}
}

// Strengths of what is weaker than the operators of strength, all below 0 but one: an
// expression of those operators stands at 0 where any of them may stand.
const (
	condStrength     = -5
	coalesceStrength = -4
	orStrength       = -3
	andStrength      = -2
	notStrength      = -1
	testStrength     = 0
)

// strengthOf returns the strength of an expression as it is printed.
func strengthOf(e Expr) int {
	switch e := e.(type) {
	case *Cond:
		return condStrength
	case *Binary:
		if e.Op == "??" {
			return coalesceStrength
		}
		return strength[e.Op]
	case *Logic:
		if e.Or {
			return orStrength
		}
		return andStrength
	case *Unary:
		if e.Op == "NOT" {
			return notStrength
		}
		return unaryStrength
	case *Between, *In, *Like:
		return testStrength
	case *Literal:
		if _, ok := e.V.Number(); ok {
			return unaryStrength // a dot behind it would be its own
		}
	}
	return pathStrength + 1
}

// showAt prints an expression, in parentheses if it is weaker than where it stands allows.
func showAt(b *printer, e Expr, least int) {
	if strengthOf(e) < least {
		b.WriteByte('(')
		show(b, e)
		b.WriteByte(')')
		return
	}
	show(b, e)
}

// showFirst prints an expression that stands where a keyword could stand: in parentheses if
// it begins with the name of a source that is such a word.
func showFirst(b *printer, e Expr) {
	text := Text(e)
	p := parser{text: text}
	switch upper(p.word(false)) {
	case "VALUE", "TOP", "RANK":
		text = "(" + text + ")"
	}
	b.WriteString(text)
}

func showList(b *printer, list []Expr) {
	for i, e := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		show(b, e)
	}
}

func show(b *printer, e Expr) {
	begin := b.Len()
	write(b, e)
	if b.spans != nil {
		b.spans[e] = span{begin, b.Len()}
	}
}

func write(b *printer, e Expr) {
	not := func(not bool) {
		if not {
			b.WriteString(" NOT")
		}
	}
	switch e := e.(type) {
	case *Literal:
		showValue(b, e.V)
	case *Param:
		b.WriteString("@" + e.Name)
	case *Ident:
		b.WriteString(e.Name)
	case *Member:
		showAt(b, e.Of, pathStrength)
		if isWord(e.Name) {
			b.WriteString("." + e.Name)
		} else {
			b.WriteByte('[')
			b.Write(jsondoc.AppendString(nil, e.Name))
			b.WriteByte(']')
		}
	case *Index:
		showAt(b, e.Of, pathStrength)
		b.WriteByte('[')
		if l, ok := e.By.(*Literal); ok {
			if _, isText := l.V.Text(); isText {
				// A string alone in brackets would be read as a Member.
				b.WriteByte('(')
				show(b, e.By)
				b.WriteString(")]")
				return
			}
		}
		show(b, e.By)
		b.WriteByte(']')
	case *Each:
		showAt(b, e.Of, pathStrength)
		b.WriteString("[]")
	case *Unary:
		if e.Op == "NOT" {
			b.WriteString("NOT ")
			showAt(b, e.X, notStrength)
			return
		}
		b.WriteString(e.Op)
		// Two minus signs would begin a comment, and -1 is a constant.
		if _, ok := e.X.(*Literal); ok || strengthOf(e.X) == unaryStrength {
			b.WriteByte('(')
			show(b, e.X)
			b.WriteByte(')')
			return
		}
		showAt(b, e.X, unaryStrength)
	case *Binary:
		s := strengthOf(e)
		showAt(b, e.L, s)
		b.WriteString(" " + e.Op + " ")
		showAt(b, e.R, s+1)
	case *Logic:
		s, keyword := andStrength, " AND "
		if e.Or {
			s, keyword = orStrength, " OR "
		}
		for i, x := range e.List {
			if i > 0 {
				b.WriteString(keyword)
			}
			showAt(b, x, s+1)
		}
	case *Between:
		showAt(b, e.X, testStrength)
		not(e.Not)
		b.WriteString(" BETWEEN ")
		showAt(b, e.Lo, testStrength+1)
		b.WriteString(" AND ")
		showAt(b, e.Hi, testStrength+1)
	case *In:
		showAt(b, e.X, testStrength)
		not(e.Not)
		b.WriteString(" IN (")
		showList(b, e.List)
		b.WriteByte(')')
	case *Like:
		showAt(b, e.X, testStrength)
		not(e.Not)
		b.WriteString(" LIKE ")
		showAt(b, e.Pattern, testStrength+1)
		if e.Escape != nil {
			b.WriteString(" ESCAPE ")
			showAt(b, e.Escape, testStrength+1)
		}
	case *Cond:
		showAt(b, e.If, condStrength+1)
		b.WriteString(" ? ")
		show(b, e.Then)
		b.WriteString(" : ")
		show(b, e.Else)
	case *Call:
		if e.UDF {
			b.WriteString("udf.")
		}
		b.WriteString(e.Name + "(")
		showList(b, e.Args)
		b.WriteByte(')')
	case *Object:
		b.WriteByte('{')
		for i, name := range e.Names {
			if i > 0 {
				b.WriteString(", ")
			}
			b.Write(jsondoc.AppendString(nil, name))
			b.WriteString(": ")
			show(b, e.List[i])
		}
		b.WriteByte('}')
	case *Array:
		b.WriteByte('[')
		showList(b, e.List)
		b.WriteByte(']')
	case *Sub:
		b.WriteString([...]string{SubScalar: "(", SubExists: "EXISTS(", SubArray: "ARRAY("}[e.Kind])
		e.Q.print(b)
		b.WriteByte(')')
	}
}

func showValue(b *printer, v value.Value) {
	if f, ok := v.Number(); ok && f > 1.7976931348623157e308 {
		b.WriteString("Infinity")
		return
	} else if ok && f < -1.7976931348623157e308 {
		b.WriteString("-1e999")
		return
	}
	b.WriteString(v.String())
}

// isWord says whether a name can stand behind a dot.
func isWord(s string) bool {
	p := parser{text: s}
	return s != "" && utf8.ValidString(s) && p.word(false) == s
}

// isName says whether a source or column can be named so without quotes.
func isName(s string) bool { return isWord(s) && !reserved[upper(s)] }
