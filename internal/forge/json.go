package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// values are what a number, a text, or anything else in JSON becomes.
var values = []any{
	nil, "", "FF", strings.Repeat("0", 200), json.Number("0"), json.Number("1"), json.Number("-1"), json.Number("2147483648"), json.Number("4294967295"),
	json.Number("4611686018427387904"), json.Number("9223372036854775807"), json.Number("18446744073709551615"), json.Number("1e300"), true, false,
	[]any{}, map[string]any{}, []any{map[string]any{}},
}

// change is something that a value in a JSON text could be.
type change struct {
	where string
	to    any
}

// node is a value in a JSON text.
type node struct {
	value   any
	set     func(any) // to something else
	changes []change
}

// decode returns the values of a JSON text, and what gives the text that they make. Of a
// list those of the first elements are among them, deep of them.
func decode(text []byte, deep int) (list []node, encode func() ([]byte, error), err error) {
	var root any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, nil, err
	}
	var walk func(where string, v any, set func(any))
	walk = func(where string, v any, set func(any)) {
		n := node{value: v, set: set}
		add := func(what string, to any) { n.changes = append(n.changes, change{where + what, to}) }
		for i, other := range values {
			add(fmt.Sprintf(" = value %d", i), other)
		}
		switch v := v.(type) {
		case json.Number:
			if n, err := v.Int64(); err == nil {
				add(" -1", json.Number(fmt.Sprint(n-1)))
				add(" +1", json.Number(fmt.Sprint(n+1)))
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				less := maps.Clone(v)
				delete(less, name)
				add(" without "+name, less)
				walk(where+"."+name, v[name], func(to any) { v[name] = to })
			}
		case []any:
			for i := range v {
				add(fmt.Sprintf(" without %d", i), slices.Delete(slices.Clone(v), i, i+1))
				add(fmt.Sprintf(" with %d twice", i), append(slices.Clone(v), v[i]))
				if i < deep {
					walk(fmt.Sprintf("%s[%d]", where, i), v[i], func(to any) { v[i] = to })
				}
			}
		}
		list = append(list, n)
	}
	walk("", root, func(to any) { root = to })
	return list, func() ([]byte, error) { return json.Marshal(root) }, nil
}

// EachJSON calls do with each text in which one value of a JSON text is another, or
// one element of a list is missing or there twice.
func EachJSON(text []byte, do func(where string, text []byte)) error {
	list, encode, err := decode(text, 2)
	for _, n := range list {
		for _, c := range n.changes {
			n.set(c.to)
			if text, err = encode(); err != nil {
				return err
			}
			do(c.where, text)
		}
		n.set(n.value)
	}
	return err
}

// JSON returns one of these texts, and says what is changed; what is no JSON is changed
// somewhere.
func JSON(rng *rand.Rand, text []byte) (changed []byte, what string) {
	list, encode, err := decode(text, 1000)
	if err == nil {
		n := list[rng.IntN(len(list))]
		c := n.changes[rng.IntN(len(n.changes))]
		n.set(c.to)
		what = c.where
		changed, err = encode()
	}
	if err != nil {
		changed = bytes.Clone(text)
		what = Somewhere(rng, changed)
	}
	return changed, what
}
