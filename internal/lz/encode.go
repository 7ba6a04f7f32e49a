package lz

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Encoding. The search is the greedy one of Snappy (format_description.txt
// of that project): a hash of 6 bytes leads to where they were last in the block, or
// else to where the dictionary has them. If a match is short, a hash of its end may lead
// to another match that reaches back over all of it. That one is taken instead.
//
// The table of positions in the block is seldom cleared: for a document of a KiB that
// would take as long as the search itself. An entry has the number of its block, since most
// are of earlier ones, and a tag, which is more bits of the hash. With both, the search finds
// nearly always what it looks for. The table of a large block is full of positions with the same
// hash and other bytes: a look at each would cost a mispredicted branch.

const (
	dictBits = 14                // of hashes into a dictionary
	seenBits = 12                // of hashes into the block
	posBits  = 15                // of a position in the block
	tagBits  = 8                 // of a tag
	tagged   = posBits + tagBits // of both, the low ones of an entry
	margin   = 12                // bytes before the end of a block at which no match is looked for
	short    = 12                // bytes of a match below which another one is looked for
	probes   = 3                 // positions looked at before some are skipped
	far      = 1<<16 - 1         // largest offset
	around   = 8                 // bytes before and behind the text that are looked at
)

// hash is a hash of n bits of the low 6 bytes of v.
func hash(v uint64, n uint) uint64 { return v << 16 * 227718039650203 >> (64 - n) }

// tag returns the tag of the low 6 bytes of v, at its place in an entry.
func tag(v uint64) uint32 { return uint32(hash(v, seenBits+tagged)) & (1<<tagged - 1<<posBits) }

// Positions leads from the hash of 6 bytes to where a dictionary has them last.
type Positions [1 << dictBits]uint16

// NewPositions returns the positions of a dictionary.
func NewPositions(dict []byte) *Positions {
	var t Positions
	for i := 0; i+8 <= len(dict); i++ {
		t[hash(binary.LittleEndian.Uint64(dict[i:]), dictBits)] = uint16(i)
	}
	return &t
}

// Encoder encodes one block at a time against one dictionary.
type Encoder struct {
	text  []byte // the dictionary, then the block; around bytes before and behind
	dict  int    // bytes of the dictionary
	known *Positions
	seen  [1 << seenBits]uint32 // entries: number of the block, tag, position
	block uint32                // number of the block, at its place in an entry
}

// NewEncoder returns an encoder against a dictionary, whose positions are known.
func NewEncoder(dict []byte, known *Positions) *Encoder {
	e := &Encoder{text: make([]byte, around+len(dict)+MaxRaw+around)[around:], dict: len(dict), known: known}
	copy(e.text, dict)
	return e
}

// Encode returns the block of src, of at most MaxRaw bytes, in dst, whose
// capacity is at least MaxLen(len(src)).
func (e *Encoder) Encode(dst, src []byte) []byte {
	if e.block += 1 << tagged; e.block == 0 { // the numbers begin again
		clear(e.seen[:])
		e.block = 1 << tagged
	}
	end := e.dict + copy(e.text[e.dict:], src)
	text := e.text[:end+around]
	dst = dst[:cap(dst)]
	d := binary.PutUvarint(dst, uint64(len(src)))
	limit := end - margin
	for s, emitted := e.dict, e.dict; ; {
		// The match: from at to s, offset bytes after what it repeats.
		at, from := e.find(text, s, emitted, limit)
		if at < 0 {
			if emitted < end {
				d += putPair(dst[d:], text[emitted:end], 0, 0)
			}
			return dst[:d]
		}
		offset := at - from
		s = e.ahead(text, at, offset)
		at = e.back(text, at, offset, emitted)
		if look := s - 3; s-at < short && s < limit {
			from := int(e.known[hash(load64(text, look), dictBits)])
			if other := look - from; other <= far && load32(text, from) == load32(text, look) {
				if begin := e.back(text, look, other, emitted); begin <= at {
					at, offset = begin, other
					s = e.ahead(text, look, offset)
				}
			}
		}
		d += putPair(dst[d:], text[emitted:at], offset, s-at)
		emitted = s
		if s < limit {
			v := load64(text, s-2)
			e.seen[hash(v, seenBits)] = e.block | tag(v) | uint32(s-2-e.dict)
		}
	}
}

// find returns the next position from s on whose 4 bytes occurred before, and where they
// did; -1 if there is none before limit. The longer ago the last match is, the more
// positions it skips.
func (e *Encoder) find(text []byte, s, emitted, limit int) (at, from int) {
	for ; s < limit; s += probes + (s-emitted)>>6 {
		for at := s; at < s+probes; at++ {
			v := load64(text, at)
			seen := &e.seen[hash(v, seenBits)]
			alike, there := e.block|tag(v), *seen
			*seen = alike | uint32(at-e.dict)
			if there>>posBits == alike>>posBits {
				if from := int(there-alike) + e.dict; load32(text, from) == uint32(v) {
					return at, from
				}
			}
			from := int(e.known[hash(v, dictBits)])
			if load32(text, from) == uint32(v) && at-from <= far {
				return at, from
			}
		}
	}
	return -1, 0
}

// ahead returns the end of the match whose 4 bytes at at are known to be equal.
func (e *Encoder) ahead(text []byte, at, offset int) int {
	stop := len(text) - around
	if from := at - offset; from < e.dict {
		stop = min(stop, e.dict+offset)
	}
	for n := at + 4; n < stop; n += 8 {
		if x := load64(text, n) ^ load64(text, n-offset); x != 0 {
			return min(n+bits.TrailingZeros64(x)/8, stop)
		}
	}
	return stop
}

// back returns the beginning of the match whose 4 bytes at at are known to be equal; low
// at the least.
func (e *Encoder) back(text []byte, at, offset, low int) int {
	if low = max(low, offset); at-offset >= e.dict {
		low = max(low, e.dict+offset)
	}
	for at > low {
		x := load64(text, at-8) ^ load64(text, at-8-offset)
		if x != 0 {
			return max(at-bits.LeadingZeros64(x)/8, low)
		}
		at -= 8
	}
	return low
}

// load64 returns the 8 bytes at i of b. They must lie in its capacity or, for a negative
// i, in the memory before it. That nothing is checked makes the search a sixth faster.
func load64(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

// load32 is load64 for 4 bytes.
func load32(b []byte, i int) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

// putPair writes literals and a match as one pair or more, and returns how many bytes it
// wrote. The match has length bytes, from offset bytes before; length 0: none. 4 bytes
// must be readable behind literals. putPair may write 4 bytes more than it returns.
func putPair(dst, literals []byte, offset, length int) int {
	if len(literals) <= narrowLiterals && uint(length-least) <= narrow-least {
		dst = dst[:3+4]
		binary.LittleEndian.PutUint32(dst, uint32((length-least)<<2|len(literals)|offset<<8))
		binary.LittleEndian.PutUint32(dst[3:], load32(literals, 0))
		return 3 + len(literals)
	}
	return putWide(dst, literals, offset, length)
}

// putWide is putPair for what is not a narrow pair.
func putWide(dst, literals []byte, offset, length int) (d int) {
	for len(literals)+length > 0 {
		l, n := min(len(literals), 1<<8-1), min(length, 1<<10-1)
		if l < len(literals) {
			n = 0
		}
		dst[d], dst[d+1], dst[d+2], dst[d+3], dst[d+4] = byte(wide<<2|n>>8), byte(offset), byte(offset>>8), byte(l), byte(n)
		d += 5 + copy(dst[d+5:], literals[:l])
		literals, length = literals[l:], length-n
	}
	return d
}
