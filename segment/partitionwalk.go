package segment

import "github.com/cleavestore/cleave/internal/openfile"

// PartitionWalker passes once over the table of logical partitions of a file, in the
// order of keys. Only AppendKey reads an item. A walker serves one goroutine at a time;
// its file must not be released before the last call.
type PartitionWalker struct {
	r    *Reader
	t    *partitionTable
	buf  []byte // entries, and the one after them if there is one
	at   int    // entry that the walker is on, -1: before the first
	from int    // first entry of buf
	held int    // entries of buf
	now  partitionEntry
	next partitionEntry // where now ends
	err  error
}

// walkEntries is how many entries are read at once.
const walkEntries = 256

// WalkPartitions returns a walker before the first logical partition.
func (r *Reader) WalkPartitions() *PartitionWalker { return r.WalkPartitionsFrom(0) }

// WalkPartitionsFrom returns a walker before the logical partition of this number, from 0
// on, as LowerLogicalPartition counts them.
func (r *Reader) WalkPartitionsFrom(number int) *PartitionWalker {
	return &PartitionWalker{r: r, at: number - 1}
}

// Next moves to the next logical partition. It returns false after the last
// one and on an error, which Err tells.
func (w *PartitionWalker) Next() bool {
	if w.err != nil || w.t != nil && w.at+1 >= w.t.n {
		return false
	}
	if w.at++; w.t == nil || w.at-w.from+1 >= w.held && w.from+w.held < w.t.n {
		w.err = w.load()
	}
	if w.err != nil {
		return false
	}
	if w.at >= w.t.n {
		return false
	}
	w.now = w.t.decode(w.entry(w.at))
	w.next = partitionEntry{ordinal: uint32(w.r.props.Items), rawBefore: w.r.props.RawBytes}
	if w.at+1 < w.t.n {
		w.next = w.t.decode(w.entry(w.at + 1))
	}
	if w.next.ordinal <= w.now.ordinal || w.next.rawBefore < w.now.rawBefore || uint64(w.now.group) >= w.r.props.Groups ||
		uint64(w.next.ordinal) > w.r.props.Items || w.next.rawBefore > w.r.props.RawBytes {
		w.err = w.r.corrupt(w.t.entries+int64(w.at)*w.t.stride(), errEntry)
	}
	return w.err == nil
}

// entry returns the bytes of an entry that is held.
func (w *PartitionWalker) entry(i int) []byte {
	stride := int(w.t.stride())
	return w.buf[(i-w.from)*stride:][:stride]
}

// load reads entries from the present one on.
func (w *PartitionWalker) load() (err error) {
	defer w.r.file.Unguard(openfile.Guard(), &err)
	if w.t == nil {
		ix, indexErr := w.r.index()
		if indexErr != nil {
			return indexErr
		}
		w.t = &ix.partitions
	}
	w.from, w.held = w.at, min(walkEntries, w.t.n-w.at)
	if w.held <= 0 {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	b, err := w.r.table(s, w.t.entries+int64(w.from)*w.t.stride(), int64(w.held)*w.t.stride())
	w.buf = append(w.buf[:0], b...)
	return err
}

// EPK returns all but the last 8 bytes of the effective partition key, valid
// until the next call of Next.
func (w *PartitionWalker) EPK() []byte { return w.entry(w.at)[:w.t.prefix] }

// Items returns the number of versions of the logical partition in the file.
func (w *PartitionWalker) Items() uint64 { return uint64(w.next.ordinal - w.now.ordinal) }

// RawBytes returns the sum of the lengths of their bodies.
func (w *PartitionWalker) RawBytes() uint64 { return w.next.rawBefore - w.now.rawBefore }

// AppendKey appends the encoded partition key, which it reads from the first
// item.
func (w *PartitionWalker) AppendKey(dst []byte) (key []byte, err error) {
	r := w.r
	defer r.file.Unguard(openfile.Guard(), &err)
	s := scratches.Get().(*scratch)
	defer s.free()
	off, ordinal, err := r.groupAt(s, w.now.group)
	if err != nil {
		return dst, err
	}
	b, err := r.groupBytes(s, off)
	if err != nil {
		return dst, err
	}
	o := &s.open
	if s.raw, err = o.decode(r, b, off, s.raw); err != nil {
		return dst, err
	}
	if w.now.ordinal < ordinal || w.now.ordinal-ordinal >= uint32(o.g.count) {
		return dst, r.corrupt(off, errOrdinal)
	}
	return o.g.appendPK(dst, &o.members[w.now.ordinal-ordinal], o.raw), nil
}

// Err returns the error that ended the walk, nil at the end of the table.
func (w *PartitionWalker) Err() error { return w.err }
