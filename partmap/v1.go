package partmap

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/murmur"
)

// Version 1 of the model's hash, for tools that read old layouts: the engine
// places nothing by it. Strings are cut, then hash and values follow each
// other:
//
//	number(murmur3 x86-32 of the components) | components, ordered
//
//	undefined, null, false, true   marker
//	number   05 | 7 payload bits a byte, low bit set where more follow
//	string   08 | each byte of UTF-8 plus one | 00
//	         08 | the first 101 of them, where there are more than 100
const (
	v1StringUnits = 100 // UTF-16 code units that are kept of a string
	v1StringBytes = 100 // longest string that is ended by 00
)

// HashV1 returns the EPK of an encoded partition key by version 1 of the
// model's hash, kind Hash, of any number of components; nil for bytes that are
// no encoding. Its length varies and may pass that of an EPK.
func HashV1(enc []byte) []byte {
	var hashed, ordered []byte
	for len(enc) > 0 {
		n := componentLen(enc)
		if n == 0 {
			return nil
		}
		c := enc[:n]
		if c[0] == markString {
			s := cutV1(c[1 : n-1])
			hashed = append(append(append(hashed, markString), s...), 0)
			ordered = appendStringV1(ordered, s)
		} else {
			hashed = append(hashed, c...)
			ordered = appendScalarV1(ordered, c)
		}
		enc = enc[n:]
	}
	if ordered == nil {
		return nil
	}
	return append(appendNumberV1(nil, float64(murmur.Sum32(hashed))), ordered...)
}

// cutV1 returns the first 100 UTF-16 code units of s, as UTF-8. The high half
// of a pair that is cut becomes U+FFFD, as in the .NET client.
func cutV1(s []byte) []byte {
	units := 0
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRune(s[at:])
		switch {
		case units == v1StringUnits:
			return s[:at]
		case r > 0xFFFF && units == v1StringUnits-1:
			return append(s[:at:at], "\uFFFD"...)
		case r > 0xFFFF:
			units++
		}
		units++
		at += n
	}
	return s
}

func appendStringV1(dst, s []byte) []byte {
	ended := len(s) <= v1StringBytes
	if !ended {
		s = s[:v1StringBytes+1]
	}
	dst = append(dst, markString)
	for _, c := range s {
		dst = append(dst, c+1)
	}
	if ended {
		dst = append(dst, 0)
	}
	return dst
}

func appendScalarV1(dst, c []byte) []byte {
	if c[0] != markNumber {
		return append(dst, c[0])
	}
	return appendNumberV1(dst, math.Float64frombits(binary.LittleEndian.Uint64(c[1:])))
}

// appendNumberV1 appends f so that the order of bytes is that of numbers.
func appendNumberV1(dst []byte, f float64) []byte {
	p := math.Float64bits(f)
	if p>>63 == 0 {
		p ^= 1 << 63
	} else {
		p = -p
	}
	dst = append(dst, markNumber, byte(p>>56))
	for p <<= 8; ; {
		dst = append(dst, byte(p>>56)|1)
		if p <<= 7; p == 0 {
			break
		}
	}
	dst[len(dst)-1] &= 0xFE
	return dst
}
