package segment

import "encoding/binary"

// LZ blocks: the codec of documents that are compressed with a dictionary. The number of
// copies in a document, and of branches that are predicted wrong, decide how fast it is
// decoded. So a block consists of pairs of one form only, each for some 25 bytes of a
// document, and is decoded with hardly a branch (LZ77, with the fields of a pair at
// fixed places, after LZ4's description). S2 tells literals, near copies and far copies
// apart by a tag each, and takes three times as long against a dictionary
// (docs/performance.md).
//
//	block   = length of what it decodes to, varint │ pairs
//	pair    = tag 1 │ offset 2 │ wide: literals 1, low byte of the match 1 │ literals
//	tag       bits 0-1  number of literals            wide: bits 8-9 of the match
//	          bits 2-7  length of the match less 2    63: wide
//	wide      0 to 255 literals, then a match of 0 (none) to 1,023 bytes
//
// A match is copied from offset bytes before, 1 to 65,535. The dictionary lies before
// the block; a match that begins in the dictionary does not reach beyond its end.

const (
	lzWide     = 63                   // tag of a wide pair, above its lowest two bits
	lzLeast    = 2                    // shortest match of a narrow pair
	lzNarrow   = lzWide - 1 + lzLeast // longest match of a narrow pair
	lzLits     = 3                    // most literals of a narrow pair
	lzSpare    = lzNarrow             // bytes behind a dictionary that may be read
	lzMaxRaw   = 1<<lzPosBits - 1     // longest block that is encoded
	lzMaxRatio = 1 << 8               // bytes that one byte of a block decodes to, at most
)

// lzMaxLen returns the greatest length of a block of n bytes: a match of 4 bytes after 4
// literals takes 9.
func lzMaxLen(n int) int { return n + n/8 + 16 }

// decodeLZ decodes the block src into dst, which has the length of all that it decodes
// to, until at least need bytes are there, and returns how many are. ok is false if the
// part that was read is malformed. The bytes of dst behind are undefined.
func decodeLZ(dst, src []byte, dict *Dictionary, need int) (n int, ok bool) {
	size, s := uvarint(src, 0)
	if s == 0 || size != uint64(len(dst)) {
		return 0, false
	}
	b := lzBlock{dst: dst, src: src, dict: dict.content(), s: s}
	for b.d < need {
		if lzPairs(&b, need); b.d < need && !b.pair() {
			return b.d, false
		}
	}
	return b.d, b.s <= len(src) && (need < len(dst) || b.s == len(src))
}

// lzBlock is a block being decoded. Behind a dictionary there are lzSpare bytes of
// capacity.
type lzBlock struct {
	dst, src, dict []byte
	d, s           int // bytes made and read
}

// pair decodes the next pair. It returns false if it is malformed.
func (b *lzBlock) pair() bool {
	if len(b.src)-b.s < 3 {
		return false
	}
	tag, offset := int(b.src[b.s]), int(binary.LittleEndian.Uint16(b.src[b.s+1:]))
	b.s += 3
	literals, match := tag&3, tag>>2+lzLeast
	if match > lzNarrow {
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
