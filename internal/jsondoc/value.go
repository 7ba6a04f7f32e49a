package jsondoc

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

// Kind is the type of a value, in the order in which values of different types
// are sorted.
type Kind uint8

// Kinds.
const (
	KindUndefined Kind = iota // no value: it is absent
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

var kindNames = [...]string{"undefined", "null", "boolean", "number", "string", "array", "object"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

const maxDouble = math.MaxFloat64

// Value is a value of a document as it is written there. The zero Value is
// undefined.
type Value struct {
	Kind    Kind
	Escaped bool   // a string with escapes
	Text    []byte // of the document; a string's with its quotes
}

// Bool returns the value of a boolean.
func (v *Value) Bool() bool { return v.Text[0] == 't' }

// Number returns the nearest double of a number; one beyond the doubles is
// infinite. Minus zero is zero.
func (v *Value) Number() float64 {
	f, _ := strconv.ParseFloat(unsafe.String(unsafe.SliceData(v.Text), len(v.Text)), 64)
	if f == 0 {
		return 0
	}
	return f
}

// AppendText appends the text of a string, unescaped.
func (v *Value) AppendText(dst []byte) []byte {
	body := v.Text[1 : len(v.Text)-1]
	if !v.Escaped {
		return append(dst, body...)
	}
	return unescape(dst, body)
}

// Bytes returns the text of a string, unescaped: that in the document if there
// are no escapes, else it is written into scratch, which may grow.
func (v *Value) Bytes(scratch *[]byte) []byte {
	if !v.Escaped {
		return v.Text[1 : len(v.Text)-1]
	}
	*scratch = v.AppendText((*scratch)[:0])
	return *scratch
}

// SameText reports whether two values are written alike.
func (v *Value) SameText(o *Value) bool { return v.Kind == o.Kind && bytes.Equal(v.Text, o.Text) }
