package query

import (
	"fmt"
	"strconv"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Leaf returns a condition on the value at a path: Eq, Ne, In, Prefix, Contains,
// ArrayContains or Exists, with values as ValueOf takes them.
func Leaf(op Op, path string, values ...any) (*Filter, error) {
	f := &Filter{Op: op}
	var err error
	if f.Path, err = ParsePath(path); err != nil {
		return nil, err
	}
	for _, v := range values {
		value, err := ValueOf(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", jsondoc.Clip(path), err)
		}
		f.Values = append(f.Values, value)
	}
	if op != In && len(f.Values) == 1 {
		f.Value, f.Values = f.Values[0], nil
	}
	return f, nil
}

// Bound is one end of a range. The zero Bound is none.
type Bound struct {
	Value           any
	Some, Inclusive bool
}

// Between returns the condition that the value at a path lies between two bounds.
func Between(path string, lo, hi Bound) (*Filter, error) {
	f, err := Leaf(Range, path)
	if err != nil {
		return nil, err
	}
	if f.Lo, err = lo.limit(path); err == nil {
		f.Hi, err = hi.limit(path)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (b *Bound) limit(path string) (Limit, error) {
	if !b.Some {
		return Limit{}, nil
	}
	v, err := ValueOf(b.Value)
	if err != nil {
		return Limit{}, fmt.Errorf("%s: %w", jsondoc.Clip(path), err)
	}
	return Limit{Value: v, Inclusive: b.Inclusive}, nil
}

// OfKinds returns the condition that the value at a path is of one of these kinds.
func OfKinds(path string, kinds []Kind) (*Filter, error) {
	f, err := Leaf(IsKind, path)
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k < jsondoc.KindNull || k > jsondoc.KindObject {
			return nil, fmt.Errorf("%s: type %d", jsondoc.Clip(path), k)
		}
		f.Kinds |= 1 << k
	}
	return f, nil
}

// Field is a column whose path is a text.
type Field struct {
	Path string
	As   string // name of the member; "": the last name of the path, or $ and the number of the column
	Func Func
}

// Column returns the column, number i of the query from 0.
func (f Field) Column(i int) (c Column, err error) {
	if f.Func > Max {
		return c, fmt.Errorf("aggregate %d", f.Func)
	}
	c = Column{Func: f.Func, Name: f.As}
	if f.Path != "" || f.Func != Count {
		if c.Path, err = ParsePath(f.Path); err != nil {
			return c, err
		}
	}
	switch n := len(c.Path); {
	case c.Name != "":
	case f.Func != NoFunc || n == 0:
		c.Name = "$" + strconv.Itoa(i+1)
	default:
		c.Name = c.Path[n-1].Name
	}
	return c, nil
}

// Field returns the column with its path as a text.
func (c *Column) Field() Field {
	f := Field{As: c.Name, Func: c.Func}
	if c.Path != nil {
		f.Path = c.Path.String()
	}
	return f
}

// Assembly puts a query together whose paths are texts. It keeps the first error.
type Assembly struct {
	Select Select // without columns, groups and order
	Err    error
}

// Column adds a column.
func (a *Assembly) Column(f Field) {
	c, err := f.Column(len(a.Select.Columns))
	if a.Err == nil {
		a.Err = err
	}
	a.Select.Columns = append(a.Select.Columns, c)
}

// Group adds a path to those whose values make groups.
func (a *Assembly) Group(path string) {
	a.Select.GroupBy = append(a.Select.GroupBy, a.path(path))
}

// Order adds a path to those by which results are ordered.
func (a *Assembly) Order(path string, falling bool) {
	a.Select.OrderBy = append(a.Select.OrderBy, Order{Path: a.path(path), Falling: falling})
}

func (a *Assembly) path(text string) (p Path) {
	if a.Err == nil {
		p, a.Err = ParsePath(text)
	}
	return p
}

// Done checks the query and returns it, its filter simplified.
func (a *Assembly) Done() (*Select, error) {
	if a.Err == nil {
		a.Err = a.Select.Check()
	}
	if a.Err != nil {
		return nil, a.Err
	}
	a.Select.Where = a.Select.Where.Simplify()
	return &a.Select, nil
}
