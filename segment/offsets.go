package segment

import (
	"encoding/binary"
)

// The offsets section finds groups by index and by ordinal. It has a block of
// 64 bytes for each 16 groups, then the offsets of blocks that hold a group of
// 64 KiB or more:
//
//	0   8     offset of the first group in the file; bit 63: wide
//	8   4     ordinal of its first member
//	12  4     how high the sequences of their members reach: see sequences.go
//	16  16×2  lengths of the groups; if wide the first 8 bytes are the place
//	          of 16 offsets of 8 bytes each, from the section's start
//	48  16×1  members of the groups less one
const (
	blockLen    = 64
	blockGroups = 16
	blockWide   = 1 << 63
)

// offsetBuilder builds the section.
type offsetBuilder struct {
	blocks  []byte
	wide    []byte
	n       uint32   // groups so far
	items   uint32   // members so far
	highest []uint64 // sequence of each block
	last    [blockGroups]int64
	big     bool // the open block holds a group too long for 16 bits
}

func (o *offsetBuilder) add(off int64, length, members int, highest uint64) {
	le := binary.LittleEndian
	i := int(o.n % blockGroups)
	if i == 0 {
		o.finishBlock()
		o.blocks = append(o.blocks, make([]byte, blockLen)...)
		b := o.blocks[len(o.blocks)-blockLen:]
		le.PutUint64(b, uint64(off))
		le.PutUint32(b[8:], o.items)
		o.highest = append(o.highest, 0)
	}
	block := &o.highest[len(o.highest)-1]
	*block = max(*block, highest)
	b := o.blocks[len(o.blocks)-blockLen:]
	if length > 0xFFFF {
		o.big = true
	}
	le.PutUint16(b[16+2*i:], uint16(length))
	b[48+i] = byte(members - 1)
	o.last[i] = off
	o.n++
	o.items += uint32(members)
}

// finishBlock turns the last block into a wide one if it has a group that is too long
// for 16 bits.
func (o *offsetBuilder) finishBlock() {
	if !o.big {
		return
	}
	le := binary.LittleEndian
	b := o.blocks[len(o.blocks)-blockLen:]
	le.PutUint64(b, le.Uint64(b)|blockWide)
	clear(b[16:48])
	// The place is completed when the number of blocks is known.
	le.PutUint64(b[16:], uint64(len(o.wide)))
	n := (int(o.n)-1)%blockGroups + 1
	for i := range blockGroups {
		off := int64(0)
		if i < n {
			off = o.last[i]
		}
		o.wide = le.AppendUint64(o.wide, uint64(off))
	}
	o.big = false
}

func (o *offsetBuilder) size() int64 { return int64(len(o.blocks) + len(o.wide)) }

// finish completes the section: blocks, then wide.
func (o *offsetBuilder) finish(p *Properties) (blocks, wide []byte) {
	o.finishBlock()
	le := binary.LittleEndian
	for at := 0; at < len(o.blocks); at += blockLen {
		b := o.blocks[at:]
		le.PutUint32(b[12:], p.ceiling(o.highest[at/blockLen]))
		if le.Uint64(b)&blockWide != 0 {
			le.PutUint64(b[16:], le.Uint64(b[16:])+uint64(len(o.blocks)))
		}
	}
	return o.blocks, o.wide
}

// groupAt returns the offset and the first ordinal of a group.
func (r *Reader) groupAt(s *scratch, g uint32) (off int64, ordinal uint32, err error) {
	at := r.offsets.Off + int64(g/blockGroups)*blockLen
	b, err := r.table(s, at, blockLen)
	if err != nil {
		return 0, 0, err
	}
	off, ordinal, wide := blockEntry(b, int(g%blockGroups))
	if wide >= 0 {
		if wide > r.offsets.Len-8*blockGroups || wide < 0 {
			return 0, 0, r.corrupt(at, errEntry)
		}
		if b, err = r.table(s, r.offsets.Off+wide+8*int64(g%blockGroups), 8); err != nil {
			return 0, 0, err
		}
		off = int64(binary.LittleEndian.Uint64(b))
	}
	if off < r.groups.Off || off >= r.groups.end() || uint64(ordinal) >= r.props.Items {
		return 0, 0, r.corrupt(at, errEntry)
	}
	return off, ordinal, nil
}

// blockEntry decodes entry i of a block; wide is the place of the offsets in
// the section, -1 if the block is not wide.
func blockEntry(b []byte, i int) (off int64, ordinal uint32, wide int64) {
	le := binary.LittleEndian
	b = b[:blockLen]
	head := le.Uint64(b)
	ordinal = le.Uint32(b[8:])
	for j := range i {
		ordinal += uint32(b[48+j]) + 1
	}
	if head&blockWide != 0 {
		return 0, ordinal, int64(le.Uint64(b[16:]) & (1<<62 - 1))
	}
	off = int64(head)
	for j := range i {
		off += int64(le.Uint16(b[16+2*j:]))
	}
	return off, ordinal, -1
}

// groupIndex returns the index of the group at off.
func (r *Reader) groupIndex(s *scratch, off int64) (uint32, error) {
	g, at, err := r.groupBefore(s, off)
	if err == nil && at != off {
		err = r.corrupt(off, errEntry)
	}
	return g, err
}

// groupBefore returns the index and the offset of the last group that does not begin behind
// off, which lies in the groups.
func (r *Reader) groupBefore(s *scratch, off int64) (index uint32, at int64, err error) {
	lo, hi := uint32(0), uint32(r.props.Groups) // lo begins at or before off, hi after
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if mid-lo >= blockGroups {
			mid -= mid % blockGroups // the start of a block is cheap
		}
		if at, _, err = r.groupAt(s, mid); err != nil {
			return 0, 0, err
		}
		if at <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	at, _, err = r.groupAt(s, lo)
	return lo, at, err
}
