package jsondoc

import (
	"math"
	"strconv"

	"github.com/cleavestore/cleave/partmap"
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

// withArticle names a value of the kind.
func (k Kind) withArticle() string {
	switch k {
	case KindNull:
		return k.String()
	case KindArray, KindObject:
		return "an " + k.String()
	}
	return "a " + k.String()
}

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
	if f := double(v.Text); f != 0 {
		return f
	}
	return 0
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
	if v.Escaped {
		return v.unescaped(scratch)
	}
	return v.Text[1 : len(v.Text)-1]
}

// unescaped is apart so that the compiler inlines Bytes.
//
//go:noinline
func (v *Value) unescaped(scratch *[]byte) []byte {
	*scratch = v.AppendText((*scratch)[:0])
	return *scratch
}

// AppendKey appends the component of a partition key that the value is, whatever
// its length. It returns false for what is no component: objects, arrays and
// numbers beyond the doubles. Scratch may grow.
func (v *Value) AppendKey(dst []byte, scratch *[]byte) ([]byte, bool) {
	switch v.Kind {
	case KindUndefined:
		return partmap.AppendUndefined(dst), true
	case KindNull:
		return partmap.AppendNull(dst), true
	case KindBool:
		return partmap.AppendBool(dst, v.Bool()), true
	case KindNumber:
		if f := double(v.Text); !math.IsInf(f, 0) {
			return partmap.AppendNumber(dst, f), true
		}
	case KindString:
		return partmap.AppendString(dst, v.Bytes(scratch)), true
	}
	return dst, false
}
