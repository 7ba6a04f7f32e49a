package query

import (
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// condition reads conditions joined by OR.
func (p *parser) condition(depth int) (*Filter, error) {
	if depth >= MaxDepth {
		return nil, p.errorf(p.tok.at, "more than %d nested conditions", MaxDepth)
	}
	return p.joined(Or, "OR", func() (*Filter, error) {
		return p.joined(And, "AND", func() (*Filter, error) { return p.negated(depth) })
	})
}

// joined reads one or more of what read does, with a word between them.
func (p *parser) joined(op Op, word string, read func() (*Filter, error)) (*Filter, error) {
	f, err := read()
	if err != nil {
		return nil, err
	}
	list := []*Filter{f}
	for {
		more, err := p.take(word)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if f, err = read(); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return &Filter{Op: op, Sub: list}, nil
}

func (p *parser) negated(depth int) (*Filter, error) {
	not, err := p.take("NOT")
	if err != nil {
		return nil, err
	}
	if !not {
		return p.simple(depth)
	}
	if depth+1 >= MaxDepth {
		return nil, p.errorf(p.tok.at, "more than %d nested conditions", MaxDepth)
	}
	f, err := p.negated(depth + 1)
	if err != nil {
		return nil, err
	}
	return not1(f), nil
}

func not1(f *Filter) *Filter { return &Filter{Op: Not, Sub: []*Filter{f}} }

// simple reads a condition without AND, OR and NOT.
func (p *parser) simple(depth int) (*Filter, error) {
	if open, err := p.take("("); err != nil {
		return nil, err
	} else if open {
		f, err := p.condition(depth + 1)
		if err != nil {
			return nil, err
		}
		return f, p.expect(")")
	}
	at := p.tok.at
	v, constant, err := p.literal()
	if err != nil {
		return nil, err
	}
	// A name that is also a word of the language is a path where it is the alias.
	if constant && !(p.tok.kind == tokenWord && p.tok.text == p.alias) {
		if err = p.next(); err != nil {
			return nil, err
		}
		return p.reversed(v, at)
	}
	if p.tok.kind == tokenWord && p.tok.text != p.alias {
		return p.function()
	}
	path, err := p.property()
	if err != nil {
		return nil, err
	}
	return p.compared(path)
}

// property reads a path that is not the document itself.
func (p *parser) property() (Path, error) {
	at := p.tok.at
	path, err := p.path()
	if err == nil && len(path) == 0 {
		err = p.errorf(at, "expected a property of %s", jsondoc.Clip(p.alias))
	}
	return path, err
}

// reversed reads what follows a constant on the left side.
func (p *parser) reversed(v Value, at int) (*Filter, error) {
	sign := p.tok
	mirrored, ok := map[string]string{"=": "=", "!=": "!=", "<>": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}[sign.text]
	if sign.kind != tokenSign || !ok {
		if v.Kind == jsondoc.KindBool {
			if v.Bool {
				return &Filter{}, nil
			}
			return &Filter{Op: Or}, nil
		}
		return nil, p.errorf(at, "%s is no condition", jsondoc.Clip(v.String()))
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	path, err := p.property()
	if err != nil {
		return nil, err
	}
	return comparison(path, mirrored, v), nil
}

// compared reads what follows a path.
func (p *parser) compared(path Path) (*Filter, error) {
	sign := p.tok
	if sign.kind == tokenSign {
		switch sign.text {
		case "=", "!=", "<>", "<", "<=", ">", ">=":
			if err := p.next(); err != nil {
				return nil, err
			}
			if p.tok.kind == tokenWord && p.tok.text == p.alias {
				return nil, p.errorf(p.tok.at, "a path can be compared with a constant only")
			}
			v, err := p.constant()
			if err != nil {
				return nil, err
			}
			return comparison(path, sign.text, v), nil
		}
	}
	not, err := p.take("NOT")
	if err != nil {
		return nil, err
	}
	var f *Filter
	switch {
	case p.is("IN"):
		f, err = p.in(path)
	case p.is("BETWEEN"):
		f, err = p.between(path)
	case not:
		return nil, p.unexpected("IN or BETWEEN")
	default:
		return &Filter{Op: Eq, Path: path, Value: Value{Kind: jsondoc.KindBool, Bool: true}}, nil
	}
	if err == nil && not {
		f = not1(f)
	}
	return f, err
}

func (p *parser) in(path Path) (*Filter, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	f := &Filter{Op: In, Path: path}
	for {
		v, err := p.constant()
		if err != nil {
			return nil, err
		}
		if f.Values = append(f.Values, v); len(f.Values) > MaxLeaves {
			return nil, p.errorf(p.tok.at, "more than %d values", MaxLeaves)
		}
		more, err := p.take(",")
		if err != nil {
			return nil, err
		}
		if !more {
			return f, p.expect(")")
		}
	}
}

func (p *parser) between(path Path) (*Filter, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	lo, err := p.constant()
	if err != nil {
		return nil, err
	}
	if err = p.expect("AND"); err != nil {
		return nil, err
	}
	at := p.tok.at
	hi, err := p.constant()
	if err != nil {
		return nil, err
	}
	if lo.Kind != hi.Kind {
		return nil, p.errorf(at, "BETWEEN a %s and a %s", lo.Kind, hi.Kind)
	}
	return &Filter{Op: Range, Path: path, Lo: Limit{lo, true}, Hi: Limit{hi, true}}, nil
}

// comparison is the condition path sign v.
func comparison(path Path, sign string, v Value) *Filter {
	switch sign {
	case "=":
		return &Filter{Op: Eq, Path: path, Value: v}
	case "<":
		return &Filter{Op: Range, Path: path, Hi: Limit{v, false}}
	case "<=":
		return &Filter{Op: Range, Path: path, Hi: Limit{v, true}}
	case ">":
		return &Filter{Op: Range, Path: path, Lo: Limit{v, false}}
	case ">=":
		return &Filter{Op: Range, Path: path, Lo: Limit{v, true}}
	}
	return &Filter{Op: Ne, Path: path, Value: v}
}

// tests are the functions of a path alone, as sets of types.
var tests = map[string]uint8{
	"IS_NULL": 1 << jsondoc.KindNull, "IS_BOOL": 1 << jsondoc.KindBool, "IS_NUMBER": 1 << jsondoc.KindNumber, "IS_STRING": 1 << jsondoc.KindString,
	"IS_ARRAY": 1 << jsondoc.KindArray, "IS_OBJECT": 1 << jsondoc.KindObject,
	"IS_PRIMITIVE": 1<<jsondoc.KindNull | 1<<jsondoc.KindBool | 1<<jsondoc.KindNumber | 1<<jsondoc.KindString,
}

// function reads a function that is a condition.
func (p *parser) function() (*Filter, error) {
	name := p.tok
	f := &Filter{}
	constant := false
	switch word := upper(name.text); word {
	case "IS_DEFINED":
		f.Op = Exists
	case "STARTSWITH":
		f.Op, constant = Prefix, true
	case "CONTAINS":
		f.Op, constant = Contains, true
	case "ARRAY_CONTAINS":
		f.Op, constant = ArrayContains, true
	default:
		kinds, ok := tests[word]
		if !ok {
			return nil, p.errorf(name.at, "expected a condition, found %s; a path must begin with %s", name.describe(), jsondoc.Clip(p.alias))
		}
		f.Op, f.Kinds = IsKind, kinds
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var err error
	if f.Path, err = p.property(); err != nil {
		return nil, err
	}
	if constant {
		if err = p.expect(","); err != nil {
			return nil, err
		}
		at := p.tok.at
		if f.Value, err = p.constant(); err != nil {
			return nil, err
		}
		if f.Op != ArrayContains && f.Value.Kind != jsondoc.KindString {
			return nil, p.errorf(at, "expected a string, found %s", jsondoc.Clip(f.Value.String()))
		}
	}
	return f, p.expect(")")
}

// upper returns an ASCII word in capitals.
func upper(word string) string {
	b := []byte(word)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
