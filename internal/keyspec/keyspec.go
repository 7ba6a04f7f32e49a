// Package keyspec describes the encoded partition key of a document by where its bytes lie in
// the document, so that a file need not hold them twice. A description is a byte and
// what it announces:
//
//	bits 0-1  number of components, 0: the whole key is one range of the document
//	bits 2-4  for each component: 1 if it is a string whose text is a range of
//	          the document, 0 if its encoding follows
//
// A range is offset and length, as varints. The encoding of keys is that of package partmap.
//
// Invariants:
//
//  1. Key, Match and Reach may be called with what Skip has accepted, and a document of the length
//     that Skip was told. What follows the description does not matter.
//  2. Skip accepts what Append makes, and never panics, whatever the bytes are.
package keyspec

import (
	"bytes"
	"encoding/binary"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/varint"
)

const (
	countBits = 3
	textBit   = 4 // of the first component
)

// Encoded components: a marker; numbers take 8 bytes more.
const (
	markerNumber = 0x05
	markerString = 0x08
	markerEnd    = 0xFF
)

// Append appends the description of an encoded partition key to specs. place returns
// where the document has a text, and may add it to the document.
func Append(specs, pk []byte, place func(text []byte) int) []byte {
	from := len(specs)
	specs = append(specs, 0)
	kind, rest := byte(0), pk
	n := 0
	for ; len(rest) > 0; n++ {
		if n == item.MaxLevels {
			n = 0
			break
		}
		if rest[0] == markerString {
			end := bytes.IndexByte(rest, markerEnd)
			if end < 0 {
				n = 0
				break
			}
			specs = appendRange(specs, rest[1:end], place)
			kind |= textBit << n
			rest = rest[end+1:]
			continue
		}
		size := literalLen(rest[0])
		if size == 0 || size > len(rest) {
			n = 0
			break
		}
		specs = append(specs, rest[:size]...)
		rest = rest[size:]
	}
	if n == 0 { // no encoding that we know: one range
		specs = appendRange(specs[:from+1], pk, place)
		kind = 0
	}
	specs[from] = byte(n) | kind
	return specs
}

func appendRange(specs, text []byte, place func(text []byte) int) []byte {
	specs = binary.AppendUvarint(specs, uint64(place(text)))
	return binary.AppendUvarint(specs, uint64(len(text)))
}

// Skip checks the description at pos of b, for a document of a length, and returns the position
// after it, 0 if it is malformed.
func Skip(b []byte, pos, length int) int {
	if pos >= len(b) {
		return 0
	}
	kind := b[pos]
	pos++
	n := int(kind & countBits)
	if kind>>(2+n) != 0 {
		return 0
	}
	if n == 0 {
		_, _, pos = cutRange(b, pos, length)
		return pos
	}
	for i := range n {
		if kind&(textBit<<i) != 0 {
			if _, _, pos = cutRange(b, pos, length); pos == 0 {
				return 0
			}
			continue
		}
		if pos >= len(b) {
			return 0
		}
		size := literalLen(b[pos])
		if size == 0 || size > len(b)-pos {
			return 0
		}
		pos += size
	}
	return pos
}

// literalLen returns the length of a component with this marker, 0 if the marker is
// that of a string or unknown.
func literalLen(marker byte) int {
	switch {
	case marker == markerNumber:
		return 9
	case marker < markerNumber:
		return 1
	}
	return 0
}

// cutRange decodes a range of a document of a length.
func cutRange(b []byte, pos, length int) (off, n, next int) {
	o, pos := varint.At(b, pos)
	if pos == 0 {
		return 0, 0, 0
	}
	l, pos := varint.At(b, pos)
	if pos == 0 || l > item.MaxPK || o > uint64(length) || l > uint64(length)-o {
		return 0, 0, 0
	}
	return int(o), int(l), pos
}

// Key appends the partition key of a document to dst. spec begins with its description.
func Key(dst, spec, doc []byte) []byte {
	pos, kind := 1, spec[0]
	n := int(kind & countBits)
	if n == 0 {
		off, l, _ := cutRange(spec, pos, len(doc))
		return append(dst, doc[off:off+l]...)
	}
	for i := range n {
		if kind&(textBit<<i) == 0 {
			size := literalLen(spec[pos])
			dst = append(dst, spec[pos:pos+size]...)
			pos += size
			continue
		}
		off, l, next := cutRange(spec, pos, len(doc))
		dst = append(append(append(dst, markerString), doc[off:off+l]...), markerEnd)
		pos = next
	}
	return dst
}

// Reach returns how much of a document of a length its partition key takes, from the document's
// beginning. spec begins with its description.
func Reach(spec []byte, length int) (reach int) {
	pos, kind := 1, spec[0]
	n := int(kind & countBits)
	if n == 0 {
		off, l, _ := cutRange(spec, pos, length)
		return off + l
	}
	for i := range n {
		if kind&(textBit<<i) == 0 {
			pos += literalLen(spec[pos])
			continue
		}
		off, l, next := cutRange(spec, pos, length)
		reach, pos = max(reach, off+l), next
	}
	return reach
}

// Match reports whether a document has the partition key pk. spec begins with its description.
func Match(spec, doc, pk []byte) bool {
	pos, kind := 1, spec[0]
	n := int(kind & countBits)
	if n == 0 {
		off, l, _ := cutRange(spec, pos, len(doc))
		return bytes.Equal(doc[off:off+l], pk)
	}
	for i := range n {
		if kind&(textBit<<i) == 0 {
			size := literalLen(spec[pos])
			if len(pk) < size || !bytes.Equal(pk[:size], spec[pos:pos+size]) {
				return false
			}
			pk, pos = pk[size:], pos+size
			continue
		}
		off, l, next := cutRange(spec, pos, len(doc))
		if len(pk) < l+2 || pk[0] != markerString || pk[l+1] != markerEnd || !bytes.Equal(pk[1:l+1], doc[off:off+l]) {
			return false
		}
		pk, pos = pk[l+2:], next
	}
	return len(pk) == 0
}
