package jsondoc

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
)

// smallObject is the number of members up to which an object's names are
// compared one by one.
const smallObject = 32

// keepNames is the number of names for which a scanner keeps memory.
const keepNames = 1 << 13

// The keys of the names' hash: secret, so that no document can be made in which
// many names collide.
var (
	hashSeed = rand.Uint64()
	hashMul  = rand.Uint64() | 1
)

// mix adds 8 bytes to a hash.
func mix(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w, hashMul)
	return hi ^ lo
}

// mixLast adds the last n bytes of a name, 0 to 7 of them, the low bytes of w.
func mixLast(h, w uint64, n int) uint64 {
	n8 := uint(n) * 8
	return mix(h, w&(1<<n8-1)|uint64(n)<<56)
}

// hashName returns the hash of an unescaped name.
func hashName(name []byte) uint64 {
	h, i := hashSeed, 0
	for ; i+8 <= len(name); i += 8 {
		h = mix(h, load(name, i))
	}
	return mixLast(h, load(name, i), len(name)-i)
}

// name is a member name of an object that is still open.
type name struct {
	hash   uint64
	offset int32 // in the document; -1-offset in the scanner's text if escaped
	length int32
}

// nameBytes returns the unescaped name.
func (s *Scanner) nameBytes(doc []byte, n *name) []byte {
	if n.offset < 0 {
		at := -1 - n.offset
		return s.text[at : at+n.length]
	}
	return doc[n.offset : n.offset+n.length]
}

func (s *Scanner) sameName(doc []byte, a, b *name) bool {
	return a.hash == b.hash && a.length == b.length && bytes.Equal(s.nameBytes(doc, a), s.nameBytes(doc, b))
}

// inSmall reports whether the last of the names of an object, names[first:], is
// among the others.
func (s *Scanner) inSmall(doc []byte, first, last int) bool {
	s.work += last - first
	n := &s.names[last]
	for i := first; i < last; i++ {
		if s.names[i].hash == n.hash && s.sameName(doc, &s.names[i], n) {
			return true
		}
	}
	return false
}

// inLarge is inSmall for an object of more than smallObject members. Its names
// are in the hash table s.table[at:]: indexes into s.names, plus one, by open
// addressing; a power of two of places, at most half of them taken. The tables
// of objects around it lie below. The first call for an object makes its table.
func (s *Scanner) inLarge(doc []byte, at, first, last int) bool {
	if size := len(s.table) - at; 2*(last+1-first) > size {
		s.growTable(at, max(2*size, 4*smallObject))
		for i := first; i < last; i++ {
			s.enter(doc, at, i)
		}
	}
	return s.enter(doc, at, last)
}

// growTable makes s.table[at:] an empty table of size places.
func (s *Scanner) growTable(at, size int) {
	if need := at + size; need > cap(s.table) {
		grown := make([]uint32, need, 2*need)
		copy(grown, s.table[:at])
		s.table = grown
	} else {
		s.table = s.table[:need]
	}
	clear(s.table[at:])
}

// enter adds a name to the table and reports whether it is there already.
func (s *Scanner) enter(doc []byte, at, i int) bool {
	table, n := s.table[at:], &s.names[i]
	mask := uint64(len(table) - 1)
	for place := n.hash & mask; ; place = (place + 1) & mask {
		s.work++
		switch taken := table[place]; {
		case taken == 0:
			table[place] = uint32(i) + 1
			return false
		case s.sameName(doc, &s.names[taken-1], n):
			return true
		}
	}
}
