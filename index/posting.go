package index

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"runtime"
	"slices"
)

// Kind is how a posting is stored.
type Kind uint8

// Kinds of postings.
const (
	Single Kind = iota // one ordinal
	Short              // differences as varints, fewer than largePosting of them
	Large              // a roaring bitmap in the frozen format
)

// String returns the name of the kind.
func (k Kind) String() string {
	if names := [...]string{"single", "short", "large"}; int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// largePosting is the number of ordinals from which on a posting is Large.
const largePosting = 512

// Posting is the set of ordinals that have a term. It points into the bytes of
// its index: it is valid as long as these are. The zero value is empty.
type Posting struct {
	r    *Reader
	n    uint32
	kind Kind
	one  uint32 // Single
	list []byte // Short
	at   int64  // of a Large one in the index; else of the block, for errors
	size int64  // bytes of a Large one
}

// Len returns the number of ordinals.
func (p *Posting) Len() int { return int(p.n) }

// Kind returns how the posting is stored.
func (p *Posting) Kind() Kind { return p.kind }

// Bytes returns the bytes that it takes, the term not counted.
func (p *Posting) Bytes() int64 {
	switch p.kind {
	case Short:
		return int64(len(p.list))
	case Large:
		return p.size
	}
	return int64(bits.Len32(p.one)+6) / 7
}

var (
	errPosting  = errors.New("posting: not a list of rising ordinals")
	errFrozen   = errors.New("posting: not a roaring bitmap in the frozen format")
	errOrdinal  = errors.New("posting: ordinal beyond the items of the file")
	errUnwanted = errors.New("posting: bitmap of another number of ordinals than the dictionary says")
)

// each calls visit with the ordinals, in order, of a posting that is not Large.
func (p *Posting) each(visit func(o uint32)) error {
	if p.kind == Single {
		if p.n > 0 {
			visit(p.one)
		}
		return nil
	}
	rest := p.list
	next := uint64(0)
	for range p.n {
		d, n := uvarint(rest)
		if n <= 0 {
			return p.r.corrupt(p.at, errPosting)
		}
		rest = rest[n:]
		if next += d; next >= uint64(p.r.info.Items) {
			return p.r.corrupt(p.at, errOrdinal)
		}
		visit(uint32(next))
		next++
	}
	if len(rest) > 0 {
		return p.r.corrupt(p.at, errPosting)
	}
	return nil
}

// AppendTo appends the ordinals to dst, in order.
func (p *Posting) AppendTo(dst []uint32) ([]uint32, error) {
	switch {
	case p.kind == Large:
		return p.appendLarge(dst)
	case p.kind == Short:
		return p.appendShort(dst)
	case p.n > 0:
		dst = append(dst, p.one)
	}
	return dst, nil
}

// appendShort is AppendTo for a list of varints, most of which have one or two bytes.
func (p *Posting) appendShort(dst []uint32) ([]uint32, error) {
	next, items := uint64(0), uint64(p.r.info.Items)
	b := p.list
	for range p.n {
		switch {
		case len(b) > 0 && b[0] < 0x80:
			next += uint64(b[0])
			b = b[1:]
		case len(b) > 1 && b[1] < 0x80:
			next += uint64(b[0]&0x7F) | uint64(b[1])<<7
			b = b[2:]
		default:
			d, n := binary.Uvarint(b)
			if n <= 0 {
				return dst, p.r.corrupt(p.at, errPosting)
			}
			next += d
			b = b[n:]
		}
		if next >= items {
			return dst, p.r.corrupt(p.at, errOrdinal)
		}
		dst = append(dst, uint32(next))
		next++
	}
	if len(b) > 0 {
		return dst, p.r.corrupt(p.at, errPosting)
	}
	return dst, nil
}

// appendLarge is AppendTo of a Large posting. The ordinals that it appends are checked,
// and so the contents of all containers.
func (p *Posting) appendLarge(dst []uint32) ([]uint32, error) {
	f, err := p.frozen()
	if err != nil {
		return dst, err
	}
	n, end := len(dst), len(dst)+int(p.n)
	if view := f.view(); view != nil {
		dst = slices.Grow(dst, int(p.n)+1) // one more shows that there are too many
		dst = dst[:n+view.ManyIterator().NextMany(dst[n:end+1])]
		runtime.KeepAlive(f.all)
	} else {
		dst = f.appendTo(dst)
	}
	switch {
	case len(dst) != end:
		return dst, p.r.corrupt(p.at, errUnwanted)
	case !rising(dst[n:]):
		return dst, p.r.corrupt(p.at, errPosting)
	case end > n && dst[end-1] >= p.r.info.Items:
		return dst, p.r.corrupt(p.at, errOrdinal)
	}
	return dst, nil
}

// rising says whether ordinals rise.
func rising(ordinals []uint32) bool {
	for i := 1; i < len(ordinals); i++ {
		if ordinals[i] <= ordinals[i-1] {
			return false
		}
	}
	return true
}

// AddTo adds the ordinals that lie in the range of s to it. Or of the library takes
// 1.2 to 9 times as long (BenchmarkAddTo).
func (p *Posting) AddTo(s *Set) error {
	if p.kind != Large {
		if p.kind == Single && p.n > 0 {
			s.Add(p.one)
			return nil
		}
		return p.each(s.Add)
	}
	f, err := p.frozen()
	if err != nil {
		return err
	}
	for f.nextIn(s.lo, s.hi) {
		base, words, whole := s.chunk(f.key)
		switch f.kind {
		case frozenBitmap:
			from, to := s.wordsOf(base)
			for i := from; i < to; i++ {
				words[i-from] |= f.word(i)
			}
			if !whole {
				s.trim()
			}
		case frozenArray:
			if whole {
				(*chunkBits)(words).add(f.data)
				continue
			}
			f.cut(base, s.lo, s.hi)
			for i := 0; i+1 < len(f.data); i += 2 {
				s.Add(base + uint32(binary.LittleEndian.Uint16(f.data[i:])))
			}
		case frozenRuns:
			for i := 0; i < len(f.data); i += 4 {
				from, to := f.run(i)
				s.AddRange(base+from, base+to)
			}
		}
	}
	return nil
}

// CountIn returns how many of the ordinals are in s.
func (p *Posting) CountIn(s *Set) (int, error) {
	switch {
	case p.kind == Short:
		return p.countShort(s)
	case p.kind == Single && p.n > 0 && s.Contains(p.one):
		return 1, nil
	case p.kind == Single:
		return 0, nil
	}
	count := 0
	f, err := p.frozen()
	if err != nil {
		return 0, err
	}
	for f.nextIn(s.lo, s.hi) {
		count += f.countIn(s)
	}
	return count, nil
}

// countOf is CountIn given the ordinals of s as a list too.
func (p *Posting) countOf(list []uint32, s *Set) (count int, err error) {
	if p.kind != Large {
		return p.CountIn(s)
	}
	f, err := p.frozen()
	if err != nil {
		return 0, err
	}
	for len(list) > 0 && f.nextIn(list[0], s.hi) {
		at, _ := slices.BinarySearch(list, uint32(f.key)<<16)
		list = list[at:]
		end, _ := slices.BinarySearch(list, uint32(f.key)<<16|0xFFFF)
		if end < len(list) && uint16(list[end]>>16) == f.key {
			end++
		}
		if f.kind != frozenRuns && end < len(f.data)/16 {
			for _, o := range list[:end] {
				if f.has(uint16(o)) {
					count++
				}
			}
		} else if end > 0 {
			count += f.countIn(s)
		}
		list = list[end:]
	}
	return count, nil
}

// countShort is CountIn for a list of varints, most of which have one or two bytes.
func (p *Posting) countShort(s *Set) (count int, err error) {
	next, items := uint64(0), uint64(p.r.info.Items)
	b := p.list
	for range p.n {
		switch {
		case len(b) > 1 && b[0] >= 0x80 && b[1] < 0x80:
			next += uint64(b[0]&0x7F) | uint64(b[1])<<7
			b = b[2:]
		default:
			d, n := uvarint(b)
			if n <= 0 {
				return 0, p.r.corrupt(p.at, errPosting)
			}
			next += d
			b = b[n:]
		}
		if next >= items {
			return 0, p.r.corrupt(p.at, errOrdinal)
		}
		if s.Contains(uint32(next)) {
			count++
		}
		next++
	}
	if len(b) > 0 {
		return 0, p.r.corrupt(p.at, errPosting)
	}
	return count, nil
}

// uvarint is binary.Uvarint with a short way for one byte.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
