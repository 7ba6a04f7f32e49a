package partmap

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/murmur"
)

// A synthetic key is one string made of several values: their texts with |
// between them, the suffix, if there is one, last. The text of a value:
//
//	string     its characters, each \ and | preceded by a \; if it would read
//	           as one of the others (the four words, or a number as JSON writes
//	           it) preceded by a \
//	number     the shortest digits that read back as the double: 2024, 0.5, 1e+21
//	else       true, false, null, undefined
//	suffix     decimal digits
//
// So different values, also of different types, never make the same key.

// AppendSynthetic appends the encoding of the synthetic key of the components
// of enc, a canonical encoding, and of a suffix if that is not 0. The string
// may be longer than MaxString. It allocates nothing if dst has room.
func AppendSynthetic(dst, enc []byte, suffix int) []byte {
	dst = appendBase(dst, enc)
	if suffix != 0 {
		dst = strconv.AppendInt(append(dst, '|'), int64(suffix), 10)
	}
	return append(dst, endOfString)
}

// appendBase appends a synthetic key up to where its suffix, or the end, comes.
func appendBase(dst, enc []byte) []byte {
	dst = append(dst, markString)
	for first := true; ; first = false {
		n := componentLen(enc)
		if n == 0 {
			return dst
		}
		if !first {
			dst = append(dst, '|')
		}
		dst = appendSyntheticText(dst, enc[:n])
		enc = enc[n:]
	}
}

func appendSyntheticText(dst, c []byte) []byte {
	switch c[0] &^ markVersion1 {
	case markNumber:
		return appendNumberText(dst, math.Float64frombits(binary.LittleEndian.Uint64(c[1:])))
	case markString:
		s := c[1 : len(c)-1]
		if readsOtherwise(s) {
			dst = append(dst, '\\')
		}
		for _, b := range s {
			if b == '\\' || b == '|' {
				dst = append(dst, '\\')
			}
			dst = append(dst, b)
		}
		return dst
	}
	return appendComponentText(dst, c)
}

// readsOtherwise says whether a string is the text of another value.
func readsOtherwise(s []byte) bool {
	switch string(s) {
	case "true", "false", "null", "undefined":
		return true
	}
	digits := func() bool {
		n := 0
		for n < len(s) && s[n]-'0' < 10 {
			n++
		}
		s = s[n:]
		return n > 0
	}
	accept := func(chars string) bool {
		for i := range len(chars) {
			if len(s) > 0 && s[0] == chars[i] {
				s = s[1:]
				return true
			}
		}
		return false
	}
	accept("-")
	if !accept("0") && !digits() {
		return false
	}
	if accept(".") && !digits() {
		return false
	}
	if accept("eE") {
		accept("+-")
		if !digits() {
			return false
		}
	}
	return len(s) == 0
}

// Suffix returns the suffix, from 1 to n, that the components of enc, a
// canonical encoding, choose: 1 + h1 mod n, where h1 is the first half of
// MurmurHash3 x64-128 of enc.
func Suffix(enc []byte, n int) int {
	h1, _ := murmur.Sum128(enc)
	return 1 + int(h1%uint64(n))
}

// ReadSuffix returns the suffix with which a key is the synthetic one of the
// components of enc; false if it is of others, or its suffix is not one from 1
// to n.
func ReadSuffix(key Key, enc []byte, n int) (int, bool) {
	k := key.Encoded()
	base := append(appendBase(nil, enc), '|')
	if len(k) <= len(base)+1 || string(k[:len(base)]) != string(base) || k[len(k)-1] != endOfString {
		return 0, false
	}
	text := string(k[len(base) : len(k)-1])
	suffix, err := strconv.Atoi(text)
	if err != nil || suffix < 1 || suffix > n || strconv.Itoa(suffix) != text {
		return 0, false
	}
	return suffix, true
}
