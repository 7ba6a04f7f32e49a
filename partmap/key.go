package partmap

import (
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

// Key is a partition key of 1 to MaxLevels levels. It is immutable, may be
// compared with == and used as a map key. The zero Key is no key.
type Key struct {
	enc string // canonical encoding
}

// String returns the key of a string: the zero Key unless s is valid UTF-8 of
// at most MaxString bytes. FromEncoded on AppendString tells the reason.
func String(s string) Key {
	if len(s) > MaxString || !utf8.ValidString(s) {
		return Key{}
	}
	return Key{"\x08" + s + "\xFF"}
}

// Number returns the key of a number: the zero Key for NaN and the infinities.
// Negative zero is zero.
func Number(f float64) Key {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Key{}
	}
	var buf [9]byte
	return Key{string(AppendNumber(buf[:0], f))}
}

// Bool returns the key of a boolean.
func Bool(b bool) Key {
	if b {
		return Key{"\x03"}
	}
	return Key{"\x02"}
}

// Null returns the key of null.
func Null() Key { return Key{"\x01"} }

// Undefined returns the key of documents that lack the property.
func Undefined() Key { return Key{"\x00"} }

// Join returns the key with the levels of all parts. The error matches
// ErrInvalid for a part that is no key, ErrLevels or ErrTooLong; its offset is
// that in the joined encoding.
func Join(parts ...Key) (Key, error) {
	var enc []byte
	for i, p := range parts {
		if !p.Valid() {
			return Key{}, refuse(ErrInvalid, len(enc), "part %d is no key", i)
		}
		if len(p.enc) > MaxEncoded-len(enc) {
			return Key{}, refuse(ErrTooLong, len(enc), "part %d passes the limit of %d bytes", i, MaxEncoded)
		}
		enc = append(enc, p.enc...)
	}
	return FromEncoded(enc)
}

// FromEncoded returns the key with this encoding, after validating all of it.
// The error is an *Error with the offset in enc. It keeps no reference to enc.
func FromEncoded(enc []byte) (Key, error) {
	if err := checkEncoded(enc); err != nil {
		return Key{}, err
	}
	return Key{string(enc)}, nil
}

// FromTrusted returns the key with this encoding, unchecked and without a copy:
// for bytes that this process encoded or verified. The key borrows enc and must
// not be used after enc is changed or unmapped; Clone makes it independent. No
// bytes give the zero Key. It allocates nothing.
func FromTrusted(enc []byte) Key {
	return Key{unsafe.String(unsafe.SliceData(enc), len(enc))}
}

// Clone returns an equal key that borrows nothing.
func (k Key) Clone() Key { return Key{strings.Clone(k.enc)} }

// Valid reports whether k is a key: it is not the zero Key.
func (k Key) Valid() bool { return k.enc != "" }

// Encoded returns the canonical encoding, empty for the zero Key. It is the
// key's own memory and must never be written. It allocates nothing.
func (k Key) Encoded() []byte {
	return unsafe.Slice(unsafe.StringData(k.enc), len(k.enc))
}

// Len returns the number of levels, 0 for the zero Key.
func (k Key) Len() (levels int) {
	for enc := k.Encoded(); len(enc) > 0; levels++ {
		n := componentLen(enc)
		if n == 0 {
			return 0
		}
		enc = enc[n:]
	}
	return levels
}

// Compare orders keys as the key space does: by EPK, then by the bytes of the encoding.
func (k Key) Compare(o Key) int {
	x, y := k.EPK(), o.EPK()
	if c := x.Compare(&y); c != 0 {
		return c
	}
	return strings.Compare(k.enc, o.enc)
}

// Range returns the part of the key space of k and of all keys that begin with its levels.
func (k Key) Range() (Range, error) {
	epk := k.EPK()
	end := append(epk.Bytes(), 0xFF)
	if len(end) > item.MaxEPK { // k has as many levels as there are
		end = end[:item.MaxEPK]
		for i := len(end) - 1; i >= 0; i-- {
			if end[i]++; end[i] != 0 {
				break
			}
		}
	}
	max, err := EPKFromBytes(end)
	return Range{Min: epk, Max: max}, err
}

// EPK returns the key's place in the key space. It allocates nothing.
func (k Key) EPK() EPK { return HashEncoded(k.Encoded()) }
