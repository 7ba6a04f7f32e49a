package query

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Path leads to values of a document.
type Path = jsondoc.Path

// ParsePath reads the text form of a path.
func ParsePath(text string) (Path, error) { return jsondoc.ParsePath(text) }

// Kind is the type of a value.
type Kind = jsondoc.Kind

// Value is a scalar that a document is compared with; the zero Value is
// undefined. Of an array or object, which come only from ReadOrder, Text is its
// canonical text.
type Value struct {
	Kind   Kind
	Bool   bool
	Number float64
	Text   string
}

// ValueOf returns the value of a Go value: nil, a boolean, a number of any type
// or json.Number, a string.
func ValueOf(v any) (Value, error) {
	number := func(f float64) (Value, error) {
		if math.IsNaN(f) {
			return Value{}, fmt.Errorf("NaN is no value")
		}
		if f == 0 {
			f = 0
		}
		return Value{Kind: jsondoc.KindNumber, Number: f}, nil
	}
	switch v := v.(type) {
	case Value:
		return v, nil
	case nil:
		return Value{Kind: jsondoc.KindNull}, nil
	case bool:
		return Value{Kind: jsondoc.KindBool, Bool: v}, nil
	case string:
		if len(v) > MaxConstants {
			return Value{}, fmt.Errorf("a string of %d bytes: at most %d can be compared with", len(v), MaxConstants)
		}
		if !utf8.ValidString(v) {
			return Value{}, fmt.Errorf("a string is not valid UTF-8")
		}
		return Value{Kind: jsondoc.KindString, Text: v}, nil
	case float64:
		return number(v)
	case float32:
		return number(float64(v))
	case int:
		return number(float64(v))
	case int8:
		return number(float64(v))
	case int16:
		return number(float64(v))
	case int32:
		return number(float64(v))
	case int64:
		return number(float64(v))
	case uint:
		return number(float64(v))
	case uint8:
		return number(float64(v))
	case uint16:
		return number(float64(v))
	case uint32:
		return number(float64(v))
	case uint64:
		return number(float64(v))
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil && !math.IsInf(f, 0) {
			return Value{}, fmt.Errorf("%q is no number", jsondoc.Clip(string(v)))
		}
		return number(f)
	}
	return Value{}, fmt.Errorf("%T is no value: want nil, a boolean, a number or a string", v)
}

// Append appends the value as JSON; undefined as nothing.
func (v *Value) Append(dst []byte) []byte {
	switch v.Kind {
	case jsondoc.KindNull:
		return append(dst, "null"...)
	case jsondoc.KindBool:
		return strconv.AppendBool(dst, v.Bool)
	case jsondoc.KindNumber:
		return jsondoc.AppendNumber(dst, v.Number)
	case jsondoc.KindString:
		return jsondoc.AppendString(dst, v.Text)
	case jsondoc.KindArray, jsondoc.KindObject:
		return append(dst, v.Text...)
	}
	return dst
}

// String returns the value as JSON, "undefined" where there is none.
func (v Value) String() string {
	if v.Kind == jsondoc.KindUndefined {
		return "undefined"
	}
	return string(v.Append(nil))
}

// compare orders a value of a document and one of the same kind. Arrays,
// objects and undefined have no order: ok is false.
func compare(v *jsondoc.Value, o *Value, scratch *[]byte) (order int, ok bool) {
	if v.Kind != o.Kind {
		return 0, false
	}
	switch v.Kind {
	case jsondoc.KindNull:
		return 0, true
	case jsondoc.KindBool:
		return compareBool(v.Bool(), o.Bool), true
	case jsondoc.KindNumber:
		return cmp.Compare(v.Number(), o.Number), true
	case jsondoc.KindString:
		return compareText(v.Bytes(scratch), o.Text), true
	}
	return 0, false
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareText is bytes.Compare with a string.
func compareText(a []byte, b string) int {
	switch {
	case string(a) == b:
		return 0
	case string(a) < b:
		return -1
	}
	return 1
}

// Compare orders two values of one kind; ok is false if they are not.
func Compare(a, b *Value) (order int, ok bool) {
	if a.Kind != b.Kind {
		return 0, false
	}
	switch a.Kind {
	case jsondoc.KindNull:
		return 0, true
	case jsondoc.KindBool:
		return compareBool(a.Bool, b.Bool), true
	case jsondoc.KindNumber:
		return cmp.Compare(a.Number, b.Number), true
	case jsondoc.KindString:
		return strings.Compare(a.Text, b.Text), true
	}
	return 0, false
}

// An order key is a value as bytes that compare as the values do and of which
// none is the beginning of another:
//
//	kind u8                                undefined, null, array, object
//	kind u8, 0 or 1                        boolean
//	kind u8, bits u64 big-endian           number: the sign bit flipped, of a negative one all bits
//	kind u8, text, 0 1                     string: a 0 in it is 0 FF
//
// For a falling order all bits are inverted.

// AppendOrder appends the order key of a value of a document. If whole is set
// the canonical text of arrays and objects follows, as that of a string does: the
// key tells those apart that are not equal.
func AppendOrder(dst []byte, v *jsondoc.Value, whole bool) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case jsondoc.KindBool:
		b := byte(0)
		if v.Bool() {
			b = 1
		}
		return append(dst, b)
	case jsondoc.KindNumber:
		return appendOrderNumber(dst, v.Number())
	case jsondoc.KindString:
		if !v.Escaped {
			return appendOrderText(dst, v.Text[1:len(v.Text)-1])
		}
		return appendOrderText(dst, v.AppendText(nil))
	case jsondoc.KindArray, jsondoc.KindObject:
		if whole {
			return appendOrderText(dst, appendCanonical(nil, v, 0))
		}
	}
	return dst
}

// AppendOrder appends the order key of a value.
func (v *Value) AppendOrder(dst []byte) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case jsondoc.KindBool:
		b := byte(0)
		if v.Bool {
			b = 1
		}
		return append(dst, b)
	case jsondoc.KindNumber:
		return appendOrderNumber(dst, v.Number)
	case jsondoc.KindString:
		return appendOrderText(dst, []byte(v.Text))
	}
	return dst
}

func appendOrderNumber(dst []byte, f float64) []byte {
	bits := math.Float64bits(f)
	if bits>>63 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, bits)
}

func appendOrderText(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, 0)
		if i < 0 {
			return append(append(dst, text...), 0, 1)
		}
		dst = append(append(dst, text[:i]...), 0, 0xFF)
		text = text[i+1:]
	}
}

// Invert turns the order of a key round.
func Invert(key []byte) {
	for i := range key {
		key[i] = ^key[i]
	}
}

// ReadOrder reads an order key, of which falling says the direction, from the
// beginning of b. It returns the value with the number of its bytes; that of an
// array or object that was taken as a whole has its text. n is 0 for what is no
// order key.
func ReadOrder(b []byte, falling, whole bool) (v Value, n int) {
	at := func(i int) byte {
		if falling {
			return ^b[i]
		}
		return b[i]
	}
	if len(b) == 0 {
		return v, 0
	}
	v.Kind = Kind(at(0))
	switch v.Kind {
	case jsondoc.KindUndefined, jsondoc.KindNull:
		return v, 1
	case jsondoc.KindBool:
		if len(b) < 2 || at(1) > 1 {
			return v, 0
		}
		v.Bool = at(1) == 1
		return v, 2
	case jsondoc.KindNumber:
		if len(b) < 9 {
			return v, 0
		}
		bits := uint64(0)
		for i := 1; i < 9; i++ {
			bits = bits<<8 | uint64(at(i))
		}
		if bits>>63 != 0 {
			bits &^= 1 << 63
		} else {
			bits = ^bits
		}
		v.Number = math.Float64frombits(bits)
		return v, 9
	case jsondoc.KindArray, jsondoc.KindObject:
		if !whole {
			return v, 1
		}
	case jsondoc.KindString:
	default:
		return v, 0
	}
	var text []byte
	for i := 1; i+1 < len(b); i++ {
		c := at(i)
		if c != 0 {
			text = append(text, c)
			continue
		}
		i++
		if at(i) == 1 {
			v.Text = string(text)
			return v, i + 1
		}
		text = append(text, 0)
	}
	return v, 0
}
