package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// ErrLarge is the error of Of for what takes more bytes than it may.
var ErrLarge = errors.New("a value of more bytes than it may take")

// Of returns the value of a Go value: nil, a boolean, a number of any type or json.Number, a
// string, []any, map[string]any or json.RawMessage. It takes at most some bytes, as Size counts
// them: Of makes no more before it returns ErrLarge.
func Of(v any, most int64) (Value, error) {
	m := maker{left: most}
	return m.of(v, 0)
}

// maxDepth bounds the nesting of Go values.
const maxDepth = 200

var errNested = fmt.Errorf("a value of more than %d nested levels", maxDepth)

// maker makes values of Go values.
type maker struct{ left int64 } // bytes that they may take yet

// take counts n values that have some bytes beside their own.
func (m *maker) take(n, bytes int) error {
	if m.left -= 48*int64(n) + int64(bytes); m.left < 0 {
		return ErrLarge
	}
	return nil
}

func (m *maker) of(v any, depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, errNested
	}
	if raw, ok := v.(json.RawMessage); ok {
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return Value{}, fmt.Errorf("%q is no JSON", jsondoc.Clip(string(raw)))
		}
		w := jsondoc.Walk(raw)
		return m.read(&w, w.Next(), depth)
	}
	if err := m.take(1, 0); err != nil {
		return Value{}, err
	}
	switch v := v.(type) {
	case Value:
		return v, nil
	case nil:
		return Null(), nil
	case bool:
		return Bool(v), nil
	case string:
		if !utf8.ValidString(v) {
			return Value{}, fmt.Errorf("a string is not valid UTF-8")
		}
		return String(v), m.take(0, len(v))
	case float64:
		if math.IsNaN(v) {
			return Value{}, fmt.Errorf("NaN is no value")
		}
		return Number(v), nil
	case float32:
		return m.of(float64(v), depth)
	case int:
		return Int(int64(v)), nil
	case int8:
		return Int(int64(v)), nil
	case int16:
		return Int(int64(v)), nil
	case int32:
		return Int(int64(v)), nil
	case int64:
		return Int(v), nil
	case uint:
		return ofUint(uint64(v)), nil
	case uint8:
		return Int(int64(v)), nil
	case uint16:
		return Int(int64(v)), nil
	case uint32:
		return Int(int64(v)), nil
	case uint64:
		return ofUint(v), nil
	case json.Number:
		if !json.Valid([]byte(v)) || !strings.ContainsAny(string(v[:1]), "-0123456789") {
			return Value{}, fmt.Errorf("%q is no number", jsondoc.Clip(string(v)))
		}
		return Parse([]byte(v)), nil
	case []any:
		if 48*int64(len(v)) > m.left {
			return Value{}, ErrLarge
		}
		list := make([]Value, len(v))
		for i := range v {
			var err error
			if list[i], err = m.of(v[i], depth+1); err != nil {
				return Value{}, err
			}
		}
		return Array(list), nil
	case map[string]any:
		return m.object(v, depth)
	}
	return Value{}, fmt.Errorf("%T is no value: want nil, a boolean, a number, a string, []any, map[string]any or json.RawMessage", v)
}

// object returns the value of a map, whose names are all different.
func (m *maker) object(members map[string]any, depth int) (Value, error) {
	if 64*int64(len(members)) > m.left {
		return Value{}, ErrLarge
	}
	names := make([]string, 0, len(members))
	for name := range members {
		if err := m.take(0, 16+len(name)); err != nil {
			return Value{}, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	list := make([]Value, 0, len(names))
	kept := names[:0]
	for _, name := range names {
		v, err := m.of(members[name], depth+1)
		if err != nil {
			return Value{}, err
		}
		if v.Defined() {
			kept, list = append(kept, name), append(list, v)
		}
	}
	return Value{kind: jsondoc.KindObject, c: compose(list, kept)}, nil
}

// read returns the value of JSON, of which a walker has given the first token. It is
// decoded at once: a query may look at it for each document.
func (m *maker) read(w *jsondoc.Walker, v jsondoc.Value, depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, errNested
	}
	bytes := 0
	if v.Kind == jsondoc.KindString {
		bytes = len(v.Text) - 2
	}
	if err := m.take(1, bytes); err != nil {
		return Value{}, err
	}
	if v.Kind < jsondoc.KindArray {
		return Read(v), nil
	}
	var names []string
	list := []Value{}
	for e := w.Next(); e.Kind != jsondoc.KindUndefined; e = w.Next() {
		if v.Kind == jsondoc.KindObject {
			if err := m.take(0, 16+len(e.Text)-2); err != nil {
				return Value{}, err
			}
			names = append(names, string(e.AppendText(nil)))
			e = w.Next()
		}
		one, err := m.read(w, e, depth+1)
		if err != nil {
			return Value{}, err
		}
		list = append(list, one)
	}
	if v.Kind == jsondoc.KindArray {
		return Array(list), nil
	}
	return Object(names, list), nil
}

func ofUint(u uint64) Value {
	if u <= math.MaxInt64 {
		return Int(int64(u))
	}
	return Number(float64(u))
}
