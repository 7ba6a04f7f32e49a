package value

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Kind is the type of a value.
type Kind = jsondoc.Kind

// Value is a value. The zero Value is undefined.
type Value struct {
	kind Kind
	bool bool
	num  float64
	str  string     // of a string; of an integer that no double holds, its digits
	c    *composite // of an array or object
}

// composite is an array or object.
type composite struct {
	raw  []byte // as it is written in a document; nil: made counts
	made *made
	key  atomic.Pointer[[]byte] // see Value.key
}

// made is what an array or object that was made holds.
type made struct {
	list  []Value
	names []string // of an object, one for each of list
	size  int64    // of list and names, in bytes
}

// compose returns what holds a list and the names of its values.
func compose(list []Value, names []string) *composite {
	m := made{list: list, names: names}
	for i := range list {
		m.size += list[i].Size()
		if names != nil {
			m.size += int64(16 + len(names[i]))
		}
	}
	return m.composite()
}

// composite returns the composite of what it holds, both in one piece of memory.
func (m made) composite() *composite {
	both := &struct {
		composite
		made
	}{made: m}
	both.composite.made = &both.made
	return &both.composite
}

// Null is null.
func Null() Value { return Value{kind: jsondoc.KindNull} }

// Bool returns a boolean.
func Bool(b bool) Value { return Value{kind: jsondoc.KindBool, bool: b} }

// Number returns a number; minus zero is zero.
func Number(f float64) Value {
	if f == 0 {
		f = 0
	}
	return Value{kind: jsondoc.KindNumber, num: f}
}

// maxExact is the largest integer up to which doubles hold all.
const maxExact = 1 << 53

// Int returns an integer.
func Int(i int64) Value {
	v := Value{kind: jsondoc.KindNumber, num: float64(i)}
	if i > maxExact || i < -maxExact {
		v.str = strconv.FormatInt(i, 10)
	}
	return v
}

// String returns a string.
func String(s string) Value { return Value{kind: jsondoc.KindString, str: s} }

// Array returns an array of a list, which it keeps. What is not Defined is left out.
func Array(list []Value) Value {
	list = slices.DeleteFunc(list, func(v Value) bool { return !v.Defined() })
	return Value{kind: jsondoc.KindArray, c: compose(list, nil)}
}

// Object returns an object of names and their values, which it keeps. What is not Defined
// is left out. Of two equal names the last one counts.
func Object(names []string, list []Value) Value {
	place := func(name string, n int) int { return slices.Index(names[:n], name) }
	if len(names) > fewNames {
		places := make(map[string]int, len(names))
		place = func(name string, n int) int {
			if at, ok := places[name]; ok {
				return at
			}
			places[name] = n
			return -1
		}
	}
	n := 0
	for i, v := range list {
		if !v.Defined() {
			continue
		}
		if at := place(names[i], n); at >= 0 {
			list[at] = v
			continue
		}
		names[n], list[n] = names[i], v
		n++
	}
	return Value{kind: jsondoc.KindObject, c: compose(list[:n], names[:n])}
}

// fewNames is up to how many names it is faster to compare all with each other.
const fewNames = 32

// Read returns a value of a document.
func Read(v jsondoc.Value) Value {
	switch v.Kind {
	case jsondoc.KindNull:
		return Null()
	case jsondoc.KindBool:
		return Bool(v.Bool())
	case jsondoc.KindNumber:
		out := Value{kind: jsondoc.KindNumber, num: v.Number()}
		if math.Abs(out.num) >= maxExact && len(v.Text) < 32 {
			// Digits alone: 12345678901234567 is more than its double says.
			if i, err := strconv.ParseInt(string(v.Text), 10, 64); err == nil {
				return Int(i)
			}
		}
		return out
	case jsondoc.KindString:
		return String(string(v.AppendText(nil)))
	case jsondoc.KindArray, jsondoc.KindObject:
		return Value{kind: v.Kind, c: &composite{raw: v.Text}}
	}
	return Value{}
}

// Parse returns the value that a JSON text of a document or of a part of one stands for.
func Parse(text []byte) Value {
	w := jsondoc.Walk(text)
	return Read(w.Whole())
}

// Kind returns the type.
func (v Value) Kind() Kind { return v.kind }

// Defined says that there is a value that JSON can hold: neither undefined nor NaN.
func (v Value) Defined() bool {
	return v.kind != jsondoc.KindUndefined && !(v.kind == jsondoc.KindNumber && math.IsNaN(v.num))
}

// IsUndefined says that there is no value.
func (v Value) IsUndefined() bool { return v.kind == jsondoc.KindUndefined }

// Bool returns a boolean; ok is false if the value is none.
func (v Value) Bool() (b, ok bool) { return v.bool, v.kind == jsondoc.KindBool }

// Number returns a number; ok is false if the value is none.
func (v Value) Number() (f float64, ok bool) { return v.num, v.kind == jsondoc.KindNumber }

// Int returns an integer of 64 bits; ok is false if the value is none.
func (v Value) Int() (i int64, ok bool) {
	switch {
	case v.kind != jsondoc.KindNumber:
		return 0, false
	case v.str != "":
		i, err := strconv.ParseInt(v.str, 10, 64)
		return i, err == nil
	case v.num != math.Trunc(v.num), v.num < -1<<63, v.num >= 1<<63:
		return 0, false // NaN, too
	}
	return int64(v.num), true
}

// Text returns a string; ok is false if the value is none.
func (v Value) Text() (s string, ok bool) {
	if v.kind != jsondoc.KindString {
		return "", false
	}
	return v.str, true
}

// IsArray says that the value is an array.
func (v Value) IsArray() bool { return v.kind == jsondoc.KindArray }

// IsObject says that the value is an object.
func (v Value) IsObject() bool { return v.kind == jsondoc.KindObject }

// Each calls visit for each element of an array, until it returns false.
func (v Value) Each(visit func(Value) bool) {
	if v.kind != jsondoc.KindArray {
		return
	}
	if v.c.raw == nil {
		for _, e := range v.c.made.list {
			if !visit(e) {
				return
			}
		}
		return
	}
	w := jsondoc.Walk(v.c.raw)
	w.Next()
	for e := w.Whole(); e.Kind != jsondoc.KindUndefined; e = w.Whole() {
		if !visit(Read(e)) {
			return
		}
	}
}

// List returns the elements of an array. The caller does not change them.
func (v Value) List() []Value {
	if v.kind != jsondoc.KindArray {
		return nil
	}
	if v.c.raw == nil {
		return v.c.made.list
	}
	var list []Value
	v.Each(func(e Value) bool {
		list = append(list, e)
		return true
	})
	return list
}

// Len returns the number of elements of an array or members of an object.
func (v Value) Len() int {
	n := 0
	switch {
	case v.c == nil:
	case v.c.raw == nil:
		return len(v.c.made.list)
	case v.kind == jsondoc.KindArray:
		w := jsondoc.Walk(v.c.raw)
		for w.Next(); w.Whole().Kind != jsondoc.KindUndefined; {
			n++
		}
	default:
		v.Members(func(string, Value) bool { n++; return true })
	}
	return n
}

// At returns an element of an array; undefined if there is none.
func (v Value) At(i int) (found Value) {
	switch {
	case v.kind != jsondoc.KindArray || i < 0:
	case v.c.raw == nil:
		if i < len(v.c.made.list) {
			return v.c.made.list[i]
		}
	default:
		w := jsondoc.Walk(v.c.raw)
		w.Next()
		for e := w.Whole(); e.Kind != jsondoc.KindUndefined; e = w.Whole() {
			if i == 0 {
				return Read(e)
			}
			i--
		}
	}
	return Value{}
}

// Members calls visit for each member of an object, in order, until it returns false.
func (v Value) Members(visit func(name string, v Value) bool) {
	if v.kind != jsondoc.KindObject {
		return
	}
	if v.c.raw == nil {
		for i, name := range v.c.made.names {
			if !visit(name, v.c.made.list[i]) {
				return
			}
		}
		return
	}
	w := jsondoc.Walk(v.c.raw)
	w.Next()
	var text []byte
	for name := w.Next(); name.Kind == jsondoc.KindString; name = w.Next() {
		e := w.Whole()
		if e.Kind == jsondoc.KindUndefined || !visit(string(name.Bytes(&text)), Read(e)) {
			return
		}
	}
}

// Member returns a member of an object; undefined if there is none.
func (v Value) Member(name string) Value {
	switch {
	case v.kind != jsondoc.KindObject:
	case v.c.raw == nil:
		if i := slices.Index(v.c.made.names, name); i >= 0 {
			return v.c.made.list[i]
		}
	default:
		w := jsondoc.Walk(v.c.raw)
		w.Next()
		var text []byte
		for n := w.Next(); n.Kind == jsondoc.KindString; n = w.Next() {
			e := w.Whole()
			if string(n.Bytes(&text)) == name {
				return Read(e)
			}
		}
	}
	return Value{}
}

// Open returns the value so that elements and members are found in it without a walk through what the
// document has before them.
func (v Value) Open() Value {
	if v.c == nil || v.c.made != nil {
		return v
	}
	list := v.List()
	var names []string
	v.Members(func(name string, e Value) bool {
		names, list = append(names, name), append(list, e)
		return true
	})
	v.c = compose(list, names)
	return v
}

// Keep returns the value without references to the bytes of a document, or to a longer string.
func (v Value) Keep() Value {
	if v.c == nil {
		v.str = strings.Clone(v.str)
		return v
	}
	if v.c.raw != nil {
		v.c = &composite{raw: slices.Clone(v.c.raw)}
		return v
	}
	list := make([]Value, len(v.c.made.list))
	for i, e := range v.c.made.list {
		list[i] = e.Keep()
	}
	v.c = made{list, v.c.made.names, v.c.made.size}.composite()
	return v
}

// Size estimates the memory of a value in bytes.
func (v Value) Size() int64 {
	n := int64(48 + len(v.str))
	if v.c != nil {
		if n += int64(len(v.c.raw)); v.c.made != nil {
			n += v.c.made.size
		}
	}
	return n
}

// Append appends the value as JSON; what is not Defined as nothing.
func (v Value) Append(dst []byte) []byte {
	switch v.kind {
	case jsondoc.KindNull:
		return append(dst, "null"...)
	case jsondoc.KindBool:
		return strconv.AppendBool(dst, v.bool)
	case jsondoc.KindNumber:
		if v.str != "" {
			return append(dst, v.str...)
		}
		if math.IsNaN(v.num) {
			return dst
		}
		return jsondoc.AppendNumber(dst, v.num)
	case jsondoc.KindString:
		return jsondoc.AppendString(dst, v.str)
	case jsondoc.KindArray, jsondoc.KindObject:
		if v.c.raw != nil {
			return append(dst, v.c.raw...)
		}
		open, end := byte('['), byte(']')
		if v.kind == jsondoc.KindObject {
			open, end = '{', '}'
		}
		dst = append(dst, open)
		for i, e := range v.c.made.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			if v.kind == jsondoc.KindObject {
				dst = append(jsondoc.AppendString(dst, v.c.made.names[i]), ':')
			}
			dst = e.Append(dst)
		}
		return append(dst, end)
	}
	return dst
}

// String returns the value as JSON, or the name of what JSON cannot hold.
func (v Value) String() string {
	switch {
	case v.kind == jsondoc.KindUndefined:
		return "undefined"
	case !v.Defined():
		return "NaN"
	}
	return string(v.Append(nil))
}

// Compare orders two values of one type: null, booleans, numbers or strings. Of other
// values, and of NaN, ok is false.
func Compare(a, b Value) (order int, ok bool) {
	if a.kind != b.kind || !a.Defined() || !b.Defined() {
		return 0, false
	}
	switch a.kind {
	case jsondoc.KindNull:
		return 0, true
	case jsondoc.KindBool:
		switch {
		case a.bool == b.bool:
			return 0, true
		case b.bool:
			return -1, true
		}
		return 1, true
	case jsondoc.KindNumber:
		return cmp.Compare(a.num, b.num), true
	case jsondoc.KindString:
		return strings.Compare(a.str, b.str), true
	}
	return 0, false
}

// Equal says whether two values are the same: arrays element by element, objects member by
// member, in whatever order. Undefined equals undefined.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case jsondoc.KindUndefined:
		return true
	case jsondoc.KindArray:
		if a.c.key.Load() == nil && b.c.key.Load() == nil {
			a.c.key.Store(&unkept)
			b.c.key.Store(&unkept)
			return slices.EqualFunc(a.List(), b.List(), Equal) // it may end early
		}
		return bytes.Equal(a.key(), b.key())
	case jsondoc.KindObject:
		return bytes.Equal(a.key(), b.key())
	}
	order, ok := Compare(a, b)
	return ok && order == 0 || !ok && !a.Defined() && !b.Defined()
}
