package segment

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// The table of logical partitions has an entry for each, in key order:
//
//	section   = header (64) | directory | padding to 64 | entries
//	header    = entries 4 | slots of the directory 4 | shift 4 | length of an
//	            entry 4 | hash of the first entry 8 | zero 40
//	directory = for each slot the first entry whose (hash - first hash) >> shift
//	            is not below the slot, 4 bytes each
//	entry     = first bytes of the EPK w | first ordinal 4 | group that holds
//	            it 4 | raw bytes of all partitions before 8
//
// w is 8 bytes for one level of the partition key, 24 for two, 40 for three. So entries
// sort as keys do, except those of partitions that agree in these bytes: their items
// tell them apart. Equal entries lie in key order.
const (
	partitionsHeader = 64
	entryTail        = 16
)

func prefixLen(levels int) int { return 16*levels - 8 }

// partitionBuilder builds the table.
type partitionBuilder struct {
	prefix  int
	hashes  []uint64
	entries []byte
}

func (p *partitionBuilder) add(epk []byte, hash uint64, ordinal, group uint32, rawBefore uint64) {
	le := binary.LittleEndian
	p.hashes = append(p.hashes, hash)
	p.entries = append(p.entries, epk[:p.prefix]...)
	p.entries = le.AppendUint32(p.entries, ordinal)
	p.entries = le.AppendUint32(p.entries, group)
	p.entries = le.AppendUint64(p.entries, rawBefore)
}

// size returns the bytes of the section as far as it is built.
func (p *partitionBuilder) size() int64 { return int64(len(p.entries)) + 64 }

// appendTo appends everything before the entries, which follow.
func (p *partitionBuilder) appendTo(dst []byte) []byte {
	n := len(p.hashes)
	low := p.hashes[0]
	span := p.hashes[n-1] - low
	shift := max(0, bits.Len64(span)-bits.Len(uint(n/8)))
	slots := int(span>>shift) + 1
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint32(dst, uint32(n))
	dst = le.AppendUint32(dst, uint32(slots))
	dst = le.AppendUint32(dst, uint32(shift))
	dst = le.AppendUint32(dst, uint32(p.prefix+entryTail))
	dst = le.AppendUint64(dst, low)
	dst = append(dst, make([]byte, partitionsHeader-24)...)
	at := 0
	for i := range slots {
		for at < n && int((p.hashes[at]-low)>>shift) < i {
			at++
		}
		dst = le.AppendUint32(dst, uint32(at))
	}
	for len(dst)-start != int(aligned(int64(len(dst)-start))) {
		dst = append(dst, 0)
	}
	return dst
}

// partitionTable is the decoded header of the table.
type partitionTable struct {
	n       int
	slots   uint64
	shift   uint
	low     uint64
	prefix  int
	dir     int64 // in the file
	entries int64 // in the file
}

// partitionEntry is one logical partition.
type partitionEntry struct {
	ordinal, group uint32
	rawBefore      uint64
}

func decodePartitions(file string, s Section, p *Properties, b []byte) (t partitionTable, err error) {
	if len(b) < partitionsHeader {
		return t, fault.Corrupt(file, s.Off, "partitions: no header")
	}
	le := binary.LittleEndian
	t = partitionTable{
		n: int(le.Uint32(b)), slots: uint64(le.Uint32(b[4:])), shift: uint(le.Uint32(b[8:])), low: le.Uint64(b[16:]),
		prefix: prefixLen(p.Levels), dir: s.Off + partitionsHeader,
	}
	t.entries = s.Off + aligned(partitionsHeader+4*int64(t.slots))
	if uint64(t.n) != p.LogicalPartitions || t.shift > 64 || t.slots == 0 || int(le.Uint32(b[12:])) != t.prefix+entryTail ||
		t.entries+int64(t.n)*int64(t.prefix+entryTail) != s.end() {
		return t, fault.Corrupt(file, s.Off, "partitions: bad header")
	}
	return t, nil
}

func (t *partitionTable) stride() int64 { return int64(t.prefix + entryTail) }

func (t *partitionTable) decode(b []byte) partitionEntry {
	le := binary.LittleEndian
	b = b[t.prefix:]
	return partitionEntry{ordinal: le.Uint32(b), group: le.Uint32(b[4:]), rawBefore: le.Uint64(b[8:])}
}

// partition reads entry i.
func (r *Reader) partition(s *scratch, ix *index, i int) (e partitionEntry, err error) {
	t := &ix.partitions
	b, err := r.table(s, t.entries+int64(i)*t.stride(), t.stride())
	if err != nil {
		return e, err
	}
	e = t.decode(b)
	if uint64(e.ordinal) >= r.props.Items || uint64(e.group) >= r.props.Groups || e.rawBefore > r.props.RawBytes {
		return e, r.corrupt(t.entries+int64(i)*t.stride(), errEntry)
	}
	return e, nil
}

// lowerPartition returns the first entry that is not below the EPK in the
// bytes that entries hold, and whether it is equal in them.
func (r *Reader) lowerPartition(s *scratch, ix *index, hash uint64, epk []byte) (i int, equal bool, err error) {
	t := &ix.partitions
	if len(epk) < t.prefix || hash < t.low {
		return 0, false, nil
	}
	slot := (hash - t.low) >> t.shift
	if slot >= t.slots {
		return t.n, false, nil
	}
	n := int64(8)
	if slot+1 == t.slots {
		n = 4
	}
	b, err := r.table(s, t.dir+4*int64(slot), n)
	if err != nil {
		return 0, false, err
	}
	lo, hi := int(binary.LittleEndian.Uint32(b)), t.n
	if n == 8 {
		hi = int(binary.LittleEndian.Uint32(b[4:]))
	}
	if lo > hi || hi > t.n {
		return 0, false, r.corrupt(t.dir+4*int64(slot), errEntry)
	}
	want := epk[:t.prefix]
	for lo < hi {
		mid := (lo + hi) / 2
		entry, readErr := r.table(s, t.entries+int64(mid)*t.stride(), t.stride())
		if readErr != nil {
			return 0, false, readErr
		}
		if bytes.Compare(entry[:t.prefix], want) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == t.n {
		return lo, false, nil
	}
	b, err = r.table(s, t.entries+int64(lo)*t.stride(), t.stride())
	if err != nil {
		return 0, false, err
	}
	return lo, bytes.Equal(b[:t.prefix], want), nil
}

// upperPartition returns the first entry after i that differs from the EPK in the bytes
// that entries hold. Entry i must agree with the EPK in them.
func (r *Reader) upperPartition(s *scratch, ix *index, i int, epk []byte) (int, error) {
	t := &ix.partitions
	same := func(i int) (bool, error) {
		b, err := r.table(s, t.entries+int64(i)*t.stride(), t.stride())
		return err == nil && bytes.Equal(b[:t.prefix], epk[:t.prefix]), err
	}
	// There may be many: it is easy to make keys that agree in so many bytes.
	lo, hi := i, t.n // lo is the same, hi is not
	for step := 1; lo+step < hi; step *= 2 {
		ok, err := same(lo + step)
		if err != nil {
			return 0, err
		}
		if !ok {
			hi = lo + step
			break
		}
		lo += step
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		ok, err := same(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, nil
}

// PartitionStats tells how many versions a logical partition has in the file and the sum
// of the lengths of their bodies; ok is false if it has none. Only the partition key of
// k counts.
func (r *Reader) PartitionStats(k *item.Key) (items, raw uint64, ok bool, err error) {
	s := scratches.Get().(*scratch)
	items, raw, ok, err = r.partitionStats(s, k)
	s.free()
	return items, raw, ok && err == nil, err
}

func (r *Reader) partitionStats(s *scratch, k *item.Key) (items, raw uint64, ok bool, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return 0, 0, false, err
	}
	i, equal, err := r.lowerPartition(s, ix, k.Hash, k.EPK)
	if err != nil || !equal {
		return 0, 0, false, err
	}
	end, err := r.upperPartition(s, ix, i, k.EPK)
	if err != nil {
		return 0, 0, false, err
	}
	for i < end {
		mid := i + (end-i)/2
		e, err := r.partition(s, ix, mid)
		if err != nil {
			return 0, 0, false, err
		}
		cmp, err := r.compareEntry(s, e, k)
		switch {
		case err != nil:
			return 0, 0, false, err
		case cmp < 0:
			i = mid + 1
			continue
		case cmp > 0:
			end = mid
			continue
		}
		next := partitionEntry{ordinal: uint32(r.props.Items), rawBefore: r.props.RawBytes}
		if mid+1 < ix.partitions.n {
			if next, err = r.partition(s, ix, mid+1); err != nil {
				return 0, 0, false, err
			}
		}
		if next.ordinal <= e.ordinal || next.rawBefore < e.rawBefore {
			return 0, 0, false, r.corrupt(ix.partitions.entries+int64(mid)*ix.partitions.stride(), errEntry)
		}
		return uint64(next.ordinal - e.ordinal), next.rawBefore - e.rawBefore, true, nil
	}
	return 0, 0, false, nil
}

// compareEntry orders the logical partition of an entry and the one of a key.
func (r *Reader) compareEntry(s *scratch, e partitionEntry, k *item.Key) (int, error) {
	off, ordinal, err := r.groupAt(s, e.group)
	if err != nil {
		return 0, err
	}
	b, err := r.groupBytes(s, off)
	if err != nil {
		return 0, err
	}
	o := &s.open
	if s.raw, err = o.decode(r, b, off, s.raw); err != nil {
		return 0, err
	}
	if e.ordinal < ordinal || e.ordinal-ordinal >= uint32(o.g.count) {
		return 0, r.corrupt(off, errOrdinal)
	}
	m := &o.members[e.ordinal-ordinal]
	if o.g.matchPK(m, o.raw, k.PK) {
		return 0, nil
	}
	var first shownKey
	if err := first.set(r, o, int(e.ordinal-ordinal)); err != nil {
		return 0, err
	}
	return item.ComparePartition(&first.Key, k), nil
}
