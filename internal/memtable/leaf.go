package memtable

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

// leaf holds links of the nodes between its lower bound and that of the next
// leaf, in no order but for the first ones. The links to the next leaf per
// level follow it, and then the entries up to the end of its last line.
type leaf struct {
	hash    uint64 // of the bound
	lead    uint64 // 8 bytes of the bound's id after agreed; of the first leaf: link of the tower, published
	bound   uint32 // link of the lowest node; 0: the first leaf of its bucket, which has no bound
	kin     uint32 // link of a node of the bound's logical partition, the same in most leaves of it
	count   uint32 // entries; published
	agreed  uint16 // bytes that the ids of bound and kin have in common
	ordered uint8  // entries at the beginning that are in key order
	shape   uint8  // lines in the lower half, levels in the upper
}

// tower is where the levels above the lowest of a bucket begin.
type tower struct {
	levels uint32 // in use; published
	next   [maxHeight - 1]uint32
}

const (
	leafBytes  = int(unsafe.Sizeof(leaf{}))
	leafLines  = 2 // of a leaf that splits; only the first of a bucket begins smaller
	towerBytes = lineBytes
	maxEntries = (leafLines*lineBytes - leafBytes - linkBytes) / linkBytes
	maxHeight  = 9 // levels of leaves; a quarter of the leaves of a level reach the next
)

func makeShape(lines, height int) uint8 { return uint8(lines | height<<4) }

func (l *leaf) lines() int  { return int(l.shape & 15) }
func (l *leaf) height() int { return int(l.shape >> 4) }

// next returns the link of the following leaf at a level below the height.
func (l *leaf) next(level int) *uint32 {
	return (*uint32)(unsafe.Add(unsafe.Pointer(l), leafBytes+linkBytes*level))
}

// entries returns the array of all entries, used or not.
func (l *leaf) entries() []uint32 {
	head := leafBytes + linkBytes*l.height()
	return unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(l), head)), (l.lines()*lineBytes-head)/linkBytes)
}

func (l *leaf) full() bool { return int(l.count) == len(l.entries()) }

// setBound makes the node at link the bound of l. kin is a node that may be of
// the same logical partition.
func (t *Table) setBound(l *leaf, link, kin uint32) {
	var k, of item.Key
	t.node(link).borrow(&k)
	if t.node(kin).comparePartition(&k) != 0 {
		kin = link
	}
	t.node(kin).borrow(&of)
	agreed := common(of.ID, k.ID)
	l.hash, l.lead = k.Hash, leading(k.ID[agreed:])
	l.bound, l.kin, l.agreed = link, kin, uint16(agreed)
}

// search is a key on its way through leaves. Most comparisons with bounds need
// the leaf alone: what the key has in common with their kin is kept.
type search struct {
	k      *item.Key // nil is after all keys
	kin    uint32    // node that the rest tells of, 0: none
	side   int       // order of the partitions of kin and k
	shared int       // bytes that the ids of kin and k have in common
	idSide int       // order of these ids
}

// compare orders the bound of l, which is not the first leaf, and the key.
func (s *search) compare(t *Table, l *leaf) int {
	k := s.k
	switch {
	case k == nil:
		return -1
	case l.hash < k.Hash:
		return -1
	case l.hash > k.Hash:
		return 1
	case l.kin != s.kin:
		s.meet(l.kin, t.node(l.kin))
	}
	agreed := int(l.agreed)
	switch {
	case s.side != 0:
		return s.side
	case s.shared < agreed: // where k leaves kin, the bound is still with it
		return s.idSide
	}
	switch lead := leading(k.ID[agreed:]); {
	case l.lead < lead:
		return -1
	case l.lead > lead:
		return 1
	}
	_, _, id := t.node(l.bound).parts()
	return bytes.Compare(id, k.ID)
}

func (s *search) meet(link uint32, kin *node) {
	s.kin = link
	if s.side = kin.comparePartition(s.k); s.side != 0 {
		return
	}
	_, _, id := kin.parts()
	s.shared = common(id, s.k.ID)
	s.idSide = bytes.Compare(id[s.shared:], s.k.ID[s.shared:])
}

// leading returns the first 8 bytes of b as an integer, zero-padded: where it
// differs between two strings of bytes it orders them.
func leading(b []byte) uint64 { return item.HashOf(b) }

// common returns the number of bytes that a and b begin with alike.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
