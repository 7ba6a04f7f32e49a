package lz

import "encoding/binary"

// The beginning of an S2 block. A search among groups looks only at the keys of their
// first members, which mostly lie at the front of the payload. To decode only them takes
// a fifteenth of the time.
//
// A block is its length and a sequence of elements. The low two bits of the
// first byte of an element, the tag, say what it is: bytes that follow (0), or a
// copy of earlier output at an offset of 11 (1), 16 (2) or 32 bits (3). Offset 0
// in the first form repeats the last offset. Offsets that reach before the
// output reach into the dictionary, which lies before it; a copy that begins
// there does not reach beyond its end.

// DecodeS2 decodes the block src into dst, which has the length of all that it decodes
// to, until at least need bytes are there, and returns how many are. ok is false if the
// part that was read is malformed.
func DecodeS2(dst, src, dict []byte, need int) (n int, ok bool) {
	size, s := binary.Uvarint(src)
	if s <= 0 || s > 5 || size != uint64(len(dst)) {
		return 0, false
	}
	b := s2Block{dst: dst, src: src, s: s, dict: dict, offset: len(dict)}
	for b.d < need {
		if !b.element() {
			return b.d, false
		}
	}
	return b.d, need < len(dst) || b.s == len(src)
}

// s2Block is a block being decoded.
type s2Block struct {
	dst, src, dict []byte
	d, s           int // bytes made and read
	offset         int // of the last copy
}

// element decodes the next element. It returns false if it is malformed.
func (b *s2Block) element() bool {
	if b.s >= len(b.src) {
		return false
	}
	tag := b.src[b.s]
	b.s++
	length, word, ok := int(tag>>2)+1, 0, true
	switch tag & 3 {
	case 0:
		if length > 60 {
			length, ok = b.integer(length - 60)
			length++
		}
		if !ok || length <= 0 || length > len(b.src)-b.s || length > len(b.dst)-b.d {
			return false
		}
		b.d += copy(b.dst[b.d:], b.src[b.s:b.s+length])
		b.s += length
		return true
	case 1:
		length = 4 + int(tag>>2&7)
		word, ok = b.integer(1)
		word |= int(tag>>5) << 8
		if word == 0 && ok {
			word = b.offset
			if extra := length - 8; extra > 0 {
				length, ok = b.integer(extra)
				length += [...]int{1: 8, 2: 260, 3: 65540}[extra]
			}
		}
	case 2:
		word, ok = b.integer(2)
	case 3:
		word, ok = b.integer(4)
	}
	if !ok || length > len(b.dst)-b.d {
		return false
	}
	end := b.d + length
	if !copyMatch(b.dst[:end], b.d, word, b.dict) {
		return false
	}
	b.offset, b.d = word, end
	return true
}

// integer reads an integer of n bytes, 1 to 4.
func (b *s2Block) integer(n int) (v int, ok bool) {
	if n > len(b.src)-b.s {
		return 0, false
	}
	if n == 2 {
		v = int(binary.LittleEndian.Uint16(b.src[b.s:]))
	} else {
		for i := range n {
			v |= int(b.src[b.s+i]) << (8 * i)
		}
	}
	b.s += n
	return v, true
}
