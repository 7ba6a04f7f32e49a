package index

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
)

// Source is where the bytes of an index lie. All that it gives was verified
// against a checksum. It is safe for concurrent use.
type Source interface {
	// Size returns the number of bytes.
	Size() int64
	// View returns n bytes at off, 0 <= off, n and off+n <= Size. They may be
	// mapped memory: valid as long as the file is open, and touched only under a
	// guard against memory faults.
	View(off, n int64) ([]byte, error)
	// Corrupt returns the error for damage at off.
	Corrupt(off int64, cause error) error
}

// Memory is an index in memory.
type Memory []byte

// Size implements Source.
func (m Memory) Size() int64 { return int64(len(m)) }

// View implements Source.
func (m Memory) View(off, n int64) ([]byte, error) { return m[off : off+n : off+n], nil }

// Corrupt implements Source.
func (m Memory) Corrupt(off int64, cause error) error {
	return fault.Corrupt("memory", off, "%w", cause)
}

// Info describes an index.
type Info struct {
	FormatVersion uint32
	Items         uint32 // versions of its file
	Fingerprint   uint64 // of the policy
	Terms         int64
	Postings      int64 // ordinals of all terms
	Singles       int64 // terms with one ordinal
	Shorts        int64 // terms with a list of varints
	ShortBytes    int64 // of these lists
	Larges        int64 // terms with a roaring bitmap
	LargeBytes    int64 // of these
	Blocks        int
	BlockBytes    int64 // of the dictionary, Singles and Shorts in it
	FenceBytes    int64 // of what finds the blocks
	Bytes         int64 // of all
}

// Reader reads an index. It is safe for concurrent use. Its methods and those of
// its cursors and postings touch what the source gives: they are called under
// its guard and while it is open.
//
// Errors are those of the source, and its Corrupt for bytes that do not decode.
type Reader struct {
	src    Source
	info   Info
	keys   int64 // of the fences
	table  int64
	policy int64 // its text
	plain  atomic.Uint32
	notes  byte // notesWritten, or 0
}

// Values of Reader.plain.
const (
	plainUnknown = iota
	plainYes
	plainNo
)

// Plain says that no version of the file is a tombstone, follows a newer one of
// its key, or expires, and that none has the term of its time of writing.
func (r *Reader) Plain() (bool, error) {
	if p := r.plain.Load(); p != plainUnknown {
		return p == plainYes, nil
	}
	some, err := r.Some(Span{From: []byte{termVersions}, To: []byte{termVersions + 1}})
	switch {
	case err != nil:
		return false, err
	case some:
		r.plain.Store(plainNo)
	default:
		r.plain.Store(plainYes)
	}
	return !some, nil
}

// Some says whether a span has a term.
func (r *Reader) Some(s Span) (bool, error) {
	err := r.each(context.Background(), s, func(*Posting) error { return errSome })
	if err == errSome {
		return true, nil
	}
	return false, err
}

var (
	errSome    = errors.New("index: there is a term") // ends a walk over a span
	errTrailer = errors.New("index: bad trailer")
	errFence   = errors.New("index: fence points outside of the blocks")
	errBlock   = errors.New("index: block does not decode")
)

// Open reads the trailer of an index and checks it.
func Open(src Source) (*Reader, error) {
	r := &Reader{src: src}
	size := src.Size()
	if size < trailerLen {
		return nil, src.Corrupt(0, errTrailer)
	}
	at := size - trailerLen
	b, err := src.View(at, trailerLen)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if string(b[:8]) != magic {
		return nil, src.Corrupt(at, errTrailer)
	}
	if v := le.Uint32(b[8:]); v != FormatVersion {
		if v == 0 {
			return nil, src.Corrupt(at, errTrailer)
		}
		return nil, fmt.Errorf("index of format %d: %w", v, fault.ErrTooNew)
	}
	i := &r.info
	n := func(k int) int64 { return int64(le.Uint64(b[24+8*k:])) }
	*i = Info{
		FormatVersion: FormatVersion, Items: le.Uint32(b[12:]), Fingerprint: le.Uint64(b[16:]), Bytes: size,
		Terms: n(0), Postings: n(1), Singles: n(5), Shorts: n(6), ShortBytes: n(7), Larges: n(8), LargeBytes: n(9),
	}
	r.keys, r.table, r.policy, r.notes = n(2), n(3), n(4), b[24+8*10]
	fences := r.policy - r.table
	if i.Items > MaxItems || r.keys < 0 || r.keys > r.table || r.table > r.policy || r.policy > at || fences%fenceLen != 0 {
		return nil, src.Corrupt(at, errTrailer)
	}
	for k := range 10 {
		if n(k) < 0 || k > 4 && n(k) > size {
			return nil, src.Corrupt(at, errTrailer)
		}
	}
	i.Blocks = int(fences / fenceLen)
	i.FenceBytes = r.policy - r.keys
	i.BlockBytes = r.keys - i.LargeBytes // and padding
	if i.Terms > 0 == (i.Blocks == 0) || i.Terms > size || i.Postings > i.Terms*int64(i.Items) && i.Items < 1<<24 || i.BlockBytes < 0 {
		return nil, src.Corrupt(at, errTrailer)
	}
	return r, nil
}

// NotesWritten says that the index has the terms of Written.
func (r *Reader) NotesWritten() bool { return r.notes == notesWritten }

// Info describes the index.
func (r *Reader) Info() Info { return r.info }

// Policy returns the policy that the index was made for.
func (r *Reader) Policy() (Policy, error) {
	b, err := r.view(r.policy, r.info.Bytes-trailerLen-r.policy)
	if err != nil {
		return Policy{}, err
	}
	var p Policy
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Policy{}, r.corrupt(r.policy, fmt.Errorf("index: policy: %w", err))
	}
	return p, nil
}

func encodePolicy(c *Compiled) ([]byte, error) {
	b, err := json.Marshal(c.policy)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return b, nil
}

// Corrupt returns the error for a term, with this posting, that does not decode.
func (r *Reader) Corrupt(p *Posting) error { return r.corrupt(p.at, errBlock) }

func (r *Reader) corrupt(off int64, cause error) error { return r.src.Corrupt(off, cause) }

// view returns bytes that must lie in the index.
func (r *Reader) view(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || n > r.info.Bytes-off {
		return nil, r.corrupt(max(0, min(off, r.info.Bytes)), errFence)
	}
	if n == 0 {
		return nil, nil
	}
	return r.src.View(off, n)
}

// fence is what finds a block.
type fence struct {
	off  int64 // of the block
	size int64
	low  int64  // end of the block before: between them lie the bitmaps of the block
	key  []byte // no term of the block lies before it, none of the block before after it
}

// fence reads fence i.
func (r *Reader) fence(i int) (f fence, err error) {
	at, n := r.table+fenceLen*int64(i), int64(fenceLen)
	from := int64(0)
	if i > 0 {
		at, n = at-fenceLen, 2*fenceLen
	}
	b, err := r.view(at, n)
	if err != nil {
		return f, err
	}
	le := binary.LittleEndian
	if i > 0 {
		f.low, from = int64(le.Uint64(b))+int64(le.Uint32(b[8:])), int64(le.Uint32(b[12:]))
		b = b[fenceLen:]
	}
	f.off, f.size = int64(le.Uint64(b)), int64(le.Uint32(b[8:]))
	to := int64(le.Uint32(b[12:]))
	if f.low < 0 || f.off < f.low || f.size == 0 || f.size > maxBlockBytes || f.off > r.keys-f.size || to < from || to > r.table-r.keys || to-from > maxTermBytes {
		return f, r.corrupt(at, errFence)
	}
	f.key, err = r.view(r.keys+from, to-from)
	return f, err
}

// find returns the last block whose fence is not above key, the first one if all
// are; -1: there is none.
func (r *Reader) find(key []byte) (int, error) {
	lo, hi := 0, r.info.Blocks
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		f, err := r.fence(mid)
		if err != nil {
			return 0, err
		}
		if string(f.key) <= string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if r.info.Blocks == 0 {
		return -1, nil
	}
	return max(0, lo-1), nil
}

// block is a block being read: one term after the other.
type block struct {
	r      *Reader
	off    int64 // in the index
	low    int64 // end of the bitmap before, or of the block before
	b      []byte
	pos    int
	shared int    // bytes of the term that are those of the one before
	rest   []byte // bytes of the term that follow
	p      Posting
}

func (r *Reader) openBlock(i int) (b block, err error) {
	f, err := r.fence(i)
	if err != nil {
		return b, err
	}
	return r.blockAt(&f)
}

func (r *Reader) blockAt(f *fence) (b block, err error) {
	b = block{r: r, off: f.off, low: f.low}
	b.b, err = r.view(f.off, f.size)
	return b, err
}

// next reads the next term; false: there is none, or err is set.
func (b *block) next() (bool, error) {
	rest := b.b[b.pos:]
	if len(rest) == 0 {
		return false, nil
	}
	shared, n1 := uvarint(rest)
	if n1 <= 0 {
		return false, b.corrupt()
	}
	size, n2 := uvarint(rest[n1:])
	n1 += n2
	if n2 <= 0 || shared > maxTermBytes || size > uint64(len(rest)-n1) || size > maxTermBytes-shared {
		return false, b.corrupt()
	}
	b.shared, b.rest = int(shared), rest[n1:n1+int(size)]
	n1 += int(size)
	n, n2 := uvarint(rest[n1:])
	n1 += n2
	if n2 <= 0 || n == 0 || n > uint64(b.r.info.Items) {
		return false, b.corrupt()
	}
	a, n2 := uvarint(rest[n1:])
	n1 += n2
	if n2 <= 0 {
		return false, b.corrupt()
	}
	p := &b.p
	switch {
	case n == 1:
		if a >= uint64(b.r.info.Items) {
			return false, b.corrupt()
		}
		*p = Posting{r: b.r, n: 1, one: uint32(a), at: b.off}
	case n < largePosting:
		if a > uint64(len(rest)-n1) || a < n {
			return false, b.corrupt()
		}
		*p = Posting{r: b.r, n: uint32(n), kind: Short, list: rest[n1 : n1+int(a)], at: b.off}
		n1 += int(a)
	default:
		s, n2 := uvarint(rest[n1:])
		n1 += n2
		if n2 <= 0 || a > uint64(b.off)/frozenAlign || int64(a)*frozenAlign < b.low || s > uint64(b.off)-a*frozenAlign {
			return false, b.corrupt()
		}
		b.low = int64(a)*frozenAlign + int64(s)
		*p = Posting{r: b.r, n: uint32(n), kind: Large, at: int64(a) * frozenAlign, size: int64(s)}
	}
	b.pos += n1
	return true, nil
}

// after says whether the term may come after last, the one before it, of which it has b.shared bytes,
// and the next not.
func (b *block) after(last []byte) bool {
	return len(b.rest) > 0 && (b.shared == len(last) || b.shared < len(last) && b.rest[0] > last[b.shared])
}

// pass goes past the next terms that have more than so many bytes in common with
// the one before, without looking at them. Where lengths are unusual, or wrong,
// it leaves the term to next.
func (b *block) pass(same int) {
	text := b.b
	for at := b.pos; at+1 < len(text) && int(text[at]) > same && text[at]|text[at+1] < 0x80; b.pos = at {
		n, i := smallUvarint(text, at+2+int(text[at+1]))
		size, i := smallUvarint(text, i)
		switch {
		case n <= 1:
		case n < largePosting:
			if i += size; i > len(text) {
				return
			}
		default:
			_, i = smallUvarint(text, i)
		}
		if n == 0 || i <= at || i > len(text) {
			return
		}
		at = i
	}
}

// smallUvarint reads a varint of up to four bytes and returns the offset after
// it, which lies beyond the text if there is none.
func smallUvarint(text []byte, at int) (v, after int) {
	for shift := 0; at < len(text) && shift < 28; shift += 7 {
		c := text[at]
		at++
		v |= int(c&0x7F) << shift
		if c < 0x80 {
			return v, at
		}
	}
	return 0, len(text) + 1
}

func (b *block) corrupt() error { return b.r.corrupt(b.off, errBlock) }

// Lookup returns the posting of a term, as Span.From of Equal gives it; false:
// no document has it.
func (r *Reader) Lookup(key []byte) (Posting, bool, error) {
	i, err := r.find(key)
	if i < 0 || err != nil {
		return Posting{}, false, err
	}
	b, err := r.openBlock(i)
	if err != nil {
		return Posting{}, false, err
	}
	// same is how many bytes the term at hand, which lies before key, has in
	// common with it.
	same := 0
	for {
		b.pass(same)
		ok, err := b.next()
		if !ok || err != nil {
			return Posting{}, false, err
		}
		if b.shared > same {
			continue // as the one before, it differs from key at same
		}
		if b.shared < same {
			return Posting{}, false, nil // beyond key
		}
		want := key[same:]
		n := sharedPrefix(b.rest, want)
		switch {
		case n == len(b.rest) && n == len(want):
			return b.p, true, nil
		case n == len(want), n < len(b.rest) && b.rest[n] > want[n]:
			return Posting{}, false, nil
		}
		same += n
	}
}
