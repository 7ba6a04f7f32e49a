package segment

import "encoding/binary"

// decodePrefix decodes an S2 block from its beginning until need bytes are
// there, into dst, which is as long as the whole block decoded. It returns false
// for a block that does not decode so far; what dst has behind the decoded bytes
// is undefined. dict may be nil.
//
// The format is that of the snappy block with S2's repeated offsets
// (github.com/klauspost/compress/s2, "Format Extensions"): a block with a
// dictionary begins with its whole length as the repeated offset, and an offset
// beyond what is decoded reaches into the dictionary's end.
func decodePrefix(dst, block []byte, dict *Dictionary, need int) bool {
	var past []byte
	if dict != nil {
		past = dict.bytes
	}
	size, s := binary.Uvarint(block)
	if s <= 0 || size != uint64(len(dst)) || need > len(dst) {
		return false
	}
	offset := len(past)
	for d := 0; d < need; {
		if s >= len(block) {
			return false
		}
		tag := block[s]
		n := int(tag >> 2)
		if tag&3 == 0 {
			s++
			if extra := n - 59; extra > 0 {
				if extra > len(block)-s {
					return false
				}
				n = littleEndian(block[s:], extra)
				s += extra
			}
			n++
			if n > len(block)-s || n > len(dst)-d {
				return false
			}
			copy(dst[d:], block[s:s+n])
			s, d = s+n, d+n
			continue
		}
		width := [4]int{0, 2, 3, 5}[tag&3]
		if width > len(block)-s {
			return false
		}
		switch tag & 3 {
		case 1:
			far := int(tag&0xe0)<<3 | int(block[s+1])
			n &= 7
			if far != 0 {
				offset = far
			} else if extra := n - 4; extra > 0 {
				if extra > len(block)-s-width {
					return false
				}
				n = littleEndian(block[s+width:], extra) + [4]int{0, 4, 1 << 8, 1 << 16}[extra]
				width += extra
			}
			n += 4
		case 2:
			n++
			offset = int(binary.LittleEndian.Uint16(block[s+1:]))
		default:
			n++
			offset = int(binary.LittleEndian.Uint32(block[s+1:]))
		}
		s += width
		if offset <= 0 || n > len(dst)-d {
			return false
		}
		if offset > d {
			from := len(past) - (offset - d)
			if from < 0 || n > len(past)-from {
				return false
			}
			copy(dst[d:d+n], past[from:])
			d += n
			continue
		}
		// What is copied may overlap: then it repeats.
		for from, end := d-offset, d+n; d < end; {
			d += copy(dst[d:end], dst[from:d])
		}
	}
	return true
}

// littleEndian decodes n bytes, of which b has as many.
func littleEndian(b []byte, n int) int {
	v := 0
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | int(b[i])
	}
	return v
}
