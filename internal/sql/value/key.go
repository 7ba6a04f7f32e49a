package value

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// A key is a value as bytes that compare as the values do, and of which none is the beginning
// of another:
//
//	kind u8                               undefined, null
//	kind u8, 0 or 1                       boolean
//	kind u8, bits u64 big-endian          number: the sign bit flipped, of a negative one all bits
//	kind u8, text, 0 1                    string: a 0 in it is 0 FF
//	kind u8, keys of the elements, 0      array
//	kind u8, names and values, 0          object: its members in the order of their names

// AppendOrder appends the bytes by which ORDER BY compares the value: all arrays are equal,
// and so are all objects.
func (v Value) AppendOrder(dst []byte) []byte {
	if v.kind >= jsondoc.KindArray {
		return append(dst, byte(v.kind))
	}
	return v.AppendKey(dst)
}

// AppendKey appends the key of the value.
func (v Value) AppendKey(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case jsondoc.KindBool:
		if v.bool {
			return append(dst, 1)
		}
		return append(dst, 0)
	case jsondoc.KindNumber:
		bits := math.Float64bits(v.num)
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		return binary.BigEndian.AppendUint64(dst, bits)
	case jsondoc.KindString:
		return appendText(dst, v.str)
	case jsondoc.KindArray:
		v.Each(func(e Value) bool {
			dst = e.AppendKey(dst)
			return true
		})
		return append(dst, 0)
	case jsondoc.KindObject:
		type member struct {
			name string
			v    Value
		}
		var list []member
		v.Members(func(name string, e Value) bool {
			list = append(list, member{name, e})
			return true
		})
		slices.SortStableFunc(list, func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
		for _, m := range list {
			dst = m.v.AppendKey(appendText(append(dst, byte(jsondoc.KindString)), m.name))
		}
		return append(dst, 0)
	}
	return dst
}

// unkept stands for the key of an array or object that was asked for once.
var unkept []byte

// key returns the key of an array or object. From the second time on it keeps it: the one that many are
// compared with stays the same.
func (v Value) key() []byte {
	last := v.c.key.Load()
	if last != nil && last != &unkept {
		return *last
	}
	key := v.AppendKey(nil)
	if last == nil {
		v.c.key.Store(&unkept)
	} else {
		kept := key
		v.c.key.Store(&kept)
	}
	return key
}

func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if text[i] == 0 {
			dst = append(dst, 0, 0xFF)
			continue
		}
		dst = append(dst, text[i])
	}
	return append(dst, 0, 1)
}
