package engine

import (
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
func leaf(op query.Op, path string, values ...any) Filter {
	f, err := query.Leaf(op, path, values...)
	return Filter{f, err}
}

// Eq is true for documents whose value at path equals v.
func Eq(path string, v any) Filter { return leaf(query.Eq, path, v) }

// Ne is true for documents whose value at path has the type of v and differs from v.
func Ne(path string, v any) Filter { return leaf(query.Ne, path, v) }

// In is true for documents whose value at path equals one of values. Without values
// it is true for none.
func In(path string, values ...any) Filter {
	return leaf(query.In, path, values...)
}

// Range is true for documents whose value at path lies between two bounds. One of
// them may be Unbounded. Otherwise both values must have the same type.
func Range(path string, lo, hi Bound) Filter {
	f, err := query.Between(path, lo.of, hi.of)
	return Filter{f, err}
}

// Bound is one end of a Range. The zero Bound is Unbounded.
type Bound struct{ of query.Bound }

// Incl is a bound that belongs to the range.
func Incl(v any) Bound { return Bound{query.Bound{Value: v, Some: true, Inclusive: true}} }

// Excl is a bound that does not belong to the range.
func Excl(v any) Bound { return Bound{query.Bound{Value: v, Some: true}} }

// Unbounded is no bound.
func Unbounded() Bound { return Bound{} }

// HasPrefix is true for documents whose value at path is a string that begins
// with prefix.
func HasPrefix(path, prefix string) Filter {
	return leaf(query.Prefix, path, prefix)
}

// Contains is true for documents whose value at path is a string with part in
// it.
func Contains(path, part string) Filter {
	return leaf(query.Contains, path, part)
}

// ArrayContains is true for documents whose value at path is an array with an
// element that equals v.
func ArrayContains(path string, v any) Filter {
	return leaf(query.ArrayContains, path, v)
}

// Exists is true for documents that have a value at path, null included.
func Exists(path string) Filter { return leaf(query.Exists, path) }

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
	kinds := make([]jsondoc.Kind, len(types))
	for i, t := range types {
		kinds[i] = jsondoc.Kind(t)
	}
	f, err := query.OfKinds(path, kinds)
	return Filter{f, err}
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
