package partmap

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/murmur"
)

// Version 1 of the model's hash, of containers that ask for it. Strings are cut, then
// hash and values follow each other:
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
		hashed, ordered = appendHashedV1(hashed, enc[:n]), appendOrderedV1(ordered, enc[:n])
		enc = enc[n:]
	}
	if ordered == nil {
		return nil
	}
	return append(appendNumberV1(nil, float64(murmur.Sum32(hashed))), ordered...)
}

// appendHashedV1 appends what version 1 hashes of a component.
func appendHashedV1(dst, c []byte) []byte {
	mark := c[0] &^ markVersion1
	if mark != markString {
		return append(append(dst, mark), c[1:]...)
	}
	kept, half := cutV1(c[1 : len(c)-1])
	dst = append(append(dst, markString), kept...)
	return append(append(dst, half...), 0)
}

// appendOrderedV1 appends a component as it follows the hash.
func appendOrderedV1(dst, c []byte) []byte {
	switch mark := c[0] &^ markVersion1; mark {
	case markString:
		return appendStringV1(dst, c[1:len(c)-1])
	case markNumber:
		return appendNumberV1(dst, math.Float64frombits(binary.LittleEndian.Uint64(c[1:])))
	default:
		return append(dst, mark)
	}
}

// cutV1 returns the first 100 UTF-16 code units of s, as UTF-8. The high half
// of a pair that is cut becomes U+FFFD, as in the .NET client: half.
func cutV1(s []byte) (kept []byte, half string) {
	units := 0
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRune(s[at:])
		switch {
		case units == v1StringUnits:
			return s[:at], ""
		case r > 0xFFFF && units == v1StringUnits-1:
			return s[:at], "\uFFFD"
		case r > 0xFFFF:
			units++
		}
		units++
		at += n
	}
	return s, ""
}

func appendStringV1(dst, s []byte) []byte {
	kept, half := cutV1(s)
	dst = append(dst, markString)
	left := v1StringBytes + 1
	for _, c := range kept[:min(len(kept), left)] {
		dst = append(dst, c+1)
	}
	left -= min(len(kept), left)
	for _, c := range []byte(half[:min(len(half), left)]) {
		dst = append(dst, c+1)
	}
	if len(kept)+len(half) <= v1StringBytes {
		dst = append(dst, 0)
	}
	return dst
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

// numberV1 reads what appendNumberV1 has appended, from the beginning of b. Digits after
// those of a double are dropped, so the number is not greater than that of b.
func numberV1(b []byte) (f float64, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != markNumber {
		return 0, nil, false
	}
	p, shift := uint64(b[1])<<56, 49
	for b = b[2:]; len(b) > 0; b = b[1:] {
		if shift >= 0 {
			p |= uint64(b[0]>>1) << shift
		}
		shift -= 7
		if b[0]&1 == 0 {
			b = b[1:]
			break
		}
	}
	if p>>63 == 0 {
		return math.Float64frombits(-p), b, true
	}
	return math.Float64frombits(p ^ 1<<63), b, true
}

// The place of a key of version 1 in the key space is as wide as one level, so that
// everything that holds EPKs holds it too. It has the order of the EPKs of version 1:
//
//	 2 bits   32 bits     94 bits
//	+----+-----------+--------------------------------+
//	| 00 | the hash  | the first bits of the values   |
//	+----+-----------+--------------------------------+
//
// Keys that agree in all of it are neighbours, in the order of their encodings: no
// boundary is between them. A boundary has one EPK of version 1, and keys are on the same
// sides of both.
const valueBytesV1 = 12 // of the values, of which the last two bits are left out

// placeV1 returns the place of an encoded key of version 1.
func placeV1(enc []byte) EPK {
	if n := componentLen(enc); n == 0 || n != len(enc) {
		return EPK{}
	}
	var hashed [3*v1StringUnits + 8]byte
	var ordered [v1StringBytes + 8]byte
	hash := murmur.Sum32(appendHashedV1(hashed[:0], enc))
	appendOrderedV1(ordered[:0], enc)
	return packV1(hash, ordered[:valueBytesV1])
}

// packV1 returns the place of a hash and the first bytes of the values.
func packV1(hash uint32, values []byte) (e EPK) {
	hi := uint64(hash)<<32 | uint64(binary.BigEndian.Uint32(values))
	lo := binary.BigEndian.Uint64(values[4:])
	binary.BigEndian.PutUint64(e.b[:], hi>>2)
	binary.BigEndian.PutUint64(e.b[8:], hi<<62|lo>>2)
	e.n = levelBytes
	return e
}

// Version1 returns the EPK of version 1 at which a boundary lies, as the service has it:
// nothing for MinEPK, FF for MaxEPK and what is above all keys. Only the first 16 bytes of
// the boundary are looked at, since keys of version 1 have no more.
func (e *EPK) Version1() []byte {
	if e.n == 0 {
		return nil
	}
	if e.b[0] > 0x3F {
		return []byte{0xFF}
	}
	hi, lo := e.Head(), binary.BigEndian.Uint64(e.b[8:])
	hi, lo = hi<<2|lo>>62, lo<<2
	out := appendNumberV1(nil, float64(uint32(hi>>32)))
	out = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(out, uint32(hi)), lo)
	for n := len(out) - valueBytesV1; len(out) > n && out[len(out)-1] == 0; {
		out = out[:len(out)-1]
	}
	return out
}

// FromVersion1 returns the boundary at an EPK of version 1: the least that has no key of a
// lower EPK above it. Whether exact is set, it is the same boundary; if not, keys that agree
// in their hash and in the first 94 bits of their values lie below the EPK on both sides.
// The error matches ErrEPK.
func FromVersion1(b []byte) (e EPK, exact bool, err error) {
	switch {
	case len(b) == 0:
		return MinEPK(), true, nil
	case b[0] == 0xFF:
		return MaxEPK(), len(b) == 1, nil
	}
	f, rest, ok := numberV1(b)
	if !ok || !(f >= 0 && f <= math.MaxUint32) {
		return EPK{}, false, refuse(ErrEPK, 0, "no hash of version 1")
	}
	hash := uint32(f)
	if float64(hash) != f {
		return EPK{}, false, refuse(ErrEPK, 0, "a hash of version 1 that is not whole")
	}
	var values [valueBytesV1]byte
	n := copy(values[:], rest)
	exact = values[valueBytesV1-1]&3 == 0
	for _, c := range rest[n:] {
		exact = exact && c == 0
	}
	return packV1(hash, values[:]), exact, nil
}

// Version returns the version of the hash by which the key is placed, 1 or 2.
func (k Key) Version() int {
	if k.enc != "" && k.enc[0]&markVersion1 != 0 {
		return 1
	}
	return 2
}

// OfVersion returns the key with the same value that is placed by version 1 or 2. It is
// another key: they differ by ==. A key of several levels has no version 1: the zero Key.
func (k Key) OfVersion(version int) Key {
	if k.Version() == version || !k.Valid() {
		return k
	}
	if k.Len() != 1 {
		return Key{}
	}
	enc := []byte(k.enc)
	enc[0] ^= markVersion1
	return FromTrusted(enc)
}

// SetVersion1 makes the encoding of a key of one level, which it changes in place, that of
// the same value in version 1.
func SetVersion1(enc []byte) {
	if len(enc) > 0 {
		enc[0] |= markVersion1
	}
}

// EvenBoundariesV1 returns the n-1 inner boundaries of n even partitions of a container of
// version 1, where the service puts them: the i-th is at the hash i * floor((2^32-1)/n).
func EvenBoundariesV1(n int) []EPK {
	boundaries := make([]EPK, max(n, 1)-1)
	for i := range boundaries {
		boundaries[i] = packV1(uint32(math.MaxUint32/uint64(n)*uint64(i+1)), make([]byte, valueBytesV1))
	}
	return boundaries
}

// HashFloorV1 returns the boundary of version 1 at the hash of e, below all keys that have
// this hash. The service's own boundaries are such.
func (e EPK) HashFloorV1() EPK {
	if e.n == 0 || e.b[0] > 0x3F {
		return e
	}
	hi := e.Head()<<2 | uint64(e.b[8])>>6
	return packV1(uint32(hi>>32), make([]byte, valueBytesV1))
}
