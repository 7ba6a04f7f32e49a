package syntax

import (
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// MaxParameters bounds the parameters that a query uses: the bytes of all of their values
// together, as value.Value.Size counts them.
const MaxParameters = 4 << 20

// maxUses bounds them where each counts as often as the query names it: so often it stands in the printed query.
const maxUses = 4 * MaxParameters

// binder gives the values of the parameters of a text.
type binder struct {
	text       string
	given      map[string]any
	known      map[string]value.Value
	size, used int64
}

// use counts a parameter that the text names at an offset.
func (b *binder) use(at int, name string, v value.Value) (value.Value, error) {
	if b.used += v.Size(); b.used > maxUses {
		return v, Errorf(b.text, at, "parameter @%s: parameters of more than %d bytes, each as often as it is named", jsondoc.Clip(name), maxUses)
	}
	return v, nil
}

// value returns the value of a parameter that the text names at an offset.
func (b *binder) value(at int, name string) (value.Value, error) {
	if v, ok := b.known[name]; ok {
		return b.use(at, name, v)
	}
	v, ok := b.given["@"+name]
	if !ok {
		v, ok = b.given[name]
	}
	if !ok {
		return value.Value{}, Errorf(b.text, at, "parameter @%s is not given", jsondoc.Clip(name))
	}
	bound, err := value.Of(v, MaxParameters-b.size)
	if b.size += bound.Size(); err == value.ErrLarge || b.size > MaxParameters {
		return value.Value{}, Errorf(b.text, at, "parameter @%s: parameters of more than %d bytes", jsondoc.Clip(name), MaxParameters)
	}
	if err != nil {
		return value.Value{}, Errorf(b.text, at, "parameter @%s: %s", jsondoc.Clip(name), err)
	}
	if b.known == nil {
		b.known = make(map[string]value.Value)
	}
	b.known[name] = bound
	return b.use(at, name, bound)
}

// count returns a number of results in which no parameter is left.
func (b *binder) count(c *Count) (*Count, error) {
	if c == nil || c.Param == "" {
		return c, nil
	}
	v, err := b.value(c.At, c.Param)
	if err != nil {
		return nil, err
	}
	n, ok := v.Int()
	if !ok || n < 0 || n > maxCount {
		return nil, Errorf(b.text, c.At, "parameter @%s: expected a whole number up to %d, found %s", jsondoc.Clip(c.Param), maxCount, jsondoc.Clip(v.String()))
	}
	return &Count{At: c.At, N: int(n)}, nil
}

// ParseWith is Parse and Bind at once.
func ParseWith(text string, parameters map[string]any) (*Query, error) {
	return parse(&parser{text: text, bind: &binder{text: text, given: parameters}})
}

// Bind returns the query with constants in place of its parameters, which may be named with
// or without their @. text is that of the query. The error is an *Error.
func (q *Query) Bind(text string, parameters map[string]any) (*Query, error) {
	b := &binder{text: text, given: parameters}
	var counts func(q *Query) error
	counts = func(q *Query) (err error) {
		for _, c := range []**Count{&q.Top, &q.Offset, &q.Limit} {
			if err == nil {
				*c, err = b.count(*c)
			}
		}
		q.EachSource(func(s *Source) {
			if s.Query != nil && err == nil {
				err = counts(s.Query)
			}
		})
		return err
	}
	out, err := q.Rewrite(func(e Expr) (Expr, error) {
		switch e := e.(type) {
		case *Param:
			v, err := b.value(int(e.At), e.Name)
			return &Literal{e.At, v}, err
		case *Sub:
			return e, counts(e.Q) // Rewrite has made it
		}
		return e, nil
	})
	if err == nil {
		err = counts(out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
