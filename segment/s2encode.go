package segment

import (
	"encoding/binary"
	"math/bits"
)

// Encoding of S2 blocks against a dictionary. The library clears a table of 64
// KiB for each block, which for a document of a KiB takes as long as the search
// itself; here the table is smaller and never cleared: an entry that does not
// carry the number of the block is of an earlier one. The time won goes into a
// second look at short matches, for fewer and longer copies.
//
// The search is the greedy one of Snappy (format_description.txt of that
// project): a hash of 6 bytes leads to where they were last in the block, else
// to where the dictionary has them. Where a match is short, the one that a hash
// of its end leads to may reach back over all of it, and is taken instead.

const (
	s2DictBits  = 14               // of hashes into a dictionary
	s2SeenBits  = 12               // of hashes into the block
	s2PosBits   = 15               // of a position in the block
	s2MaxEncode = 1<<s2PosBits - 1 // longest block
	s2Margin    = 12               // bytes before the end of a block at which nothing is looked for
	s2Short     = 12               // bytes of a match below which another look is taken
	s2Probes    = 3                // positions looked at before some are passed over
)

// s2Hash is a hash of n bits of the low 6 bytes of v.
func s2Hash(v uint64, n uint) uint64 { return v << 16 * 227718039650203 >> (64 - n) }

// s2Known leads from the hash of 6 bytes to where a dictionary has them last.
type s2Known [1 << s2DictBits]uint16

func newS2Known(dict []byte) *s2Known {
	var t s2Known
	for i := 0; i+8 <= len(dict); i++ {
		t[s2Hash(binary.LittleEndian.Uint64(dict[i:]), s2DictBits)] = uint16(i)
	}
	return &t
}

// s2Encoder encodes one block at a time against one dictionary.
type s2Encoder struct {
	dict  []byte
	known *s2Known
	seen  [1 << s2SeenBits]uint32 // block and position
	block uint32                  // number of the block, above the bits of a position
}

func newS2Encoder(d *Dictionary) *s2Encoder { return &s2Encoder{dict: d.bytes, known: d.known()} }

// encode returns the block of src, of at most s2MaxEncode bytes, in dst, whose
// capacity is at least s2.MaxEncodedLen.
func (e *s2Encoder) encode(dst, src []byte) []byte {
	if e.block += 1 << s2PosBits; e.block == 0 { // the numbers begin again
		clear(e.seen[:])
		e.block = 1 << s2PosBits
	}
	dict, known, block := e.dict, e.known, e.block
	dst = dst[:cap(dst)]
	d := binary.PutUvarint(dst, uint64(len(src)))
	emitted := 0        // of src
	offset := len(dict) // of the last copy
	limit := len(src) - s2Margin
	for s := 0; s < limit; {
		v := binary.LittleEndian.Uint64(src[s:])
		// The match: n bytes at at in src, and at from in within. The last
		// offset again, one byte on, is the cheapest.
		at, n, within, from := s+1, 0, src, s+1-offset
		if from < 0 {
			within, from = dict, from+len(dict)
		}
		again := from <= len(within)-4 && uint32(v>>8) == binary.LittleEndian.Uint32(within[from:])
		if again {
			n = common(src[at:], within[from:])
		}
		for i := 0; n == 0 && i < s2Probes; i++ {
			at = s + i
			seen := &e.seen[s2Hash(v, s2SeenBits)]
			entry := *seen
			*seen = block | uint32(at)
			if within, from = src, int(entry-block); entry < block || uint32(v) != binary.LittleEndian.Uint32(src[from:]) {
				within, from = dict, int(known[s2Hash(v, s2DictBits)])
				if uint32(v) != binary.LittleEndian.Uint32(dict[from:]) {
					v = binary.LittleEndian.Uint64(src[at+1:])
					continue
				}
			}
			n = common(src[at:], within[from:])
		}
		if n == 0 {
			s += s2Probes + (s-emitted)>>6
			continue
		}
		back := commonEnd(src[emitted:at], within[:from])
		at, from, n = at-back, from-back, n+back
		if end := at + n; n < s2Short && !again && end < limit {
			look := end - 3
			v := binary.LittleEndian.Uint64(src[look:])
			place := int(known[s2Hash(v, s2DictBits)])
			if uint32(v) == binary.LittleEndian.Uint32(dict[place:]) {
				if back := commonEnd(src[emitted:look], dict[:place]); look-back <= at {
					at, within, from = look-back, dict, place-back
					n = back + common(src[look:], dict[place:])
				}
			}
		}
		if at > emitted {
			d += putLiteral(dst[d:], src[emitted:at])
		}
		if again {
			d += putRepeat(dst[d:], n)
		} else {
			if offset = at - from; &within[0] == &dict[0] {
				offset += len(dict)
			}
			d += putCopy(dst[d:], offset, n)
		}
		s = at + n
		emitted = s
		if s < limit {
			e.seen[s2Hash(binary.LittleEndian.Uint64(src[s-2:]), s2SeenBits)] = block | uint32(s-2)
		}
	}
	if emitted < len(src) {
		d += putLiteral(dst[d:], src[emitted:])
	}
	return dst[:d]
}

// common returns how many bytes a and b begin with in common.
func common(a, b []byte) int {
	n := 0
	for b = b[:min(len(a), len(b))]; len(b)-n >= 8; n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// commonEnd returns how many bytes a and b end with in common.
func commonEnd(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// putLiteral writes b, of 1 to 64 Ki bytes, and returns the length.
func putLiteral(dst, b []byte) int {
	n := len(b) - 1
	switch {
	case n < 60:
		dst[0] = byte(n << 2)
		return 1 + copy(dst[1:], b)
	case n < 1<<8:
		dst[0], dst[1] = 60<<2, byte(n)
		return 2 + copy(dst[2:], b)
	}
	dst[0], dst[1], dst[2] = 61<<2, byte(n), byte(n>>8)
	return 3 + copy(dst[3:], b)
}

// putCopy writes a copy of length bytes, at least 4, from offset bytes before.
func putCopy(dst []byte, offset, length int) int {
	if offset < 1<<11 && (length < 12 || length > 64) {
		n := length
		if length > 64 {
			n = 8
		}
		dst[0], dst[1] = byte(offset>>8<<5|(n-4)<<2|1), byte(offset)
		if n == length {
			return 2
		}
		return 2 + putRepeat(dst[2:], length-n)
	}
	n := length
	if length > 64 {
		n = 60
	}
	dst[1], dst[2] = byte(offset), byte(offset>>8)
	size := 3
	if dst[0] = byte((n-1)<<2 | 2); offset >= 1<<16 {
		dst[0], dst[3], dst[4] = dst[0]|1, byte(offset>>16), 0
		size = 5
	}
	if n == length {
		return size
	}
	return size + putRepeat(dst[size:], length-n)
}

// putRepeat writes a copy of length bytes, at least 4, from the offset of the
// one before.
func putRepeat(dst []byte, length int) int {
	dst[1] = 0
	switch {
	case length <= 8:
		dst[0] = byte((length-4)<<2 | 1)
		return 2
	case length < 8+1<<8:
		dst[0], dst[2] = 5<<2|1, byte(length-8)
		return 3
	}
	length -= 4 + 1<<8
	dst[0], dst[2], dst[3] = 6<<2|1, byte(length), byte(length>>8)
	return 4
}
