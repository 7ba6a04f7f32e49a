package partmap

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/item"
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

	// markVersion1 is set in the marker of a key that is hashed by version 1; such a key
	// has one component.
	markVersion1 = 0x40
)

// Limits of a partition key.
const (
	MaxLevels  = item.MaxLevels // components
	MaxString  = 2048           // bytes of UTF-8 in a string
	MaxEncoded = item.MaxPK     // bytes of the encoding of all levels
)

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

// componentLen returns the length of the first component, 0 if there is none.
func componentLen(enc []byte) int {
	if len(enc) == 0 {
		return 0
	}
	switch enc[0] &^ markVersion1 {
	case markUndefined, markNull, markFalse, markTrue:
		return 1
	case markNumber:
		if len(enc) >= 9 {
			return 9
		}
	case markString:
		return bytes.IndexByte(enc, endOfString) + 1
	}
	return 0
}

// checkEncoded returns an *Error unless enc is a canonical encoding within the
// limits.
func checkEncoded(enc []byte) error {
	if len(enc) > MaxEncoded {
		return refuse(ErrTooLong, MaxEncoded, "encoding of %d bytes, the limit is %d", len(enc), MaxEncoded)
	}
	at := 0
	for levels := 0; at < len(enc); levels++ {
		n := componentLen(enc[at:])
		if n == 0 {
			return refuse(ErrInvalid, at, "no component of an encoding")
		}
		if levels == MaxLevels {
			return refuse(ErrLevels, at, "more than %d levels", MaxLevels)
		}
		if enc[at]&markVersion1 != 0 && (at > 0 || n < len(enc)) {
			return refuse(ErrInvalid, at, "a component of version 1 among others")
		}
		if err := checkComponent(enc[at:at+n], at); err != nil {
			return err
		}
		at += n
	}
	if at == 0 {
		return refuse(ErrLevels, 0, "no levels")
	}
	return nil
}

// checkComponent checks the value of the component c, which begins at offset at.
func checkComponent(c []byte, at int) error {
	switch c[0] &^ markVersion1 {
	case markNumber:
		bits := binary.LittleEndian.Uint64(c[1:])
		switch f := math.Float64frombits(bits); {
		case math.IsNaN(f) || math.IsInf(f, 0):
			return refuse(ErrInvalid, at, "number that is not finite")
		case f == 0 && bits != 0:
			return refuse(ErrInvalid, at, "negative zero")
		}
	case markString:
		s := c[1 : len(c)-1]
		if len(s) > MaxString {
			return refuse(ErrTooLong, at, "string of %d bytes, the limit is %d", len(s), MaxString)
		}
		if !utf8.Valid(s) {
			return refuse(ErrInvalid, at+1+validPrefix(s), "string is not valid UTF-8")
		}
	}
	return nil
}

// validPrefix returns the length of the longest prefix of s that is UTF-8.
func validPrefix(s []byte) int {
	at := 0
	for at < len(s) {
		r, n := utf8.DecodeRune(s[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// PrefixLen returns the length of the first components of an encoding, as many
// as levels, or of what there is of them.
func PrefixLen(enc []byte, levels int) (n int) {
	for range levels {
		n += componentLen(enc[n:])
	}
	return n
}
