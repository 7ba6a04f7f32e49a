package index

import (
	"encoding/binary"
	"fmt"
)

// Sizes of the parts of an index.
const (
	blockBytes   = 4 << 10 // at which a block ends
	trailerLen   = 128
	fenceLen     = 16
	frozenAlign  = 32
	maxTermBytes = maxPath + 3 + cutString
	// A block has the longest term, with the longest list, after what is less than blockBytes.
	maxBlockBytes = blockBytes - 1 + 3*binary.MaxVarintLen32 + maxTermBytes + largePosting*binary.MaxVarintLen32
	magic         = "CLVINDEX"

	// FormatVersion is the version of the format that is written.
	FormatVersion = 1
	// MaxItems bounds the number of versions of a file.
	MaxItems = 1<<32 - 1<<16
)

// writer writes an index, from front to back, to emit. It holds the open block,
// a posting, and the fences, which are a hundredth of what it writes.
type writer struct {
	emit  func([]byte) error
	off   int64 // bytes emitted
	block []byte
	last  []byte // newest term
	fence struct {
		keys  []byte
		table []byte
	}
	begun    bool // the block has a term
	info     Info
	frozen   frozenWriter
	scratch  []byte
	ordinals []uint32
}

func newWriter(emit func([]byte) error) *writer {
	return &writer{emit: emit}
}

func (w *writer) write(b []byte) error {
	w.off += int64(len(b))
	return w.emit(b)
}

// add appends a term, which must sort after the one before, with the rising
// ordinals that have it.
func (w *writer) add(key []byte, ordinals []uint32) error {
	n := len(ordinals)
	if n == 0 {
		return nil
	}
	if err := w.term(key, n); err != nil {
		return err
	}
	switch {
	case n == 1:
		w.info.Singles++
		w.block = binary.AppendUvarint(w.block, uint64(ordinals[0]))
	case n < largePosting:
		w.info.Shorts++
		list := w.scratch[:0]
		next := uint32(0)
		for _, o := range ordinals {
			list = appendUvarint(list, uint64(o-next))
			next = o + 1
		}
		w.scratch = list
		w.info.ShortBytes += int64(len(list))
		w.block = append(binary.AppendUvarint(w.block, uint64(len(list))), list...)
	default:
		return w.large(w.frozen.append(w.scratch[:0], ordinals))
	}
	return nil
}

// addSet is add for the ordinals of a set, whose range begins with 0.
func (w *writer) addSet(key []byte, s *Set) error {
	n := s.Count()
	if n < largePosting {
		w.ordinals = s.AppendTo(w.ordinals[:0])
		return w.add(key, w.ordinals)
	}
	if err := w.term(key, n); err != nil {
		return err
	}
	return w.large(w.frozen.appendSet(w.scratch[:0], s))
}

// term appends a term that n ordinals have, which follow. It may end the block before it.
func (w *writer) term(key []byte, n int) error {
	if len(key) > maxTermBytes || len(w.last) > 0 && string(key) <= string(w.last) {
		return fmt.Errorf("index: term of %d bytes out of order", len(key))
	}
	if w.begun && len(w.block) >= blockBytes {
		if err := w.finishBlock(); err != nil {
			return err
		}
	}
	shared := 0
	if !w.begun {
		w.begin(key)
	} else {
		shared = sharedPrefix(w.last, key)
	}
	b := w.block
	b = appendUvarint(b, uint64(shared))
	b = appendUvarint(b, uint64(len(key)-shared))
	b = append(b, key[shared:]...)
	w.block = appendUvarint(b, uint64(n))
	w.last = append(w.last[:0], key...)
	w.info.Terms++
	w.info.Postings += int64(n)
	return nil
}

// appendUvarint is binary.AppendUvarint with a short way for one byte and for two.
func appendUvarint(b []byte, x uint64) []byte {
	switch {
	case x < 1<<7:
		return append(b, byte(x))
	case x < 1<<14:
		return append(b, byte(x)|0x80, byte(x>>7))
	}
	return binary.AppendUvarint(b, x)
}

// large writes a bitmap, and appends to the term where it lies.
func (w *writer) large(bitmap []byte) error {
	w.scratch = bitmap
	if pad := -w.off & (frozenAlign - 1); pad > 0 {
		var zeros [frozenAlign]byte
		if err := w.write(zeros[:pad]); err != nil {
			return err
		}
	}
	w.info.Larges++
	w.info.LargeBytes += int64(len(bitmap))
	w.block = binary.AppendUvarint(w.block, uint64(w.off/frozenAlign))
	w.block = binary.AppendUvarint(w.block, uint64(len(bitmap)))
	return w.write(bitmap)
}

// begin begins a block. Its fence is the shortest key that lies after the last
// term of the block before.
func (w *writer) begin(key []byte) {
	w.begun = true
	n := min(sharedPrefix(w.last, key)+1, len(key))
	w.fence.keys = append(w.fence.keys, key[:n]...)
}

func (w *writer) finishBlock() error {
	le := binary.LittleEndian
	w.fence.table = le.AppendUint64(w.fence.table, uint64(w.off))
	w.fence.table = le.AppendUint32(w.fence.table, uint32(len(w.block)))
	w.fence.table = le.AppendUint32(w.fence.table, uint32(len(w.fence.keys)))
	err := w.write(w.block)
	w.block, w.begun = w.block[:0], false
	return err
}

// notesWritten is in the trailer of an index that has times of writing.
const notesWritten = 1

// finish writes what follows the blocks.
func (w *writer) finish(items uint32, c *Compiled, written bool) error {
	if w.begun {
		if err := w.finishBlock(); err != nil {
			return err
		}
	}
	policy, err := encodePolicy(c)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	keys := w.off
	if err := w.write(w.fence.keys); err != nil {
		return err
	}
	table := w.off
	if err := w.write(w.fence.table); err != nil {
		return err
	}
	text := w.off
	if err := w.write(policy); err != nil {
		return err
	}
	i := &w.info
	t := make([]byte, 0, trailerLen)
	t = append(t, magic...)
	t = le.AppendUint32(t, FormatVersion)
	t = le.AppendUint32(t, items)
	t = le.AppendUint64(t, c.Fingerprint())
	for _, n := range [...]int64{i.Terms, i.Postings, keys, table, text, i.Singles, i.Shorts, i.ShortBytes, i.Larges, i.LargeBytes} {
		t = le.AppendUint64(t, uint64(n))
	}
	if written {
		t = append(t, notesWritten)
	}
	return w.write(append(t, make([]byte, trailerLen-len(t))...))
}

// sharedPrefix returns how many bytes a and b begin with have in common.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
