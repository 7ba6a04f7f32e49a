package index

import "encoding/binary"

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
}

// append appends the bitmap of some rising ordinals.
func (w *frozenWriter) append(dst []byte, ordinals []uint32) []byte {
	*w = frozenWriter{w.bitmaps[:0], w.runs[:0], w.arrays[:0], w.keys[:0], w.counts[:0], w.types[:0]}
	for len(ordinals) > 0 {
		key := ordinals[0] >> 16
		n := 1
		for n < len(ordinals) && ordinals[n]>>16 == key {
			n++
		}
		w.container(uint16(key), ordinals[:n])
		ordinals = ordinals[n:]
	}
	for _, part := range [...][]byte{w.bitmaps, w.runs, w.arrays, w.keys, w.counts, w.types} {
		dst = append(dst, part...)
	}
	return binary.LittleEndian.AppendUint32(dst, frozenCookie|uint32(len(w.types))<<15)
}

// container adds the ordinals with a key, as what takes the fewest bytes, or the
// least time.
func (w *frozenWriter) container(key uint16, ordinals []uint32) {
	le := binary.LittleEndian
	runs := 1
	for i := range ordinals[1:] {
		if ordinals[i+1] != ordinals[i]+1 {
			runs++
		}
	}
	w.keys = le.AppendUint16(w.keys, key)
	count, kind := len(ordinals)-1, byte(frozenArray)
	switch {
	case 4*runs < min(2*len(ordinals), 8*frozenWords):
		count, kind = runs, frozenRuns
		for i := 0; i < len(ordinals); {
			first := i
			for i++; i < len(ordinals) && ordinals[i] == ordinals[i-1]+1; i++ {
			}
			w.runs = le.AppendUint16(w.runs, uint16(ordinals[first]))
			w.runs = le.AppendUint16(w.runs, uint16(i-first-1))
		}
	case len(ordinals) > denseContainer:
		kind = frozenBitmap
		var held chunkBits
		for _, o := range ordinals {
			held[o>>6&(frozenWords-1)] |= 1 << (o & 63)
		}
		for _, word := range held {
			w.bitmaps = le.AppendUint64(w.bitmaps, word)
		}
	default:
		for _, o := range ordinals {
			w.arrays = le.AppendUint16(w.arrays, uint16(o))
		}
	}
	w.counts = le.AppendUint16(w.counts, uint16(count))
	w.types = append(w.types, kind)
}
