package syntax

import (
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/sql/value"
)

// expr reads an expression.
func (p *parser) expr() (Expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.coalesced()
	if err != nil {
		return nil, err
	}
	if !p.isSign("?") {
		return e, nil
	}
	c := &Cond{At: At(e.Pos()), If: e}
	if err = p.next(); err != nil {
		return nil, err
	}
	if c.Then, err = p.expr(); err != nil {
		return nil, err
	}
	if err = p.expect(":", ": of a condition"); err != nil {
		return nil, err
	}
	c.Else, err = p.expr()
	return c, err
}

func (p *parser) coalesced() (Expr, error) {
	e, err := p.joined(true)
	for n := 0; err == nil && p.isSign("??"); n++ {
		if n == MaxHeight {
			return nil, p.tooHigh()
		}
		if err = p.next(); err != nil {
			return nil, err
		}
		var r Expr
		if r, err = p.joined(true); err == nil {
			e = &Binary{At(e.Pos()), "??", e, r}
		}
	}
	return e, err
}

// joined reads expressions joined by OR, or by AND.
func (p *parser) joined(or bool) (Expr, error) {
	read, keyword := p.negated, "AND"
	if or {
		read, keyword = func() (Expr, error) { return p.joined(false) }, "OR"
	}
	first, err := read()
	if err != nil || !p.is(keyword) {
		return first, err
	}
	l := &Logic{At: At(first.Pos()), Or: or, List: []Expr{first}}
	for p.is(keyword) {
		if err = p.next(); err != nil {
			return nil, err
		}
		e, err := read()
		if err != nil {
			return nil, err
		}
		if l.List = append(l.List, e); len(l.List) > MaxItems {
			return nil, p.errorf(p.tok.at, "more than %d conditions joined by %s", MaxItems, keyword)
		}
	}
	return l, nil
}

func (p *parser) negated() (Expr, error) {
	at := At(p.tok.at)
	if !p.is("NOT") && !p.isSign("!") {
		return p.tested()
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.negated()
	return &Unary{at, "NOT", e}, err
}

// tested reads an expression with BETWEEN, IN or LIKE.
func (p *parser) tested() (Expr, error) {
	e, err := p.binary(0)
	for n := 0; err == nil; n++ {
		not := false
		if p.is("NOT") {
			if not = p.ahead("BETWEEN") || p.ahead("IN") || p.ahead("LIKE"); not {
				if err = p.next(); err != nil {
					return nil, err
				}
			}
		}
		if n == MaxHeight {
			return nil, p.tooHigh()
		}
		at := At(e.Pos())
		switch {
		case p.is("BETWEEN"):
			b := &Between{At: at, X: e, Not: not}
			if b.Lo, err = p.operand(); err != nil {
				return nil, err
			}
			if !p.is("AND") {
				return nil, p.expected("an operator or the AND between the bounds of BETWEEN")
			}
			b.Hi, err = p.operand()
			e = b
		case p.is("IN"):
			in := &In{At: at, X: e, Not: not}
			if err = p.next(); err != nil {
				return nil, err
			}
			if err = p.expect("(", "( of IN"); err != nil {
				return nil, err
			}
			if in.List, err = p.list(); err != nil {
				return nil, err
			}
			err = p.expect(")", ", or ) of IN")
			e = in
		case p.is("LIKE"):
			l := &Like{At: at, X: e, Not: not}
			if l.Pattern, err = p.operand(); err != nil {
				return nil, err
			}
			if p.is("ESCAPE") {
				l.Escape, err = p.operand()
			}
			e = l
		default:
			return e, nil
		}
	}
	return e, err
}

// operand reads an expression of operators behind the present token.
func (p *parser) operand() (Expr, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	return p.binary(0)
}

// list reads one or more expressions with commas between them.
func (p *parser) list() (list []Expr, err error) {
	for {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		if list = append(list, e); len(list) > MaxItems {
			return nil, p.errorf(p.tok.at, "more than %d elements of a list", MaxItems)
		}
		more, err := p.takeSign(",")
		if err != nil {
			return nil, err
		}
		if !more {
			return list, nil
		}
	}
}

// strength is the precedence of the operators between two expressions.
var strength = map[string]int{
	"|": 1, "^": 2, "&": 3, "=": 4, "!=": 4, "<>": 4, "<": 5, "<=": 5, ">": 5, ">=": 5,
	"<<": 6, ">>": 6, ">>>": 6, "||": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9,
}

// unaryStrength is that of the operators before an expression, pathStrength that of what
// follows one.
const (
	unaryStrength = 10
	pathStrength  = 11
)

func (p *parser) tooHigh() error {
	return p.errorf(p.tok.at, "more than %d operators in a row", MaxHeight)
}

// binary reads operators that are stronger than a strength.
func (p *parser) binary(than int) (Expr, error) {
	e, err := p.unary()
	for n := 0; err == nil && p.tok.kind == sign; n++ {
		op := p.tok.text
		s := strength[op]
		if s <= than {
			break
		}
		if n == MaxHeight {
			return nil, p.tooHigh()
		}
		if err = p.next(); err != nil {
			return nil, err
		}
		if op == "<>" {
			op = "!="
		}
		var r Expr
		if r, err = p.binary(s); err == nil {
			e = &Binary{At(e.Pos()), op, e, r}
		}
	}
	return e, err
}

func (p *parser) unary() (Expr, error) {
	at := At(p.tok.at)
	if !p.isSign("-") && !p.isSign("+") && !p.isSign("~") {
		return p.postfix()
	}
	op := p.tok.text
	if err := p.next(); err != nil {
		return nil, err
	}
	if op == "-" && p.tok.kind == number {
		l := &Literal{at, value.Number(-p.tok.number)}
		if i, err := strconv.ParseInt("-"+p.tok.text, 10, 64); err == nil {
			l.V = value.Int(i)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		return p.path(l)
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.unary()
	return &Unary{at, op, e}, err
}

func (p *parser) postfix() (Expr, error) {
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.path(e)
}

// constants are the words for constants.
var constants = map[string]value.Value{
	"TRUE": value.Bool(true), "FALSE": value.Bool(false), "NULL": value.Null(), "UNDEFINED": {},
	"NAN": value.Number(math.NaN()), "INFINITY": value.Number(math.Inf(1)),
}

func (p *parser) primary() (Expr, error) {
	t := p.tok
	at := At(t.at)
	switch t.kind {
	case number:
		l := &Literal{at, value.Number(t.number)}
		if i, err := strconv.ParseInt(t.text, 10, 64); err == nil {
			l.V = value.Int(i)
		}
		return l, p.next()
	case text:
		return &Literal{at, value.String(t.text)}, p.next()
	case parameter:
		if p.bind == nil {
			return &Param{at, t.text}, p.next()
		}
		v, err := p.bind.value(t.at, t.text)
		if err != nil {
			return nil, err
		}
		return &Literal{at, v}, p.next()
	case sign:
		switch t.text {
		case "(":
			return p.parenthesis(at)
		case "[":
			return p.array(at)
		case "{":
			return p.object(at)
		}
	case word:
		if err := p.next(); err != nil {
			return nil, err
		}
		switch {
		case p.isSign("(") && (t.upper == "EXISTS" || t.upper == "ARRAY"):
			kind := SubExists
			if t.upper == "ARRAY" {
				kind = SubArray
			}
			if err := p.next(); err != nil {
				return nil, err
			}
			return p.sub(at, kind)
		case p.isSign("(") && !reserved[t.upper]:
			return p.call(at, upper(t.text), false)
		case p.isSign(".") && t.upper == "UDF":
			if err := p.next(); err != nil {
				return nil, err
			}
			name := p.tok
			if name.kind != word {
				return nil, p.expected("the name of a function after udf.")
			}
			if !p.ahead("(") {
				return &Member{at, &Ident{at, t.text}, name.text}, p.next()
			}
			if err := p.next(); err != nil {
				return nil, err
			}
			return p.call(at, name.text, true)
		}
		if v, ok := constants[t.upper]; ok && !(t.upper == "NAN" || t.upper == "INFINITY") {
			return &Literal{at, v}, nil
		} else if ok && (t.text == "NaN" || t.text == "Infinity") {
			return &Literal{at, v}, nil
		}
		if !reserved[t.upper] {
			return &Ident{at, t.text}, nil
		}
		p.tok, p.pos = t, p.ended
	}
	return nil, p.expected("an expression")
}

// parenthesis reads (expr) or (query).
func (p *parser) parenthesis(at At) (Expr, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.is("SELECT") {
		return p.sub(at, SubScalar)
	}
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	return e, p.expect(")", "an operator or )")
}

// sub reads a subquery and its closing parenthesis.
func (p *parser) sub(at At, kind SubKind) (Expr, error) {
	clause := p.clause
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	p.clause = clause
	return &Sub{at, kind, q}, p.expect(")", "a clause of the subquery or )")
}

// call reads the arguments of a function.
func (p *parser) call(at At, name string, udf bool) (Expr, error) {
	c := &Call{At: at, Name: name, UDF: udf}
	if err := p.next(); err != nil {
		return nil, err
	}
	empty, err := p.takeSign(")")
	if err != nil || empty {
		return c, err
	}
	if c.Args, err = p.list(); err != nil {
		return nil, err
	}
	return c, p.expect(")", ", or ) of "+name)
}

func (p *parser) array(at At) (Expr, error) {
	a := &Array{At: at}
	if err := p.next(); err != nil {
		return nil, err
	}
	empty, err := p.takeSign("]")
	if err != nil || empty {
		return a, err
	}
	if a.List, err = p.list(); err != nil {
		return nil, err
	}
	return a, p.expect("]", ", or ] of an array")
}

func (p *parser) object(at At) (Expr, error) {
	o := &Object{At: at}
	if err := p.next(); err != nil {
		return nil, err
	}
	empty, err := p.takeSign("}")
	if err != nil || empty {
		return o, err
	}
	for {
		if p.tok.kind != text && p.tok.kind != word {
			return nil, p.expected("the name of a member")
		}
		o.Names = append(o.Names, p.tok.text)
		if len(o.Names) > MaxItems {
			return nil, p.errorf(p.tok.at, "more than %d members of an object", MaxItems)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		if err := p.expect(":", ": after the name of a member"); err != nil {
			return nil, err
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		o.List = append(o.List, e)
		more, err := p.takeSign(",")
		if err != nil {
			return nil, err
		}
		if !more {
			return o, p.expect("}", ", or } of an object")
		}
	}
}
