package segment

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
)

// A partition key is described by a byte and what it announces:
//
//	bits 0-1  number of components, 0: the whole key is one range of the part
//	bits 2-4  for each component: 1 if it is a string whose text is a range of
//	          the part, 0 if its encoding follows
//
// A range is offset and length, as varints.
const (
	pkCount = 3
	pkText  = 4
)

// Encoded components (package partmap): a marker; numbers take 8 bytes more.
const (
	markerNumber = 0x05
	markerString = 0x08
	markerEnd    = 0xFF
)

// skipPK checks a description and returns the position after it, 0 if it is
// malformed.
func skipPK(b []byte, pos, length int) int {
	if pos >= len(b) {
		return 0
	}
	kind := b[pos]
	pos++
	n := int(kind & pkCount)
	if kind>>(2+n) != 0 {
		return 0
	}
	if n == 0 {
		_, _, pos = cutRange(b, pos, length)
		return pos
	}
	for i := range n {
		if kind&(pkText<<i) != 0 {
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

// cutRange decodes a range within a part of the given length.
func cutRange(b []byte, pos, length int) (off, n, next int) {
	o, pos := uvarint(b, pos)
	if pos == 0 {
		return 0, 0, 0
	}
	l, pos := uvarint(b, pos)
	if pos == 0 || l > item.MaxPK || o > uint64(length) || l > uint64(length)-o {
		return 0, 0, 0
	}
	return int(o), int(l), pos
}

// appendPK appends the encoded partition key of m, given the raw payload. The
// description was checked by next.
func (g *group) appendPK(dst []byte, m *member, raw []byte) []byte {
	b, pos := g.members, m.pkSpec+1
	part := raw[m.pkPart:m.pkEnd]
	kind := b[m.pkSpec]
	n := int(kind & pkCount)
	if n == 0 {
		off, l, _ := cutRange(b, pos, len(part))
		return append(dst, part[off:off+l]...)
	}
	for i := range n {
		if kind&(pkText<<i) == 0 {
			size := literalLen(b[pos])
			dst = append(dst, b[pos:pos+size]...)
			pos += size
			continue
		}
		off, l, next := cutRange(b, pos, len(part))
		dst = append(append(append(dst, markerString), part[off:off+l]...), markerEnd)
		pos = next
	}
	return dst
}

// reachPK returns how much of m's part its partition key takes, from the part's
// beginning.
func (g *group) reachPK(m *member) (reach int) {
	b, pos := g.members, m.pkSpec+1
	length := m.pkEnd - m.pkPart
	kind := b[m.pkSpec]
	n := int(kind & pkCount)
	if n == 0 {
		off, l, _ := cutRange(b, pos, length)
		return off + l
	}
	for i := range n {
		if kind&(pkText<<i) == 0 {
			pos += literalLen(b[pos])
			continue
		}
		off, l, next := cutRange(b, pos, length)
		reach, pos = max(reach, off+l), next
	}
	return reach
}

// matchPK reports whether m has the encoded partition key pk.
func (g *group) matchPK(m *member, raw, pk []byte) bool {
	b, pos := g.members, m.pkSpec+1
	part := raw[m.pkPart:m.pkEnd]
	kind := b[m.pkSpec]
	n := int(kind & pkCount)
	if n == 0 {
		off, l, _ := cutRange(b, pos, len(part))
		return bytes.Equal(part[off:off+l], pk)
	}
	for i := range n {
		if kind&(pkText<<i) == 0 {
			size := literalLen(b[pos])
			if len(pk) < size || !bytes.Equal(pk[:size], b[pos:pos+size]) {
				return false
			}
			pk, pos = pk[size:], pos+size
			continue
		}
		off, l, next := cutRange(b, pos, len(part))
		if len(pk) < l+2 || pk[0] != markerString || pk[l+1] != markerEnd || !bytes.Equal(pk[1:l+1], part[off:off+l]) {
			return false
		}
		pk, pos = pk[l+2:], next
	}
	return len(pk) == 0
}
