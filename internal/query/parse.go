package query

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// SyntaxError says where a text is no query.
type SyntaxError struct {
	Offset       int // byte of the text
	Line, Column int // from 1, in characters
	Msg          string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("column %d: %s", e.Column, e.Msg)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// MaxText is the length of the longest query in bytes.
const MaxText = 512 << 10

// Parse reads the text form of a query; parameters, which may be named with or
// without their @, take the place of constants. The error is a *SyntaxError.
//
//	SELECT [DISTINCT] [TOP n] * | VALUE column | column, …
//	FROM name [[AS] alias] [WHERE condition] [GROUP BY path, …]
//	[ORDER BY path [ASC|DESC], …] [OFFSET n] [LIMIT m]
//
//	column      path [[AS] name] | function(path) [[AS] name] | COUNT(1) [[AS] name]
//	function    COUNT, SUM, AVG, MIN, MAX
//	path        alias.name, alias["name"], alias.name[] for any element
//	condition   path = constant, also != <> < <= > >=, [NOT] IN (…), [NOT] BETWEEN … AND …
//	            STARTSWITH(path, "…"), CONTAINS(path, "…"), ARRAY_CONTAINS(path, constant)
//	            IS_DEFINED(path), IS_NULL, IS_BOOL, IS_NUMBER, IS_STRING, IS_ARRAY, IS_OBJECT, IS_PRIMITIVE
//	            path alone (is it true?), NOT, AND, OR, parentheses
//	constant    number, 'text', "text", true, false, null, @parameter
func Parse(text string, parameters map[string]any) (*Select, error) {
	p := &parser{lexer: lexer{text: text}, parameters: parameters}
	if len(text) > MaxText {
		return nil, p.errorf(0, "a query of more than %d bytes", MaxText)
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, p.errorf(i, "not valid UTF-8")
	}
	s, err := p.query()
	if err == nil {
		if at, bad := s.check(); bad != nil {
			err = p.errorf(p.places[at.in][at.i], "%s", bad)
		}
	} else if at, msg, ok := p.notOffered(); ok {
		err = p.errorf(at, "%s", msg)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func invalidUTF8(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// parser reads a query from left to right, one token ahead.
type parser struct {
	lexer
	parameters map[string]any
	alias      string
	roots      []nameAt       // names with which paths began before FROM told the alias
	places     [clauses][]int // offsets of what the clauses list
	unnamed    int            // columns that have no name of their own
	limited    bool           // there is a TOP
	nothing    bool           // no results are wanted: TOP 0
	tok        token          // the next token
}

type nameAt struct {
	name string
	at   int
}

func (p *parser) errorf(offset int, format string, args ...any) error {
	before := p.text[:offset]
	line := strings.Count(before, "\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return &SyntaxError{Offset: offset, Line: line + 1, Column: utf8.RuneCountInString(before) + 1, Msg: fmt.Sprintf(format, args...)}
}

// next reads the token after the present one.
func (p *parser) next() (err error) {
	p.tok, err = p.scan()
	if bad, ok := err.(lexError); ok {
		return p.errorf(bad.at, "%s", bad.msg)
	}
	return err
}

// is says whether the token is a keyword or a sign.
func (p *parser) is(word string) bool {
	return p.tok.kind == tokenWord && strings.EqualFold(p.tok.text, word) || p.tok.kind == tokenSign && p.tok.text == word
}

// take passes over a keyword or sign if it is next.
func (p *parser) take(word string) (bool, error) {
	if !p.is(word) {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) expect(word string) error {
	ok, err := p.take(word)
	if err == nil && !ok {
		return p.unexpected(word)
	}
	return err
}

func (p *parser) unexpected(want string) error {
	return p.errorf(p.tok.at, "expected %s, found %s", want, p.tok.found())
}

func (p *parser) query() (*Select, error) {
	s := &Select{Where: &Filter{}}
	if err := p.next(); err != nil {
		return nil, err
	}
	steps := []func(*Select) error{p.columns, p.from, p.where, p.groupBy, p.orderBy, p.limits}
	for _, step := range steps {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	if p.tok.kind != tokenEnd {
		return nil, p.unexpected("the end of the query")
	}
	if p.nothing {
		// No document is wanted, and not the row that aggregates have of none.
		s.Where, s.Offset, s.Limit = &Filter{Op: Or}, max(s.Offset, 1), 1
	}
	return s, nil
}

func (p *parser) columns(s *Select) error {
	if err := p.expect("SELECT"); err != nil {
		return err
	}
	var err error
	if s.Distinct, err = p.take("DISTINCT"); err != nil {
		return err
	}
	if top, topErr := p.take("TOP"); topErr != nil {
		return topErr
	} else if top {
		if s.Limit, err = p.count(); err != nil {
			return err
		}
		p.limited, p.nothing = true, s.Limit == 0
	}
	first := p.tok.at
	if all, allErr := p.take("*"); allErr != nil || all {
		p.places[inColumns] = []int{first}
		return allErr
	}
	if s.Value, err = p.take("VALUE"); err != nil {
		return err
	}
	for {
		p.places[inColumns] = append(p.places[inColumns], p.tok.at)
		c, whole, err := p.column()
		if err != nil {
			return err
		}
		if whole >= 0 {
			if !s.Value || s.Distinct {
				name := strings.TrimSpace(p.text[whole:p.tok.at])
				alias := p.aliasAhead()
				if alias == "" && p.tok.kind == tokenWord && !p.is("FROM") {
					return p.unexpected("FROM")
				}
				if alias != "" && alias != name {
					return p.errorf(whole, "%s is no path, which begins with the name behind FROM: write %[2]s.%[1]s", jsondoc.Clip(name), jsondoc.Clip(alias))
				}
				return p.errorf(whole, "the whole document is no column: write * or VALUE %s", jsondoc.Clip(name))
			}
			s.Value = false
			return nil
		}
		s.Columns = append(s.Columns, c)
		more, err := p.take(",")
		if err != nil || !more {
			return err
		}
		if s.Value {
			return p.errorf(p.tok.at, "VALUE has one column")
		}
	}
}

// column reads a column. whole is the offset of one that is the document
// itself, else -1.
func (p *parser) column() (c Column, whole int, err error) {
	at := p.tok.at
	fn := NoFunc
	if p.tok.kind == tokenWord {
		for f, name := range funcNames {
			if name != "" && p.is(name) {
				fn = Func(f)
			}
		}
	}
	rest := p.lexer
	if fn != NoFunc {
		if following, restErr := rest.scan(); restErr != nil || following.text != "(" || following.kind != tokenSign {
			fn = NoFunc // an alias of that name
		}
	}
	if fn != NoFunc {
		if err = p.next(); err != nil {
			return c, -1, err
		}
		if err = p.expect("("); err != nil {
			return c, -1, err
		}
		c = Column{Func: fn}
		if fn == Count && p.tok.kind == tokenNumber && p.tok.text == "1" {
			if err = p.next(); err != nil {
				return c, -1, err
			}
		} else if c.Path, err = p.path(); err != nil {
			return c, -1, err
		} else if len(c.Path) == 0 {
			return c, -1, p.errorf(at, "%s of a path, or COUNT(1)", fn)
		}
		if err = p.expect(")"); err != nil {
			return c, -1, err
		}
	} else {
		if c.Path, err = p.path(); err != nil {
			return c, -1, err
		}
		if len(c.Path) == 0 {
			return c, at, nil
		}
		c.Name = c.Path[len(c.Path)-1].Name
	}
	as, err := p.take("AS")
	if err != nil || !as && (p.tok.kind != tokenWord || p.is("FROM") || p.isClause()) {
		if fn != NoFunc {
			p.unnamed++
			c.Name = fmt.Sprintf("$%d", p.unnamed)
		}
		return c, -1, err
	}
	if p.tok.kind != tokenWord {
		return c, -1, p.unexpected("a name")
	}
	c.Name = p.tok.text
	return c, -1, p.next()
}

// aliasAhead returns the name of the document, which FROM tells further on; "" if
// nothing does.
func (p *parser) aliasAhead() string {
	rest := parser{lexer: lexer{text: p.text, pos: p.tok.at}}
	for {
		if err := rest.next(); err != nil || rest.tok.kind == tokenEnd {
			return ""
		}
		if rest.is("FROM") {
			break
		}
	}
	if rest.from(nil) != nil {
		return ""
	}
	return rest.alias
}

func (p *parser) from(*Select) error {
	if err := p.expect("FROM"); err != nil {
		return err
	}
	if p.tok.kind != tokenWord {
		return p.unexpected("a name")
	}
	p.alias = p.tok.text
	if err := p.next(); err != nil {
		return err
	}
	as, err := p.take("AS")
	if err != nil {
		return err
	}
	if as || p.tok.kind == tokenWord && !p.isClause() && wordsNotOffered[upper(p.tok.text)] == "" {
		if p.tok.kind != tokenWord {
			return p.unexpected("a name")
		}
		p.alias = p.tok.text
		if err := p.next(); err != nil {
			return err
		}
	}
	for _, r := range p.roots {
		if r.name != p.alias {
			return p.errorf(r.at, "a path must begin with %s", jsondoc.Clip(p.alias))
		}
	}
	return nil
}

// isClause says whether the token begins a clause after FROM.
func (p *parser) isClause() bool {
	for _, word := range []string{"WHERE", "GROUP", "ORDER", "OFFSET", "LIMIT", "JOIN", "IN"} {
		if p.is(word) {
			return true
		}
	}
	return false
}

func (p *parser) where(s *Select) error {
	ok, err := p.take("WHERE")
	if err != nil || !ok {
		return err
	}
	p.places[inWhere] = []int{p.tok.at}
	f, err := p.condition(0)
	if err == nil {
		s.Where = f
	}
	return err
}

func (p *parser) groupBy(s *Select) error {
	return p.pathsBy("GROUP", inGroups, func(path Path) error {
		s.GroupBy = append(s.GroupBy, path)
		return nil
	})
}

func (p *parser) orderBy(s *Select) error {
	return p.pathsBy("ORDER", inOrder, func(path Path) (err error) {
		o := Order{Path: path}
		if o.Falling, err = p.take("DESC"); err != nil {
			return err
		}
		if !o.Falling {
			if _, err := p.take("ASC"); err != nil {
				return err
			}
		}
		s.OrderBy = append(s.OrderBy, o)
		return nil
	})
}

// pathsBy reads a clause "word BY path, ..." if there is one; each is called
// after each path and reads what follows it.
func (p *parser) pathsBy(word string, in clause, each func(Path) error) error {
	ok, err := p.take(word)
	if err != nil || !ok {
		return err
	}
	if err := p.expect("BY"); err != nil {
		return err
	}
	for {
		p.places[in] = append(p.places[in], p.tok.at)
		path, err := p.plainPath(word)
		if err != nil {
			return err
		}
		if err := each(path); err != nil {
			return err
		}
		if more, err := p.take(","); err != nil || !more {
			return err
		}
	}
}

func (p *parser) limits(s *Select) error {
	offset, err := p.take("OFFSET")
	if err != nil {
		return err
	}
	if offset {
		if s.Offset, err = p.count(); err != nil {
			return err
		}
	}
	at := p.tok.at
	limit, err := p.take("LIMIT")
	if err != nil || !limit {
		return err
	}
	if p.limited {
		return p.errorf(at, "TOP and LIMIT are the same: give one")
	}
	s.Limit, err = p.count()
	p.nothing = s.Limit == 0
	return err
}

// count reads a whole number.
func (p *parser) count() (int, error) {
	at := p.tok.at
	v, err := p.constant()
	if err != nil {
		return 0, err
	}
	if v.Kind != jsondoc.KindNumber || v.Number != math.Trunc(v.Number) || v.Number < 0 || v.Number > 1<<31-1 {
		return 0, p.errorf(at, "expected a whole number from 0 to %d, found %s", 1<<31-1, jsondoc.Clip(v.String()))
	}
	return int(v.Number), nil
}

// plainPath is path where a clause has no functions.
func (p *parser) plainPath(clause string) (Path, error) {
	rest := p.lexer
	if next, err := rest.scan(); err == nil && p.tok.kind == tokenWord && next.kind == tokenSign && next.text == "(" {
		return nil, p.errorf(p.tok.at, "%s BY %s(…) is not offered: it takes paths, and groups come in the order of their values", clause, jsondoc.Clip(p.tok.text))
	}
	return p.path()
}

// path reads a path, without the alias that it begins with.
func (p *parser) path() (Path, error) {
	if p.tok.kind != tokenWord {
		return nil, p.unexpected("a path")
	}
	if p.alias == "" {
		p.roots = append(p.roots, nameAt{p.tok.text, p.tok.at})
	} else if p.tok.text != p.alias {
		return nil, p.errorf(p.tok.at, "a path must begin with %s", jsondoc.Clip(p.alias))
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	path := Path{}
	for {
		at := p.tok.at
		switch {
		case p.is("."):
			if err := p.next(); err != nil {
				return nil, err
			}
			if p.tok.kind != tokenWord {
				return nil, p.unexpected("a name")
			}
			path = append(path, jsondoc.Step{Name: p.tok.text})
			if err := p.next(); err != nil {
				return nil, err
			}
		case p.is("["):
			if err := p.next(); err != nil {
				return nil, err
			}
			switch {
			case p.tok.kind == tokenString:
				path = append(path, jsondoc.Step{Name: p.tok.text})
				if err := p.next(); err != nil {
					return nil, err
				}
			case p.is("]"):
				path = append(path, jsondoc.Step{Element: true})
			default:
				return nil, p.errorf(p.tok.at, "expected a name in quotes, or ] for any element, found %s", p.tok.describe())
			}
			if err := p.expect("]"); err != nil {
				return nil, err
			}
		default:
			return path, nil
		}
		if len(path) > jsondoc.DefaultMaxDepth {
			return nil, p.errorf(at, "a path of more than %d steps", jsondoc.DefaultMaxDepth)
		}
	}
}

// constant reads a literal or a parameter.
func (p *parser) constant() (Value, error) {
	tok := p.tok
	v, ok, err := p.literal()
	if err == nil && !ok {
		err = p.errorf(tok.at, "expected a constant, found %s", tok.found())
	}
	if err != nil {
		return v, err
	}
	return v, p.next()
}

// literal returns the constant that the present token is; a minus sign is
// passed over.
func (p *parser) literal() (v Value, ok bool, err error) {
	tok := p.tok
	switch tok.kind {
	case tokenNumber:
		return Value{Kind: jsondoc.KindNumber, Number: tok.number}, true, nil
	case tokenString:
		return Value{Kind: jsondoc.KindString, Text: tok.text}, true, nil
	case tokenParameter:
		given, found := p.parameters["@"+tok.text]
		if !found {
			given, found = p.parameters[tok.text]
		}
		if !found {
			return v, false, p.errorf(tok.at, "parameter @%s is not given", jsondoc.Clip(tok.text))
		}
		if v, err = ValueOf(given); err != nil {
			return v, false, p.errorf(tok.at, "parameter @%s: %s", jsondoc.Clip(tok.text), err)
		}
		return v, true, nil
	case tokenSign:
		if tok.text == "-" {
			if err := p.next(); err != nil {
				return v, false, err
			}
			if p.tok.kind != tokenNumber {
				return v, false, p.unexpected("a number")
			}
			return Value{Kind: jsondoc.KindNumber, Number: 0 - p.tok.number}, true, nil
		}
	case tokenWord:
		switch {
		case p.is("TRUE"), p.is("FALSE"):
			return Value{Kind: jsondoc.KindBool, Bool: p.is("TRUE")}, true, nil
		case p.is("NULL"):
			return Value{Kind: jsondoc.KindNull}, true, nil
		}
	}
	return v, false, nil
}
