package index

import (
	"encoding/binary"
	"math/bits"
)

// A container of more than denseContainer ordinals is a bitmap. The library makes it
// an array up to 4,096 ordinals. The array is smaller, but to join two of them takes
// 12 times as long, and to count one in a set 2.8 times (BenchmarkThin).
const denseContainer = 2048

// frozenWriter makes bitmaps in the frozen format, see frozen. It keeps its
// memory. The library takes 2 to 3 times as long (BenchmarkWriteBitmap), and knows no
// such denseContainer.
type frozenWriter struct {
	bitmaps, runs, arrays []byte
	keys, counts, types   []byte
	ordinals              []uint32
}

// append appends the bitmap of some rising ordinals.
func (w *frozenWriter) append(dst []byte, ordinals []uint32) []byte {
	w.begin()
	for len(ordinals) > 0 {
		key := ordinals[0] >> 16
		n := 1
		for n < len(ordinals) && ordinals[n]>>16 == key {
			n++
		}
		w.container(uint16(key), ordinals[:n])
		ordinals = ordinals[n:]
	}
	return w.finish(dst)
}

// appendSet appends the bitmap of a set whose range begins with 0.
func (w *frozenWriter) appendSet(dst []byte, s *Set) []byte {
	w.begin()
	for key, words := uint16(0), s.words; len(words) > 0; key++ {
		n := min(frozenWords, len(words))
		w.chunk(key, words[:n])
		words = words[n:]
	}
	return w.finish(dst)
}

func (w *frozenWriter) begin() {
	*w = frozenWriter{w.bitmaps[:0], w.runs[:0], w.arrays[:0], w.keys[:0], w.counts[:0], w.types[:0], w.ordinals}
}

// finish appends the containers.
func (w *frozenWriter) finish(dst []byte) []byte {
	for _, part := range [...][]byte{w.bitmaps, w.runs, w.arrays, w.keys, w.counts, w.types} {
		dst = append(dst, part...)
	}
	return binary.LittleEndian.AppendUint32(dst, frozenCookie|uint32(len(w.types))<<15)
}

// kindOf returns as what so many ordinals of a container are written, in so many runs: as what
// takes the fewest bytes, or the least time.
func kindOf(ordinals, runs int) byte {
	switch {
	case 4*runs < min(2*ordinals, 8*frozenWords):
		return frozenRuns
	case ordinals > denseContainer:
		return frozenBitmap
	}
	return frozenArray
}

// container adds the ordinals with a key.
func (w *frozenWriter) container(key uint16, ordinals []uint32) {
	le := binary.LittleEndian
	runs := 1
	for i := range ordinals[1:] {
		if ordinals[i+1] != ordinals[i]+1 {
			runs++
		}
	}
	kind := kindOf(len(ordinals), runs)
	switch kind {
	case frozenRuns:
		for i := 0; i < len(ordinals); {
			first := i
			for i++; i < len(ordinals) && ordinals[i] == ordinals[i-1]+1; i++ {
			}
			w.runs = le.AppendUint16(w.runs, uint16(ordinals[first]))
			w.runs = le.AppendUint16(w.runs, uint16(i-first-1))
		}
	case frozenBitmap:
		var held chunkBits
		for _, o := range ordinals {
			held[o>>6&(frozenWords-1)] |= 1 << (o & 63)
		}
		w.bitmap(held[:])
	case frozenArray:
		for _, o := range ordinals {
			w.arrays = le.AppendUint16(w.arrays, uint16(o))
		}
	}
	w.describe(key, kind, len(ordinals), runs)
}

// chunk adds the ordinals with a key whose bits are in words.
func (w *frozenWriter) chunk(key uint16, words []uint64) {
	n, runs, before := 0, 0, uint64(0) // the last bit of the word before
	for _, word := range words {
		n += bits.OnesCount64(word)
		runs += bits.OnesCount64(word &^ (word<<1 | before))
		before = word >> 63
	}
	switch {
	case n == 0:
	case kindOf(n, runs) == frozenBitmap:
		w.bitmap(words)
		w.describe(key, frozenBitmap, n, runs)
	default:
		w.ordinals = (&Set{words: words}).AppendTo(w.ordinals[:0])
		w.container(key, w.ordinals)
	}
}

// bitmap adds the words of a container, and zeros for those that are missing at its end.
func (w *frozenWriter) bitmap(words []uint64) {
	for _, word := range words {
		w.bitmaps = binary.LittleEndian.AppendUint64(w.bitmaps, word)
	}
	w.bitmaps = append(w.bitmaps, make([]byte, 8*(frozenWords-len(words)))...)
}

// describe ends a container.
func (w *frozenWriter) describe(key uint16, kind byte, ordinals, runs int) {
	count := ordinals - 1
	if kind == frozenRuns {
		count = runs
	}
	w.keys = binary.LittleEndian.AppendUint16(w.keys, key)
	w.counts = binary.LittleEndian.AppendUint16(w.counts, uint16(count))
	w.types = append(w.types, kind)
}
