package engine

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// Filter is a condition on documents. The zero Filter is true for all. It is
// immutable. Calls that take an invalid filter fail with ErrInvalid and say what is
// wrong.
//
// A path is a list of member names, each after a slash, from the root; [] stands
// for each element of an array: /address/city, /tags/[], /lines/[]/sku. A name
// with a slash is written as a JSON string: /"a/b".
//
// Values are nil, booleans, numbers and strings. A condition that compares values of
// different types is undefined, and so is a condition on an absent value. Not of an
// undefined condition is undefined. Absent is not null. Numbers are doubles. A
// condition on a path with [] is true if it is true for one element.
type Filter struct {
	f   *query.Filter
	err error
}

// String returns the filter in the words of the text form.
func (f Filter) String() string {
	if f.err != nil {
		return f.err.Error()
	}
	return f.tree().String()
}

func (f Filter) tree() *query.Filter {
	if f.f == nil {
		return &query.Filter{}
	}
	return f.f
}

// leaf makes a filter of one condition.
func leaf(path string, f query.Filter, values ...any) Filter {
	var err error
	if f.Path, err = query.ParsePath(path); err != nil {
		return Filter{err: err}
	}
	for _, v := range values {
		value, err := query.ValueOf(v)
		if err != nil {
			return Filter{err: fmt.Errorf("%s: %w", jsondoc.Clip(path), err)}
		}
		f.Values = append(f.Values, value)
	}
	if f.Op != query.In && len(f.Values) == 1 {
		f.Value, f.Values = f.Values[0], nil
	}
	return Filter{f: &f}
}

// Eq is true for documents whose value at path equals v.
func Eq(path string, v any) Filter { return leaf(path, query.Filter{Op: query.Eq}, v) }

// Ne is true for documents whose value at path has the type of v and differs from v.
func Ne(path string, v any) Filter { return leaf(path, query.Filter{Op: query.Ne}, v) }

// In is true for documents whose value at path equals one of values. Without values
// it is true for none.
func In(path string, values ...any) Filter {
	return leaf(path, query.Filter{Op: query.In}, values...)
}

// Range is true for documents whose value at path lies between two bounds. One of
// them may be Unbounded. Otherwise both values must have the same type.
func Range(path string, lo, hi Bound) Filter {
	f := leaf(path, query.Filter{Op: query.Range})
	if f.err != nil {
		return f
	}
	for _, end := range []struct {
		to   *query.Limit
		from Bound
	}{{&f.f.Lo, lo}, {&f.f.Hi, hi}} {
		if !end.from.some {
			continue
		}
		v, err := query.ValueOf(end.from.value)
		if err != nil {
			return Filter{err: fmt.Errorf("%s: %w", jsondoc.Clip(path), err)}
		}
		*end.to = query.Limit{Value: v, Inclusive: end.from.inclusive}
	}
	return f
}

// Bound is one end of a Range. The zero Bound is Unbounded.
type Bound struct {
	value           any
	some, inclusive bool
}

// Incl is a bound that belongs to the range.
func Incl(v any) Bound { return Bound{value: v, some: true, inclusive: true} }

// Excl is a bound that does not belong to the range.
func Excl(v any) Bound { return Bound{value: v, some: true} }

// Unbounded is no bound.
func Unbounded() Bound { return Bound{} }

// HasPrefix is true for documents whose value at path is a string that begins
// with prefix.
func HasPrefix(path, prefix string) Filter {
	return leaf(path, query.Filter{Op: query.Prefix}, prefix)
}

// Contains is true for documents whose value at path is a string with part in
// it.
func Contains(path, part string) Filter {
	return leaf(path, query.Filter{Op: query.Contains}, part)
}

// ArrayContains is true for documents whose value at path is an array with an
// element that equals v.
func ArrayContains(path string, v any) Filter {
	return leaf(path, query.Filter{Op: query.ArrayContains}, v)
}

// Exists is true for documents that have a value at path, null included.
func Exists(path string) Filter { return leaf(path, query.Filter{Op: query.Exists}) }

// IsNull is true for documents whose value at path is null.
func IsNull(path string) Filter { return IsType(path, TypeNull) }

// ValueType is the type of a value.
type ValueType uint8

// Types of values.
const (
	TypeNull   = ValueType(jsondoc.KindNull)
	TypeBool   = ValueType(jsondoc.KindBool)
	TypeNumber = ValueType(jsondoc.KindNumber)
	TypeString = ValueType(jsondoc.KindString)
	TypeArray  = ValueType(jsondoc.KindArray)
	TypeObject = ValueType(jsondoc.KindObject)
)

// String returns the name of the type.
func (t ValueType) String() string { return jsondoc.Kind(t).String() }

// IsType is true for documents whose value at path is of one of these types.
func IsType(path string, types ...ValueType) Filter {
	f := leaf(path, query.Filter{Op: query.IsKind})
	for _, t := range types {
		if f.err == nil && (t < TypeNull || t > TypeObject) {
			return Filter{err: fmt.Errorf("%s: type %d", jsondoc.Clip(path), t)}
		}
		if f.err == nil {
			f.f.Kinds |= 1 << t
		}
	}
	return f
}

// And is true if all filters are true. And() is true.
func And(filters ...Filter) Filter { return combine(query.And, filters) }

// Or is true if one of the filters is true. Or() is false.
func Or(filters ...Filter) Filter { return combine(query.Or, filters) }

// Not is true if f is false. It is undefined if f is undefined.
func Not(f Filter) Filter { return combine(query.Not, []Filter{f}) }

func combine(op query.Op, filters []Filter) Filter {
	node := &query.Filter{Op: op}
	for _, f := range filters {
		if f.err != nil {
			return f
		}
		node.Sub = append(node.Sub, f.tree())
	}
	return Filter{f: node}
}
