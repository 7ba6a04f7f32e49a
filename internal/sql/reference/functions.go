package reference

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

func aggregate(name string, values []any) any {
	if name == "COUNT" {
		return float64(len(values))
	}
	if name == "MAKELIST" {
		return append([]any{}, values...)
	}
	total, trues := 0.0, 0.0
	best := Undefined
	set := []any{}
	for i, v := range values {
		switch name {
		case "COUNTIF":
			if v == true {
				trues++
			}
		case "SUM", "AVG":
			f, ok := v.(float64)
			if !ok {
				return Undefined
			}
			total += f
		case "MIN", "MAX":
			if rank(v) >= 6 {
				return Undefined
			}
			if c := Compare(v, best); i == 0 || name == "MIN" && c < 0 || name == "MAX" && c > 0 {
				best = v
			}
		case "MAKESET":
			if !slices.ContainsFunc(set, func(x any) bool { return same(x, v) }) {
				set = append(set, v)
			}
		}
	}
	switch name {
	case "COUNTIF":
		return trues
	case "MAKESET":
		return set
	case "SUM":
		return total
	case "AVG":
		if len(values) == 0 {
			return Undefined
		}
		return total / float64(len(values))
	}
	return best
}

// call is a function; those that Draw draws.
func call(name string, args []any) any {
	text := func(i int) string { s, _ := args[i].(string); return s }
	strings2 := func() bool {
		_, a := args[0].(string)
		_, b := args[1].(string)
		return a && b
	}
	switch name {
	case "IS_DEFINED":
		return args[0] != Undefined
	case "IS_NULL":
		return args[0] == nil
	case "IS_NUMBER":
		return rank(args[0]) == 4
	case "IS_STRING":
		return rank(args[0]) == 5
	case "IS_ARRAY":
		return rank(args[0]) == 6
	case "IS_BOOL":
		return rank(args[0]) == 2 || rank(args[0]) == 3
	case "IIF":
		if args[0] == true {
			return args[1]
		}
		return args[2]
	case "STARTSWITH", "ENDSWITH", "CONTAINS", "STRINGEQUALS":
		if !strings2() {
			return Undefined
		}
		s, part := text(0), text(1)
		if len(args) == 3 {
			fold, ok := args[2].(bool)
			if !ok {
				return Undefined
			}
			if fold {
				s, part = strings.Map(unicode.ToLower, s), strings.Map(unicode.ToLower, part)
			}
		}
		switch name {
		case "STARTSWITH":
			return len(s) >= len(part) && s[:len(part)] == part
		case "ENDSWITH":
			return len(s) >= len(part) && s[len(s)-len(part):] == part
		case "STRINGEQUALS":
			return s == part
		}
		return strings.Contains(s, part)
	case "FULLTEXTCONTAINS", "FULLTEXTCONTAINSALL", "FULLTEXTCONTAINSANY":
		return fullText(name == "FULLTEXTCONTAINSANY", args)
	case "LENGTH":
		if rank(args[0]) != 5 {
			return Undefined
		}
		return float64(len([]rune(text(0))))
	case "UPPER", "LOWER":
		if rank(args[0]) != 5 {
			return Undefined
		}
		if name == "UPPER" {
			return strings.Map(unicode.ToUpper, text(0))
		}
		return strings.Map(unicode.ToLower, text(0))
	case "SUBSTRING":
		from, ok := args[1].(float64)
		n, okToo := args[2].(float64)
		if rank(args[0]) != 5 || !ok || !okToo || from != math.Trunc(from) || n != math.Trunc(n) {
			return Undefined
		}
		r := []rune(text(0))
		if from < 0 || n <= 0 || int(from) >= len(r) {
			return ""
		}
		return string(r[int(from):min(len(r), int(from)+int(n))])
	case "ABS", "FLOOR":
		f, ok := args[0].(float64)
		if !ok {
			return Undefined
		}
		if name == "ABS" {
			return math.Abs(f)
		}
		return math.Floor(f) + 0
	case "ARRAY_LENGTH":
		list, ok := args[0].([]any)
		if !ok {
			return Undefined
		}
		return float64(len(list))
	case "ARRAY_CONTAINS":
		list, ok := args[0].([]any)
		if !ok || args[1] == Undefined {
			return Undefined
		}
		return slices.ContainsFunc(list, func(v any) bool { return same(v, args[1]) })
	case "SETUNION":
		a, ok := args[0].([]any)
		b, okToo := args[1].([]any)
		if !ok || !okToo {
			return Undefined
		}
		out := []any{}
		for _, v := range slices.Concat(a, b) {
			if !slices.ContainsFunc(out, func(x any) bool { return same(x, v) }) {
				out = append(out, v)
			}
		}
		return out
	}
	panic("function " + name)
}

// fullText says whether any, or all, of the further arguments are words that follow each
// other in the first one.
func fullText(one bool, args []any) any {
	var lists [][]string
	for i, v := range args {
		if _, ok := v.(map[string]any); ok && i > 0 {
			panic(Tooth{"a term with a distance"})
		}
	}
	for _, v := range args {
		s, ok := v.(string)
		if !ok {
			return Undefined
		}
		lists = append(lists, strings.FieldsFunc(strings.Map(unicode.ToLower, s), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
		}))
	}
	found := 0
	for _, part := range lists[1:] {
		for at := range lists[0] {
			if len(part) > 0 && at+len(part) <= len(lists[0]) && slices.Equal(lists[0][at:at+len(part)], part) {
				found++
				break
			}
		}
	}
	if one {
		return found > 0
	}
	return found == len(lists)-1
}
