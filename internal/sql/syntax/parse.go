package syntax

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Limits of a query.
const (
	MaxText    = 512 << 10 // bytes
	MaxNesting = 200       // parentheses, brackets, braces, prefixes and subqueries inside of each other
	MaxHeight  = 1_000     // of the tree
	MaxItems   = 10_000    // elements of a list
)

// Parse reads a query. The error is an *Error.
func Parse(text string) (*Query, error) { return parse(&parser{text: text}) }

func parse(p *parser) (*Query, error) {
	text := p.text
	if len(text) > MaxText {
		return nil, p.errorf(0, "a query of more than %d bytes", MaxText)
	}
	if !utf8.ValidString(text) {
		at := 0
		for i, r := range text {
			if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
				at = i
				break
			}
		}
		return nil, p.errorf(at, "not valid UTF-8")
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	q, err := p.query()
	if err == nil && p.tok.kind != end {
		err = p.expected(p.clausesLeft())
	}
	if err != nil {
		return nil, err
	}
	if len(text) <= MaxHeight {
		return q, nil // a level has a character at least
	}
	q.Exprs(func(e Expr) {
		if err == nil && height(e, MaxHeight) > MaxHeight {
			err = p.errorf(e.Pos(), "an expression of more than %d levels", MaxHeight)
		}
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// ParseExpr reads an expression alone. The error is an *Error.
func ParseExpr(text string) (Expr, error) {
	q, err := Parse("SELECT VALUE " + text)
	if err != nil {
		return nil, err
	}
	return q.Items[0].Expr, nil
}

// parser reads a query from left to right, one token ahead.
type parser struct {
	text   string
	pos    int   // behind the present token
	ended  int   // behind the token before it
	tok    token // the present token
	depth  int   // of nesting
	clause string
	bind   *binder // nil: parameters stay parameters
}

func (p *parser) errorf(offset int, format string, args ...any) error {
	return Errorf(p.text, offset, format, args...)
}

func (p *parser) expected(what string) error {
	return p.errorf(p.tok.at, "expected %s, found %s", what, p.tok.found())
}

// clausesLeft names what may follow the last clause that was read.
func (p *parser) clausesLeft() string {
	list := []string{"FROM", "WHERE", "GROUP BY", "ORDER BY", "OFFSET", "LIMIT"}
	if p.clause == "FROM" || p.clause == "JOIN" {
		list[0] = "JOIN"
	} else if i := slices.Index(list, p.clause); i >= 0 {
		list = list[i+1:]
	}
	if len(list) == 0 {
		return "the end of the query"
	}
	return "an operator, " + strings.Join(list, ", ") + " or the end of the query"
}

// is says whether the token is a keyword.
func (p *parser) is(keyword string) bool { return p.tok.kind == word && p.tok.upper == keyword }

// isSign says whether the token is a sign.
func (p *parser) isSign(s string) bool { return p.tok.kind == sign && p.tok.text == s }

// take passes over a keyword if it is next.
func (p *parser) take(keyword string) (bool, error) {
	if !p.is(keyword) {
		return false, nil
	}
	return true, p.next()
}

// takeSign passes over a sign if it is next.
func (p *parser) takeSign(s string) (bool, error) {
	if !p.isSign(s) {
		return false, nil
	}
	return true, p.next()
}

// expect passes over a sign that must be next.
func (p *parser) expect(s, what string) error {
	if !p.isSign(s) {
		return p.expected(what)
	}
	return p.next()
}

// ahead says whether the text goes on with a sign or word.
func (p *parser) ahead(s string) bool {
	rest := parser{text: p.text, pos: p.pos}
	if rest.next() != nil {
		return false
	}
	return rest.tok.kind == sign && rest.tok.text == s || rest.tok.kind == word && rest.tok.upper == s
}

// enter counts a level of nesting.
func (p *parser) enter() error {
	if p.depth++; p.depth > MaxNesting {
		return p.errorf(p.tok.at, "more than %d nested expressions", MaxNesting)
	}
	return nil
}

// reserved are the words that no source and no column is named.
var reserved = map[string]bool{
	"SELECT": true, "FROM": true, "WHERE": true, "GROUP": true, "ORDER": true, "BY": true, "OFFSET": true, "LIMIT": true, "JOIN": true,
	"AND": true, "OR": true, "NOT": true, "IN": true, "BETWEEN": true, "LIKE": true, "ESCAPE": true, "AS": true, "ASC": true, "DESC": true,
	"EXISTS": true, "DISTINCT": true, "TRUE": true, "FALSE": true, "NULL": true, "UNDEFINED": true,
}

// name reads the name of a source or column.
func (p *parser) name(what string) (string, error) {
	if p.tok.kind != word || reserved[p.tok.upper] {
		return "", p.expected(what)
	}
	name := p.tok.text
	return name, p.next()
}

// column reads the name of a column. Behind AS it may stand in double quotes, and is then any text.
func (p *parser) column(as bool) (string, error) {
	if !as || p.tok.kind != text || p.tok.text == "" || p.text[p.tok.at] != '"' {
		return p.name("a name for the column")
	}
	name := p.tok.text
	return name, p.next()
}

func (p *parser) query() (*Query, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	q := &Query{At: p.tok.at}
	if !p.is("SELECT") {
		return nil, p.expected("SELECT")
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	for _, step := range [...]func(*Query) error{p.items, p.from, p.where, p.groupBy, p.orderBy, p.limits} {
		if err := step(q); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (p *parser) items(q *Query) (err error) {
	p.clause = "SELECT"
	if q.Distinct, err = p.take("DISTINCT"); err != nil {
		return err
	}
	if p.is("TOP") && !p.ahead(".") && !p.ahead("[") && !p.ahead("FROM") && !p.ahead(",") && !p.ahead("AS") {
		if err = p.next(); err != nil {
			return err
		}
		if q.Top, err = p.count("a number after TOP"); err != nil {
			return err
		}
	}
	if all, starErr := p.takeSign("*"); starErr != nil || all {
		q.Star = true
		return starErr
	}
	if p.is("VALUE") && !p.ahead(".") && !p.ahead("FROM") && !p.ahead(",") && !p.ahead("AS") {
		if err = p.next(); err != nil {
			return err
		}
		q.Value = true
	}
	for {
		var item Item
		if item.Expr, err = p.expr(); err != nil {
			return err
		}
		as, asErr := p.take("AS")
		if asErr != nil {
			return asErr
		}
		if as || p.tok.kind == word && !reserved[p.tok.upper] {
			at := p.tok.at
			if item.As, err = p.column(as); err != nil {
				return err
			}
			if q.Value {
				return p.errorf(at, "a VALUE has no name: expected %s", p.clausesLeft())
			}
		}
		if q.Items = append(q.Items, item); len(q.Items) > MaxItems {
			return p.errorf(p.tok.at, "more than %d columns", MaxItems)
		}
		if !p.isSign(",") {
			return nil
		}
		if q.Value {
			return p.errorf(p.tok.at, "VALUE has one column: expected %s", p.clausesLeft())
		}
		if err = p.next(); err != nil {
			return err
		}
	}
}

func (p *parser) from(q *Query) error {
	ok, err := p.take("FROM")
	if err != nil {
		return err
	}
	if !ok {
		if q.Star {
			return p.expected("FROM")
		}
		return nil
	}
	p.clause = "FROM"
	if q.From, err = p.source(); err != nil {
		return err
	}
	for {
		join, err := p.take("JOIN")
		if err != nil || !join {
			return err
		}
		p.clause = "JOIN"
		s, err := p.source()
		if err != nil {
			return err
		}
		if q.Joins = append(q.Joins, s); len(q.Joins) > MaxJoins {
			return p.errorf(s.At, "more than %d JOINs", MaxJoins)
		}
	}
}

// MaxJoins bounds the JOINs of one FROM.
const MaxJoins = 10

func (p *parser) source() (*Source, error) {
	s := &Source{At: p.tok.at}
	if p.tok.kind == word && !reserved[p.tok.upper] && p.ahead("IN") {
		s.Name, s.In, s.Named = p.tok.text, true, true
		if err := p.next(); err != nil {
			return nil, err
		}
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if p.isSign("(") {
		if err := p.next(); err != nil {
			return nil, err
		}
		var err error
		clause := p.clause
		if s.Query, err = p.query(); err != nil {
			return nil, err
		}
		if err = p.expect(")", "a clause of the subquery or )"); err != nil {
			return nil, err
		}
		p.clause = clause
	} else {
		at := p.tok.at
		name, err := p.name("a name or a subquery in parentheses")
		if err != nil {
			return nil, err
		}
		if s.Collection, err = p.path(&Ident{At(at), name}); err != nil {
			return nil, err
		}
		if !s.In {
			s.Name = name
			if m, ok := s.Collection.(*Member); ok {
				s.Name = m.Name
			}
		}
	}
	if s.In {
		return s, nil
	}
	as, err := p.take("AS")
	if err != nil {
		return nil, err
	}
	if as || p.tok.kind == word && !reserved[p.tok.upper] {
		s.Named = true
		s.Name, err = p.name("a name for the source")
	}
	return s, err
}

// path reads .member, ["member"] and [index] behind a name.
func (p *parser) path(e Expr) (Expr, error) {
	for n := 0; ; n++ {
		if n > maxSteps {
			return nil, p.errorf(p.tok.at, "a path of more than %d steps", maxSteps)
		}
		at, sign := At(e.Pos()), p.tok.at
		switch {
		case p.isSign("."):
			if err := p.next(); err != nil {
				return nil, err
			}
			if p.tok.kind != word {
				return nil, p.expected("the name of a member after .")
			}
			e = &Member{at, e, p.tok.text}
			if err := p.next(); err != nil {
				return nil, err
			}
		case p.isSign("["):
			if err := p.next(); err != nil {
				return nil, err
			}
			if p.isSign("]") {
				e = &Each{at, e, sign}
			} else if p.tok.kind == text && p.ahead("]") {
				e = &Member{at, e, p.tok.text}
				if err := p.next(); err != nil {
					return nil, err
				}
			} else {
				by, err := p.expr()
				if err != nil {
					return nil, err
				}
				e = &Index{at, e, by}
			}
			if err := p.expect("]", "]"); err != nil {
				return nil, err
			}
		default:
			return e, nil
		}
	}
}

// maxSteps bounds the steps of a path.
const maxSteps = 128

func (p *parser) where(q *Query) error {
	ok, err := p.take("WHERE")
	if err != nil || !ok {
		return err
	}
	p.clause = "WHERE"
	q.Where, err = p.expr()
	return err
}

// by reads a keyword that BY follows.
func (p *parser) by(keyword string) (bool, error) {
	ok, err := p.take(keyword)
	if err != nil || !ok {
		return false, err
	}
	if !p.is("BY") {
		return false, p.expected("BY")
	}
	p.clause = keyword + " BY"
	return true, p.next()
}

func (p *parser) groupBy(q *Query) error {
	ok, err := p.by("GROUP")
	if err != nil || !ok {
		return err
	}
	q.GroupBy, err = p.list()
	return err
}

func (p *parser) orderBy(q *Query) error {
	ok, err := p.by("ORDER")
	if err != nil || !ok {
		return err
	}
	if p.is("RANK") && !p.ahead(".") && !p.ahead(",") && !p.ahead("[") {
		return p.errorf(p.tok.at, "ORDER BY RANK is not available: results are not ranked by scores")
	}
	for {
		var o Order
		if o.Expr, err = p.expr(); err != nil {
			return err
		}
		if o.Desc, err = p.take("DESC"); err == nil && !o.Desc {
			_, err = p.take("ASC")
		}
		if err != nil {
			return err
		}
		if q.OrderBy = append(q.OrderBy, o); len(q.OrderBy) > maxOrders {
			return p.errorf(p.tok.at, "more than %d orders", maxOrders)
		}
		more, err := p.takeSign(",")
		if err != nil || !more {
			return err
		}
	}
}

// maxOrders bounds the expressions of an ORDER BY.
const maxOrders = 100

func (p *parser) limits(q *Query) error {
	offset, err := p.take("OFFSET")
	if err != nil {
		return err
	}
	if offset {
		p.clause = "OFFSET"
		if q.Offset, err = p.count("a number after OFFSET"); err != nil {
			return err
		}
	}
	at := p.tok.at
	limit, err := p.take("LIMIT")
	if err != nil || !limit {
		return err
	}
	if q.Top != nil {
		return p.errorf(at, "expected no LIMIT beside TOP")
	}
	p.clause = "LIMIT"
	q.Limit, err = p.count("a number after LIMIT")
	return err
}

// count reads a number of results.
func (p *parser) count(what string) (*Count, error) {
	c := &Count{At: p.tok.at}
	switch {
	case p.tok.kind == parameter:
		c.Param = p.tok.text
	case p.tok.kind == number && p.tok.number == math.Trunc(p.tok.number) && p.tok.number <= maxCount:
		c.N = int(p.tok.number)
	case p.tok.kind == number:
		return nil, p.errorf(p.tok.at, "expected a whole number up to %d, found %s", maxCount, jsondoc.Clip(p.tok.text))
	default:
		return nil, p.expected(what)
	}
	if p.bind != nil {
		var err error
		if c, err = p.bind.count(c); err != nil {
			return nil, err
		}
	}
	return c, p.next()
}

// maxCount bounds TOP, OFFSET and LIMIT.
const maxCount = math.MaxInt32
