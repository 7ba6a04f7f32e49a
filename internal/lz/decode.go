package lz

import "encoding/binary"

// Sizes of blocks and dictionaries.
const (
	Spare    = narrow         // bytes behind a dictionary that may be read
	MaxRaw   = 1<<posBits - 1 // longest block that is encoded
	MaxRatio = 1 << 8         // bytes that one byte of a block decodes to, at most
)

const (
	wide           = 63               // tag of a wide pair, above its lowest two bits
	least          = 2                // shortest match of a narrow pair
	narrow         = wide - 1 + least // longest match of a narrow pair
	narrowLiterals = 3                // most literals of a narrow pair
)

// MaxLen returns the greatest length of a block of n bytes: a match of 4 bytes after 4
// literals takes 9.
func MaxLen(n int) int { return n + n/8 + 16 }

// Decode decodes the block src into dst, which has the length of all that it decodes
// to, until at least need bytes are there, and returns how many are. ok is false if the
// part that was read is malformed. The bytes of dst behind are undefined. dict is empty
// or has Spare bytes of capacity behind its end.
func Decode(dst, src, dict []byte, need int) (n int, ok bool) {
	size, s := binary.Uvarint(src)
	if s <= 0 || size != uint64(len(dst)) {
		return 0, false
	}
	b := block{dst: dst, src: src, dict: dict, s: s}
	for b.d < need {
		if pairs(&b, need); b.d < need && !b.pair() {
			return b.d, false
		}
	}
	return b.d, b.s <= len(src) && (need < len(dst) || b.s == len(src))
}

// block is a block being decoded. Behind a dictionary there are Spare bytes of
// capacity.
type block struct {
	dst, src, dict []byte
	d, s           int // bytes made and read
}

// pair decodes the next pair. It returns false if it is malformed.
func (b *block) pair() bool {
	if len(b.src)-b.s < 3 {
		return false
	}
	tag, offset := int(b.src[b.s]), int(binary.LittleEndian.Uint16(b.src[b.s+1:]))
	b.s += 3
	literals, match := tag&3, tag>>2+least
	if match > narrow {
		if len(b.src)-b.s < 2 {
			return false
		}
		literals, match = int(b.src[b.s]), tag&3<<8|int(b.src[b.s+1])
		b.s += 2
	}
	if literals > len(b.src)-b.s || literals+match > len(b.dst)-b.d {
		return false
	}
	b.d += copy(b.dst[b.d:], b.src[b.s:b.s+literals])
	b.s += literals
	if match == 0 {
		return true
	}
	end := b.d + match
	if !copyMatch(b.dst[:end], b.d, offset, b.dict) {
		return false
	}
	b.d = end
	return true
}

// copyMatch fills dst from at on with the bytes that lie offset before; dict lies before
// dst. It returns false if there are none, or if they are neither all in dict nor all in
// dst.
func copyMatch(dst []byte, at, offset int, dict []byte) bool {
	from := at - offset
	if offset <= 0 || from < -len(dict) || from < 0 && len(dst) > offset {
		return false
	}
	if from < 0 {
		copy(dst[at:], dict[len(dict)+from:])
		return true
	}
	for at < len(dst) {
		at += copy(dst[at:], dst[from:at]) // as much of a period as there is
	}
	return true
}
