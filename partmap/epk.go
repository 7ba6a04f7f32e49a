package partmap

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/murmur"
)

const levelBytes = item.MaxEPK / item.MaxLevels

// EPK is an effective partition key: a point of the key space, the lower bound
// of all keys that begin with its levels, or a boundary. The zero EPK is the
// lowest, MinEPK. EPKs may be compared with ==, which tells 10 from 1000 where
// Compare does not.
type EPK struct {
	b [item.MaxEPK]byte // zeros from n on
	n uint8             // length in bytes
}

// MinEPK returns the beginning of the key space, which has no bytes.
func MinEPK() EPK { return EPK{} }

// MaxEPK returns the end of the key space, FF: greater than the EPK of every
// key, and not part of any range.
func MaxEPK() EPK { return EPK{b: [item.MaxEPK]byte{0xFF}, n: 1} }

// EPKFromBytes returns the EPK with these bytes, at most 48 and none after the
// end of the key space. It keeps no reference to b.
func EPKFromBytes(b []byte) (e EPK, err error) {
	if len(b) > len(e.b) {
		return EPK{}, refuse(ErrEPK, len(e.b), "%d bytes, the limit is %d", len(b), len(e.b))
	}
	if len(b) > 1 && b[0] == 0xFF {
		return EPK{}, refuse(ErrEPK, 1, "bytes after FF, the end of the key space")
	}
	e.n = uint8(copy(e.b[:], b))
	return e, nil
}

// ParseEPK reads hex digits of either case, as String prints them.
func ParseEPK(text string) (EPK, error) {
	if len(text) > 2*item.MaxEPK {
		return EPK{}, refuse(ErrEPK, 2*item.MaxEPK, "%d hex digits, the limit is %d", len(text), 2*item.MaxEPK)
	}
	for i := range len(text) {
		if strings.IndexByte("0123456789abcdefABCDEF", text[i]) < 0 {
			return EPK{}, refuse(ErrEPK, i, "%q is no hex digit", text[i])
		}
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return EPK{}, refuse(ErrEPK, len(text), "odd number of hex digits")
	}
	e, err := EPKFromBytes(b)
	if err != nil {
		return EPK{}, refuse(ErrEPK, 2, "digits after FF, the end of the key space")
	}
	return e, nil
}

// HashEncoded returns the EPK of an encoded partition key, by the version of the
// model's hash that the encoding names. Bytes that are no encoding give the EPK of
// no levels. It allocates nothing.
func HashEncoded(enc []byte) (e EPK) {
	if len(enc) > 0 && enc[0]&markVersion1 != 0 {
		return placeV1(enc)
	}
	for len(enc) > 0 {
		n := componentLen(enc)
		if n == 0 || int(e.n) == len(e.b) || enc[0]&markVersion1 != 0 {
			return EPK{}
		}
		hashComponent(e.b[e.n:], enc[:n])
		e.n += levelBytes
		enc = enc[n:]
	}
	return e
}

// hashComponent writes the 16 bytes of one level to dst.
func hashComponent(dst, enc []byte) {
	h1, h2 := murmur.Sum128(enc)
	binary.BigEndian.PutUint64(dst, h2)
	binary.BigEndian.PutUint64(dst[8:], h1)
	dst[0] &= 0x3F
}

// Bytes returns the EPK's bytes, 16 a level. They are those of e: valid as long
// as e is, and not to be written.
func (e *EPK) Bytes() []byte { return e.b[:e.n:e.n] }

// Levels returns the number of whole levels; 0 for MinEPK and MaxEPK.
func (e *EPK) Levels() int { return int(e.n) / levelBytes }

// Head returns the first 8 bytes as a big-endian integer, zero-padded.
func (e *EPK) Head() uint64 { return binary.BigEndian.Uint64(e.b[:]) }

// Compare orders e and o as bytes, the shorter one padded with zeros: -1, 0 or
// +1. It allocates nothing.
func (e *EPK) Compare(o *EPK) int {
	if a, b := e.Head(), o.Head(); a != b {
		if a < b {
			return -1
		}
		return 1
	}
	return bytes.Compare(e.b[8:], o.b[8:])
}

// String returns the bytes as upper-case hex digits, as the service prints
// them: "" for MinEPK, "FF" for MaxEPK.
func (e EPK) String() string { return fmt.Sprintf("%X", e.b[:e.n]) }
