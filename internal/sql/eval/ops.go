package eval

import (
	"math"

	"github.com/cleavestore/cleave/internal/sql/value"
)

// index returns the element or member that an index tells.
func index(of, by value.Value) value.Value {
	if name, ok := by.Text(); ok {
		return of.Member(name)
	}
	i, ok := by.Int()
	if !ok || i < 0 || i > math.MaxInt32 {
		return value.Value{}
	}
	return of.At(int(i))
}

// unaries are the operators before an expression.
var unaries = map[string]func(value.Value) value.Value{
	"NOT": func(v value.Value) value.Value { return negated(v, true) },
	"-": func(v value.Value) value.Value {
		f, ok := v.Number()
		if !ok {
			return value.Value{}
		}
		return value.Number(-f)
	},
	"+": func(v value.Value) value.Value {
		f, ok := v.Number()
		if !ok {
			return value.Value{}
		}
		return value.Number(f)
	},
	"~": func(v value.Value) value.Value {
		f, ok := v.Number()
		if !ok {
			return value.Value{}
		}
		return value.Number(float64(^bits(f)))
	},
}

// arithmetic are the operators between numbers.
var arithmetic = map[string]func(a, b float64) float64{
	"+":   func(a, b float64) float64 { return a + b },
	"-":   func(a, b float64) float64 { return a - b },
	"*":   func(a, b float64) float64 { return a * b },
	"/":   func(a, b float64) float64 { return a / b },
	"%":   math.Mod,
	"|":   func(a, b float64) float64 { return float64(bits(a) | bits(b)) },
	"&":   func(a, b float64) float64 { return float64(bits(a) & bits(b)) },
	"^":   func(a, b float64) float64 { return float64(bits(a) ^ bits(b)) },
	"<<":  func(a, b float64) float64 { return float64(bits(a) << (uint32(bits(b)) & 31)) },
	">>":  func(a, b float64) float64 { return float64(bits(a) >> (uint32(bits(b)) & 31)) },
	">>>": func(a, b float64) float64 { return float64(uint32(bits(a)) >> (uint32(bits(b)) & 31)) },
}

// bits returns the lower 32 bits of the whole part of a number, 0 of what is not finite, as
// JavaScript does.
func bits(f float64) int32 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	m := math.Mod(math.Trunc(f), 1<<32)
	if m < 0 {
		m += 1 << 32
	}
	return int32(uint32(m))
}

// compared compares two values.
func compared(op string, a, b value.Value) value.Value {
	if !a.Defined() || a.Kind() != b.Kind() {
		return value.Value{}
	}
	order, ok := value.Compare(a, b)
	switch {
	case op == "=" && ok:
		return value.Bool(order == 0)
	case op == "!=" && ok:
		return value.Bool(order != 0)
	case (op == "=" || op == "!=") && (a.IsArray() || a.IsObject()):
		return value.Bool(value.Equal(a, b) == (op == "="))
	case !ok:
		return value.Value{}
	case op == "<":
		return value.Bool(order < 0)
	case op == "<=":
		return value.Bool(order <= 0)
	case op == ">":
		return value.Bool(order > 0)
	}
	return value.Bool(order >= 0)
}

// negated returns NOT of a value if not is set, else the value as a condition.
func negated(v value.Value, not bool) value.Value {
	b, ok := v.Bool()
	if !ok {
		return value.Value{}
	}
	return value.Bool(b != not)
}

// both is AND of two conditions.
func both(a, b value.Value) value.Value {
	x, ok := a.Bool()
	y, okToo := b.Bool()
	switch {
	case ok && !x, okToo && !y:
		return value.Bool(false)
	case ok && okToo:
		return value.Bool(true)
	}
	return value.Value{}
}

// logic is AND or OR of several conditions.
func logic(f *Frame, list []node, or bool) value.Value {
	out := value.Bool(!or)
	for _, n := range list {
		b, ok := n(f).Bool()
		switch {
		case ok && b == or:
			return value.Bool(or)
		case !ok:
			out = value.Value{}
		}
	}
	return out
}

// in says whether a value equals one of others.
func in(f *Frame, x value.Value, list []node) value.Value {
	out := value.Bool(false)
	for _, n := range list {
		b, ok := compared("=", x, n(f)).Bool()
		switch {
		case ok && b:
			return value.Bool(true)
		case !ok:
			out = value.Value{}
		}
	}
	return out
}
