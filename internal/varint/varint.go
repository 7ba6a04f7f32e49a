// Package varint decodes unsigned numbers in the encoding of encoding/binary's AppendUvarint,
// from a place in bytes that may end anywhere.
package varint

// At decodes the number at pos of b, of at most 63 bits, and returns the position after it, 0 if
// there is none or pos is beyond the end.
func At(b []byte, pos int) (v uint64, next int) {
	if pos < len(b) && b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1
	}
	return long(b, pos)
}

// long is At for a number of several bytes.
func long(b []byte, pos int) (v uint64, next int) {
	for shift := uint(0); pos < len(b) && shift <= 63; shift += 7 {
		c := b[pos]
		pos++
		if v |= uint64(c&0x7f) << shift; c < 0x80 {
			return v, pos
		}
	}
	return 0, 0
}
