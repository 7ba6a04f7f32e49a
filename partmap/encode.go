// Package partmap maps partition keys to places in the key space.
//
// A partition key value has 1 to 3 components. Each is encoded as the bytes
// that version 2 of the model's hash is computed over:
//
//	undefined 00    null 01    false 02    true 03
//	number    05 | IEEE 754 double, 8 bytes, little-endian
//	string    08 | UTF-8 bytes | FF
//
// FF is no byte of UTF-8, so encodings end by themselves and are concatenated
// without separators. The effective partition key (EPK) of one component is
// its murmur3 x64-128 hash, second half first, big-endian, the two top bits
// clear; components are hashed apart and their EPKs concatenated (kind Hash for
// one, MultiHash for more). Negative zero is encoded as zero.
package partmap

import (
	"encoding/binary"
	"math"

	"github.com/cleavestore/cleave/internal/murmur"
)

// Markers of the encoding; part of the formats on disk.
const (
	markUndefined = 0x00
	markNull      = 0x01
	markFalse     = 0x02
	markTrue      = 0x03
	markNumber    = 0x05
	markString    = 0x08
	endOfString   = 0xFF
)

// MaxLevels is the number of components that a partition key may have.
const MaxLevels = 3

// AppendUndefined appends the encoding of an absent value.
func AppendUndefined(dst []byte) []byte { return append(dst, markUndefined) }

// AppendNull appends the encoding of null.
func AppendNull(dst []byte) []byte { return append(dst, markNull) }

// AppendBool appends the encoding of a boolean.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, markTrue)
	}
	return append(dst, markFalse)
}

// AppendNumber appends the encoding of a number, which must be finite.
func AppendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		f = 0 // negative zero too
	}
	return binary.LittleEndian.AppendUint64(append(dst, markNumber), math.Float64bits(f))
}

// AppendString appends the encoding of a string, which must be valid UTF-8.
func AppendString(dst, s []byte) []byte {
	return append(append(append(dst, markString), s...), endOfString)
}

// EPK is an effective partition key: a point of the key space, or the lower
// bound of all keys that begin with its levels. It is comparable.
type EPK struct {
	b      [16 * MaxLevels]byte
	levels uint8
}

// Bytes returns the EPK's bytes, 16 a level. They are valid as long as e is.
func (e *EPK) Bytes() []byte { return e.b[:16*int(e.levels)] }

// Levels returns the number of components; 0 for the lowest EPK.
func (e *EPK) Levels() int { return int(e.levels) }

// Head returns the first 8 bytes as a big-endian integer.
func (e *EPK) Head() uint64 { return binary.BigEndian.Uint64(e.b[:]) }

// HashEncoded returns the EPK of an encoded partition key, by version 2 of the
// model's hash. Bytes that are no encoding give an EPK of no levels. It
// allocates nothing.
func HashEncoded(enc []byte) (e EPK) {
	for len(enc) > 0 {
		n := componentLen(enc)
		if n == 0 || e.levels == MaxLevels {
			return EPK{}
		}
		h1, h2 := murmur.Sum128(enc[:n])
		at := e.b[16*int(e.levels):]
		binary.BigEndian.PutUint64(at, h2)
		binary.BigEndian.PutUint64(at[8:], h1)
		at[0] &= 0x3F
		e.levels++
		enc = enc[n:]
	}
	return e
}

// componentLen returns the length of the first component, 0 if there is none.
func componentLen(enc []byte) int {
	switch enc[0] {
	case markUndefined, markNull, markFalse, markTrue:
		return 1
	case markNumber:
		if len(enc) >= 9 {
			return 9
		}
	case markString:
		for i, c := range enc {
			if c == endOfString {
				return i + 1
			}
		}
	}
	return 0
}
