package function

import (
	"slices"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// lists returns the elements of arguments that are arrays.
func lists(e *Env, args []value.Value) ([][]value.Value, bool) {
	out := make([][]value.Value, len(args))
	for i, v := range args {
		if !v.IsArray() {
			return nil, false
		}
		out[i] = v.List()
		if !e.Step(len(out[i])) || !e.Grow(48*len(out[i])) {
			return nil, false
		}
	}
	return out, true
}

// keys are the keys of values.
func keys(list []value.Value) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[string(v.AppendKey(nil))] = true
	}
	return set
}

func addArrays() {
	add("ARRAY_LENGTH", 1, 1, func(e *Env, args []value.Value) value.Value {
		if !args[0].IsArray() {
			return value.Value{}
		}
		return value.Int(int64(args[0].Len()))
	})
	add("ARRAY_CONCAT", 2, -1, func(e *Env, args []value.Value) value.Value {
		all, ok := lists(e, args)
		if !ok {
			return value.Value{}
		}
		return value.Array(slices.Concat(all...))
	})
	add("ARRAY_CONTAINS", 2, 3, func(e *Env, args []value.Value) value.Value {
		partial, isFlag := flag(args, 2)
		if !args[0].IsArray() || args[1].IsUndefined() || !isFlag {
			return value.Value{}
		}
		found := false
		args[0].Each(func(v value.Value) bool {
			found = value.Equal(v, args[1]) || partial && partOf(e, args[1], v)
			return !found && e.Step(1) && e.Look(int(args[1].Size()))
		})
		return value.Bool(found)
	})
	several := func(name string, all bool) {
		add(name, 2, -1, func(e *Env, args []value.Value) value.Value {
			list, ok := lists(e, args[:1])
			if !ok {
				return value.Value{}
			}
			set := keys(list[0])
			for _, v := range args[1:] {
				if v.IsUndefined() {
					return value.Value{}
				}
				if set[string(v.AppendKey(nil))] != all {
					return value.Bool(!all)
				}
			}
			return value.Bool(all)
		})
	}
	several("ARRAY_CONTAINS_ANY", false)
	several("ARRAY_CONTAINS_ALL", true)
	add("ARRAY_SLICE", 2, 3, func(e *Env, args []value.Value) value.Value {
		list, ok := lists(e, args[:1])
		start, isInt := args[1].Int()
		if !ok || !isInt {
			return value.Value{}
		}
		n := int64(len(list[0]))
		count := n
		if len(args) == 3 {
			if count, isInt = args[2].Int(); !isInt {
				return value.Value{}
			}
		}
		if start < 0 {
			start = max(start+n, 0)
		}
		start = min(start, n)
		count = min(max(count, 0), n-start)
		return value.Array(slices.Clone(list[0][start : start+count]))
	})
	best := func(name string, better int) {
		add(name, 1, 1, func(e *Env, args []value.Value) value.Value {
			list, ok := lists(e, args)
			if !ok {
				return value.Value{}
			}
			var at value.Value
			for i, v := range list[0] {
				if v.IsArray() || v.IsObject() {
					return value.Value{}
				}
				if i == 0 || order(v, at) == better {
					at = v
				}
			}
			return at
		})
	}
	best("ARRAY_MIN", -1)
	best("ARRAY_MAX", 1)
	numeric := func(name string, call func([]float64) (float64, bool)) {
		add(name, 1, 1, func(e *Env, args []value.Value) value.Value {
			list, ok := lists(e, args)
			if !ok {
				return value.Value{}
			}
			var numbers []float64
			for _, v := range list[0] {
				f, isNumber := v.Number()
				if !isNumber {
					return value.Value{}
				}
				numbers = append(numbers, f)
			}
			f, ok := call(numbers)
			if !ok {
				return value.Value{}
			}
			return value.Number(f)
		})
	}
	total := func(list ...float64) (t query.Total) {
		for _, f := range list {
			t.Add(f, 1)
		}
		return t
	}
	mean := func(list ...float64) float64 {
		t := total(list...)
		return t.Mean(int64(len(list)))
	}
	numeric("ARRAY_SUM", func(list []float64) (float64, bool) {
		t := total(list...)
		return t.Sum(), true
	})
	numeric("ARRAY_AVG", func(list []float64) (float64, bool) { return mean(list...), len(list) > 0 })
	numeric("ARRAY_MEDIAN", func(list []float64) (float64, bool) {
		if len(list) == 0 {
			return 0, false
		}
		slices.Sort(list)
		n := len(list)
		if n%2 == 1 {
			return list[n/2], true
		}
		return mean(list[n/2-1], list[n/2]), true
	})
	sets := func(name string, call func(a, b []value.Value, inA, inB map[string]bool) value.Value) {
		add(name, 2, 2, func(e *Env, args []value.Value) value.Value {
			all, ok := lists(e, args)
			if !ok {
				return value.Value{}
			}
			return call(all[0], all[1], keys(all[0]), keys(all[1]))
		})
	}
	// distinct returns the values that keep says, each once.
	distinct := func(list []value.Value, keep func(key string) bool) value.Value {
		seen := make(map[string]bool)
		out := []value.Value{}
		for _, v := range list {
			if key := string(v.AppendKey(nil)); !seen[key] && keep(key) {
				seen[key] = true
				out = append(out, v)
			}
		}
		return value.Array(out)
	}
	sets("SETUNION", func(a, b []value.Value, _, _ map[string]bool) value.Value {
		return distinct(slices.Concat(a, b), func(string) bool { return true })
	})
	sets("SETINTERSECT", func(a, _ []value.Value, _, inB map[string]bool) value.Value {
		return distinct(a, func(key string) bool { return inB[key] })
	})
	sets("SETDIFFERENCE", func(a, _ []value.Value, _, inB map[string]bool) value.Value {
		return distinct(a, func(key string) bool { return !inB[key] })
	})
	sets("SETEQUAL", func(_, _ []value.Value, inA, inB map[string]bool) value.Value {
		for key := range inA {
			if !inB[key] {
				return value.Bool(false)
			}
		}
		return value.Bool(len(inA) == len(inB))
	})
	add("OBJECTTOARRAY", 1, 3, func(e *Env, args []value.Value) value.Value {
		list, ok := texts(args[1:])
		if !ok || !args[0].IsObject() {
			return value.Value{}
		}
		names := []string{"k", "v"}
		copy(names, list)
		var out []value.Value
		args[0].Members(func(name string, v value.Value) bool {
			out = append(out, value.Object(slices.Clone(names), []value.Value{value.String(name), v}))
			return e.Grow(96+len(name)) && e.Step(1)
		})
		return value.Array(out)
	})
}

// order compares two scalars of any types.
func order(a, b value.Value) int {
	if a.Kind() != b.Kind() {
		if a.Kind() < b.Kind() {
			return -1
		}
		return 1
	}
	c, _ := value.Compare(a, b)
	return c
}

// fewMembers is up to how many members it is faster to look for each one.
const fewMembers = 16

// partOf says whether all members of one object are members of another.
func partOf(e *Env, part, whole value.Value) bool {
	if !part.IsObject() || !whole.IsObject() {
		return false
	}
	all := true
	n := 0
	var members map[string]value.Value // of whole, once many were found
	part.Members(func(name string, v value.Value) bool {
		if n++; n == fewMembers {
			members = make(map[string]value.Value)
			whole.Members(func(name string, w value.Value) bool {
				if _, known := members[name]; !known {
					members[name] = w
				}
				return true
			})
		}
		w, looked := members[name], v
		if members == nil {
			w, looked = whole.Member(name), whole
		}
		all = e.Look(int(looked.Size())) && !w.IsUndefined() && (value.Equal(v, w) || partOf(e, v, w))
		return all
	})
	return all
}
