package segment

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// Span is how much of a file lies in a part of the key space.
type Span struct {
	Items    uint64 // versions
	RawBytes uint64 // of their bodies
	Bytes    int64  // of the file, in proportion
}

// Span returns how much of the file lies between two EPKs, lo inclusive and hi
// exclusive, each of 16 bytes a level. It reads a few pages of the tables. An EPK that
// agrees with the EPK of a logical partition in all but its last 8 bytes counts as equal
// to it.
func (r *Reader) Span(lo, hi []byte) (Span, error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	from, err := r.below(s, lo)
	if err != nil {
		return Span{}, err
	}
	to, err := r.below(s, hi)
	if err != nil || to.Items < from.Items || to.RawBytes < from.RawBytes || to.Bytes < from.Bytes {
		return Span{}, err
	}
	return Span{Items: to.Items - from.Items, RawBytes: to.RawBytes - from.RawBytes, Bytes: to.Bytes - from.Bytes}, nil
}

// below returns how much of the file lies below an EPK.
func (r *Reader) below(s *scratch, epk []byte) (n Span, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, i, err := r.lower(s, epk)
	if err != nil {
		return n, err
	}
	if i == ix.partitions.n {
		return Span{Items: r.props.Items, RawBytes: r.props.RawBytes, Bytes: r.props.FileBytes}, nil
	}
	e, err := r.partition(s, ix, i)
	if err != nil {
		return n, err
	}
	off, _, err := r.groupAt(s, e.group)
	share := float64(off-r.groups.Off) / float64(r.groups.Len)
	return Span{Items: uint64(e.ordinal), RawBytes: e.rawBefore, Bytes: int64(share * float64(r.props.FileBytes))}, err
}

// lower returns the first logical partition that is not below an EPK in the
// bytes that the table holds.
func (r *Reader) lower(s *scratch, epk []byte) (*index, int, error) {
	ix, err := r.index()
	if err != nil {
		return nil, 0, err
	}
	i, _, err := r.lowerPartition(s, ix, item.HashOf(epk), epk)
	return ix, i, err
}

// LogicalPartition is an entry of the table of logical partitions.
type LogicalPartition struct {
	// EPK holds all but the last 8 bytes of the effective partition key.
	EPK []byte
	// ItemsBefore and RawBefore count the versions before it, and the bytes of
	// their bodies.
	ItemsBefore, RawBefore uint64
}

// LogicalPartition returns entry i of Properties.LogicalPartitions, in the
// order of EPKs.
func (r *Reader) LogicalPartition(i int) (p LogicalPartition, err error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return p, err
	}
	e, err := r.partition(s, ix, i)
	if err != nil {
		return p, err
	}
	t := &ix.partitions
	b, err := r.table(s, t.entries+int64(i)*t.stride(), t.stride())
	if err != nil {
		return p, err
	}
	return LogicalPartition{EPK: slices.Clone(b[:t.prefix]), ItemsBefore: uint64(e.ordinal), RawBefore: e.rawBefore}, nil
}

// LowerLogicalPartition returns the index of the first logical partition that
// is not below an EPK of 16 bytes a level, in the bytes that LogicalPartition
// gives.
func (r *Reader) LowerLogicalPartition(epk []byte) (i int, err error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	defer r.file.Unguard(openfile.Guard(), &err)
	_, i, err = r.lower(s, epk)
	return i, err
}

// PartitionOrdinals returns the ordinals, from lo to hi, of the versions of the logical
// partition of a key, by the table of partitions. one is false if several logical
// partitions have the entry that the key would have. It opens no group: if the file has
// nothing of the partition, these may be the ordinals of another one, whose EPK agrees
// with the key's in the bytes that the table holds.
func (r *Reader) PartitionOrdinals(k *item.Key) (lo, hi uint32, one bool, err error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return 0, 0, false, err
	}
	i, equal, err := r.lowerPartition(s, ix, k.Hash, k.EPK)
	if err != nil || !equal || i == ix.partitions.n {
		return 0, 0, true, err
	}
	e, err := r.partition(s, ix, i)
	if err != nil {
		return 0, 0, false, err
	}
	end, err := r.upperPartition(s, ix, i, k.EPK)
	if err != nil || end > i+1 {
		return 0, 0, false, err
	}
	lo, hi = e.ordinal, uint32(r.props.Items)
	if end < ix.partitions.n {
		if e, err = r.partition(s, ix, end); err != nil {
			return 0, 0, false, err
		}
		hi = e.ordinal
	}
	return lo, max(lo, hi), true, nil
}

// WalkKeysFrom is WalkKeys from the first version at or after an EPK of 16 bytes a
// level. It may begin a little before that.
func (r *Reader) WalkKeysFrom(epk []byte) *Walker {
	w := r.WalkKeys()
	s := scratches.Get().(*scratch)
	defer s.free()
	w.open.off, w.base, w.err = r.groupFrom(s, epk)
	return w
}

// groupFrom returns the offset of the group in which the first version at or
// after an EPK lies, or one before it, and the ordinal of its first member.
func (r *Reader) groupFrom(s *scratch, epk []byte) (off int64, ordinal uint32, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, i, err := r.lower(s, epk)
	if err != nil || i == ix.partitions.n {
		return r.groups.end(), 0, err
	}
	e, err := r.partition(s, ix, i)
	if err != nil {
		return 0, 0, err
	}
	return r.groupAt(s, e.group)
}
