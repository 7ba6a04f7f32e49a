package index

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Type is the type of a value. The types are ordered as values of different
// types are.
type Type uint8

// Types.
const (
	Null Type = 1 + iota
	Bool
	Number
	String
	Array
	Object
)

// String returns the name of the type.
func (t Type) String() string {
	if names := [...]string{"null", "bool", "number", "string", "array", "object"}; t >= Null && t <= Object {
		return names[t-1]
	}
	return "unknown"
}

// MaxString is the length in bytes up to which a string is in its term in full.
// Of a longer one the term has the first MaxString bytes and a checksum of all.
const MaxString = 64

// CutBytes is the length of that checksum, with which the term of a string that was cut ends.
const CutBytes = 4

// cutString is the length of the value of a string that was cut.
const cutString = MaxString + CutBytes

// Value is a scalar.
type Value struct {
	Type   Type // Null, Bool, Number or String
	Bool   bool
	Number float64
	Text   string
}

// NullValue returns null.
func NullValue() Value { return Value{Type: Null} }

// BoolValue returns true or false.
func BoolValue(b bool) Value { return Value{Type: Bool, Bool: b} }

// NumberValue returns a number. -0 is 0.
func NumberValue(f float64) Value { return Value{Type: Number, Number: f} }

// StringValue returns a string.
func StringValue(s string) Value { return Value{Type: String, Text: s} }

// A term is, as bytes that sort as terms do:
//
//	path | 1 | type 1 | value
//
//	null, array, object   nothing
//	bool                  1 byte: 0 false, 1 true
//	number                8 bytes that sort as doubles do, zeros at the end left out
//	string                its bytes; of one longer than MaxString the first of
//	                      them, then 4 bytes of CRC32C of all
//
// The terms that say something of versions as such begin with the byte 0: see
// internalTerm.

// appendTerm appends the term of a value at a path.
func appendTerm(dst []byte, p Path, v Value) []byte {
	dst = append(dst, p.steps...)
	dst = append(dst, pathEnd, byte(v.Type))
	switch v.Type {
	case Bool:
		if v.Bool {
			return append(dst, 1)
		}
		return append(dst, 0)
	case Number:
		return appendNumber(dst, numberBits(v.Number))
	case String:
		return appendString(dst, v.Text)
	}
	return dst
}

// numberBits returns bits that sort as doubles do.
func numberBits(f float64) uint64 {
	if f == 0 {
		f = 0 // not -0
	}
	bits := math.Float64bits(f)
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func numberFromBits(bits uint64) float64 {
	if bits>>63 != 0 {
		return math.Float64frombits(bits &^ (1 << 63))
	}
	return math.Float64frombits(^bits)
}

func appendNumber(dst []byte, bits uint64) []byte {
	for ; bits != 0; bits <<= 8 {
		dst = append(dst, byte(bits>>56))
	}
	return dst
}

func appendString[T string | []byte](dst []byte, s T) []byte {
	if len(s) <= MaxString {
		return append(dst, s...)
	}
	sum := crc32.Checksum([]byte(s), castagnoli)
	return binary.BigEndian.AppendUint32(append(dst, s[:MaxString]...), sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Term is a path, a type and a value.
type Term struct {
	Path  Path
	Value Value // of an array or object only the type
	// Cut says that the string is longer than MaxString: Text is its beginning.
	Cut bool
}

// DecodeTerm reads a term; false: the bytes are none, or one of those that say
// something of versions.
func DecodeTerm(key []byte) (t Term, ok bool) {
	n := pathLen(key)
	if n < 0 || n+2 > len(key) {
		return t, false
	}
	t.Path = Path{string(key[:n])}
	t.Value.Type = Type(key[n+1])
	value := key[n+2:]
	switch t.Value.Type {
	case Null, Array, Object:
		return t, len(value) == 0
	case Bool:
		if len(value) != 1 || value[0] > 1 {
			return t, false
		}
		t.Value.Bool = value[0] == 1
	case Number:
		if len(value) > 8 {
			return t, false
		}
		var bits [8]byte
		copy(bits[:], value)
		t.Value.Number = numberFromBits(binary.BigEndian.Uint64(bits[:]))
	case String:
		if len(value) > cutString {
			return t, false
		}
		if t.Cut = len(value) > MaxString; t.Cut {
			value = value[:MaxString]
		}
		t.Value.Text = string(value)
	default:
		return t, false
	}
	return t, true
}

// pathLen returns the length of the encoded path at the start of a term,
// without its end; -1 if there is none.
func pathLen(key []byte) int {
	for i := 0; i < len(key); {
		switch key[i] {
		case pathEnd:
			return i
		case pathElement:
			i++
		case pathMember:
			end := bytes.IndexByte(key[i:], nameEnd)
			if end < 0 {
				return -1
			}
			i += end + 1
		default:
			return -1
		}
	}
	return -1
}
