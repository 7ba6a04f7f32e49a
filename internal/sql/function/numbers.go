package function

import (
	"math"

	"github.com/cleavestore/cleave/internal/sql/value"
)

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func addMaths() {
	one := func(name string, call func(float64) float64) {
		add(name, 1, 1, func(_ *Env, args []value.Value) value.Value {
			f, ok := args[0].Number()
			if !ok {
				return value.Value{}
			}
			return value.Number(call(f))
		})
	}
	two := func(name string, call func(a, b float64) float64) {
		add(name, 2, 2, func(_ *Env, args []value.Value) value.Value {
			a, ok := args[0].Number()
			b, okToo := args[1].Number()
			if !ok || !okToo {
				return value.Value{}
			}
			return value.Number(call(a, b))
		})
	}
	one("ABS", math.Abs)
	one("ACOS", math.Acos)
	one("ASIN", math.Asin)
	one("ATAN", math.Atan)
	two("ATN2", math.Atan2)
	one("CEILING", math.Ceil)
	one("COS", math.Cos)
	one("COT", func(f float64) float64 { return 1 / math.Tan(f) })
	one("DEGREES", func(f float64) float64 { return f * 180 / math.Pi })
	one("EXP", math.Exp)
	one("FLOOR", math.Floor)
	one("LOG10", math.Log10)
	two("POWER", math.Pow)
	one("RADIANS", func(f float64) float64 { return f * math.Pi / 180 })
	one("ROUND", math.Round)
	one("SIN", math.Sin)
	one("SQRT", math.Sqrt)
	one("SQUARE", func(f float64) float64 { return f * f })
	one("TAN", math.Tan)
	one("TRUNC", math.Trunc)
	one("SIGN", func(f float64) float64 {
		switch {
		case f > 0:
			return 1
		case f < 0:
			return -1
		}
		return f
	})
	add("PI", 0, 0, func(*Env, []value.Value) value.Value { return value.Number(math.Pi) })
	add("LOG", 1, 2, func(_ *Env, args []value.Value) value.Value {
		f, ok := args[0].Number()
		if !ok {
			return value.Value{}
		}
		if len(args) == 1 {
			return value.Number(math.Log(f))
		}
		base, ok := args[1].Number()
		switch {
		case !ok:
			return value.Value{}
		case base == 10:
			return value.Number(math.Log10(f))
		case base == 2:
			return value.Number(math.Log2(f))
		}
		return value.Number(math.Log(f) / math.Log(base))
	})
	add("NUMBERBIN", 1, 2, func(_ *Env, args []value.Value) value.Value {
		f, ok := args[0].Number()
		size := 1.0
		if len(args) == 2 {
			var isNumber bool
			size, isNumber = args[1].Number()
			ok = ok && isNumber
		}
		if !ok || size == 0 {
			return value.Value{}
		}
		return value.Number(math.Floor(f/size) * size)
	})
}

// addIntegers adds the functions of integers of 64 bits, which wrap around.
func addIntegers() {
	two := func(name string, call func(a, b int64) (int64, bool)) {
		add(name, 2, 2, func(_ *Env, args []value.Value) value.Value {
			a, ok := args[0].Int()
			b, okToo := args[1].Int()
			if !ok || !okToo {
				return value.Value{}
			}
			i, ok := call(a, b)
			if !ok {
				return value.Value{}
			}
			return value.Int(i)
		})
	}
	two("INTADD", func(a, b int64) (int64, bool) { return a + b, true })
	two("INTSUB", func(a, b int64) (int64, bool) { return a - b, true })
	two("INTMUL", func(a, b int64) (int64, bool) { return a * b, true })
	two("INTDIV", func(a, b int64) (int64, bool) {
		if b == 0 {
			return 0, false
		}
		return a / b, true
	})
	two("INTMOD", func(a, b int64) (int64, bool) {
		if b == 0 {
			return 0, false
		}
		return a % b, true
	})
	two("INTBITAND", func(a, b int64) (int64, bool) { return a & b, true })
	two("INTBITOR", func(a, b int64) (int64, bool) { return a | b, true })
	two("INTBITXOR", func(a, b int64) (int64, bool) { return a ^ b, true })
	two("INTBITLEFTSHIFT", func(a, b int64) (int64, bool) { return a << (uint64(b) & 63), true })
	two("INTBITRIGHTSHIFT", func(a, b int64) (int64, bool) { return a >> (uint64(b) & 63), true })
	add("INTBITNOT", 1, 1, func(_ *Env, args []value.Value) value.Value {
		i, ok := args[0].Int()
		if !ok {
			return value.Value{}
		}
		return value.Int(^i)
	})
}
