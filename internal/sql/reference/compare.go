package reference

import (
	"slices"
	"strings"
)

// rank orders the types.
func rank(v any) int {
	switch v := v.(type) {
	case undef:
		return 0
	case nil:
		return 1
	case bool:
		if v {
			return 3
		}
		return 2
	case float64:
		return 4
	case string:
		return 5
	case []any:
		return 6
	}
	return 7
}

// Compare orders two values as ORDER BY does.
func Compare(a, b any) int {
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	switch a := a.(type) {
	case float64:
		switch {
		case a < b.(float64):
			return -1
		case a > b.(float64):
			return 1
		}
	case string:
		return strings.Compare(a, b.(string))
	}
	return 0
}

// same says whether two values are equal, undefined ones too.
func same(a, b any) bool {
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	}
	if x, ok := a.(map[string]any); ok {
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, has := y[k]
			if !has || !same(v, w) {
				return false
			}
		}
		return true
	}
	if _, ok := b.([]any); ok {
		return false
	}
	if _, ok := b.(map[string]any); ok {
		return false
	}
	return a == b
}

// kind is the type of a value as comparisons see it.
func kind(v any) int {
	if r := rank(v); r > 2 {
		return r
	}
	return min(rank(v), 2)
}

func sameKind(a, b any) bool {
	x, y := kind(a), kind(b)
	if x == 3 {
		x = 2
	}
	if y == 3 {
		y = 2
	}
	return x == y && x > 0
}

func compared(op string, a, b any) any {
	if !sameKind(a, b) {
		return Undefined
	}
	switch op {
	case "=":
		return same(a, b)
	case "!=":
		return !same(a, b)
	}
	if rank(a) >= 6 {
		return Undefined
	}
	c := Compare(a, b)
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func negated(v any, not bool) any {
	b, ok := v.(bool)
	if !ok {
		return Undefined
	}
	return b != not
}

// joined is AND, or with or OR.
func joined(list []any, or bool) any {
	undefined := false
	for _, v := range list {
		b, ok := v.(bool)
		if ok && b == or {
			return or
		}
		undefined = undefined || !ok
	}
	if undefined {
		return Undefined
	}
	return !or
}
