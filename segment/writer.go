package segment

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"

	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/payload"
	"github.com/cleavestore/cleave/internal/vfs"
)

// WriterOptions are the options of a writer.
type WriterOptions struct {
	FileNumber  uint64
	StoreID     [16]byte
	Levels      int         // of the partition key, 1 to 3
	Compression Compression // Fast if not set
	Dictionary  *Dictionary // nil: compress without one
	// EPK appends the effective partition key of an encoded partition key,
	// 16 bytes a level, to dst.
	EPK func(dst, pk []byte) []byte
	// Seed keys the hashes by which items are found; zero: a random one. One hash of a
	// key serves to search all files of the same seed.
	Seed item.Seed
	// ExpectItems is a guess at the number of items; 0: none.
	ExpectItems int
}

// Errors of a writer.
var (
	// ErrOrder says that an item was not added in the order of keys, or a
	// version not by falling sequence.
	ErrOrder = errors.New("segment: item out of order")
	// ErrItem says that an item cannot be stored: its key or body is too long,
	// or contradicts itself.
	ErrItem = errors.New("segment: item cannot be stored")
	// ErrEmpty says that a segment without items was finished.
	ErrEmpty = errors.New("segment: no items")
)

// Writer writes a segment. It holds in memory the group being filled, about
// 5.4 bytes a key, 24 to 56 bytes a logical partition and 4 bytes a group. It
// is not safe for concurrent use. After an error only Abort may be called.
type Writer struct {
	f    vfs.File
	opts WriterOptions
	enc  payload.Encoder
	base base
	err  error

	buf     []byte // not yet written
	flushed int64  // bytes written

	pend       groupBuilder
	last       item.KeyCopy
	lastSeq    uint64
	lastOlder  bool // the version before has a newer one of its key before it
	deleted    deletedHere
	partitions partitionBuilder
	locator    locatorBuilder
	offsets    offsetBuilder
	groupsCRC  uint32
	sections   []Section
	props      Properties
	vectors    []byte                              // the section of deletion vectors; nil: there is none
	index      func(emit func([]byte) error) error // writes the index section; nil: there is none
}

// writeBuffer is how much is written at a time: a huge page. The page cache then keeps
// it as one, and readers map it as one. writePiece is how much of it is on its way to
// the device at a time, so that syncs of the log need not wait for all of it.
const (
	writeBuffer = 2 << 20
	writePiece  = 512 << 10
)

// writeBuffers holds buffers of writers that are done, so that small segments do not
// each allocate a large one.
var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBuffer+64<<10)
	return &b
}}

// NewWriter starts a segment at the beginning of f, which is empty. The writer
// owns f: Finish, Abort and a failing NewWriter close it.
func NewWriter(f vfs.File, o WriterOptions) (*Writer, error) {
	if o.Levels < 1 || o.Levels > item.MaxLevels || o.EPK == nil || o.Compression > None {
		f.Close()
		return nil, fmt.Errorf("segment: %d levels, EPK function %t, compression %v", o.Levels, o.EPK != nil, o.Compression)
	}
	enc, err := payload.NewEncoder(o.Compression, o.Dictionary)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("segment: %w", err)
	}
	w := &Writer{f: f, opts: o, enc: enc, buf: (*writeBuffers.Get().(*[]byte))[:0]}
	w.partitions.prefix = prefixLen(o.Levels)
	w.locator.slots = make([]locatorSlot, 0, max(0, min(o.ExpectItems, chunkKeys)))
	w.props = Properties{
		FormatVersion: FormatVersion, FileNumber: o.FileNumber, StoreID: o.StoreID, Levels: o.Levels,
		MinSeq: math.MaxUint64, MaxModified: math.MinInt64,
	}
	if w.pend.seed = o.Seed; w.pend.seed == (item.Seed{}) {
		w.pend.seed = item.NewSeed()
	}
	h := header{levels: o.Levels, fileNumber: o.FileNumber, storeID: o.StoreID, seed: w.pend.seed}
	w.buf = append(w.buf, h.encode()...)
	if dict := w.enc.Dictionary(); dict != nil {
		w.section(SectionDictionaries, dictionary.AppendSection(nil, dict))
	}
	w.pad()
	w.sections = append(w.sections, Section{Kind: SectionGroups, Off: w.offset()})
	return w, nil
}

// offset is where the next byte goes.
func (w *Writer) offset() int64 { return w.flushed + int64(len(w.buf)) }

// Size returns about how many bytes the file would have if it were finished.
func (w *Writer) Size() int64 {
	return w.offset() + int64(len(w.pend.raw)) + w.partitions.size() + w.locator.size() + w.offsets.size() + footerLen
}

// Add appends a version. Keys must rise strictly, and the sequences of versions
// of one key fall; ErrOrder otherwise. Nothing is kept of k and v.
func (w *Writer) Add(k *item.Key, v *item.Version) error {
	samePK, older, err := w.accept(k, v)
	if err != nil {
		return w.fail(err)
	}
	if !w.pend.takes(len(v.Body)) {
		if err := w.flushGroup(); err != nil {
			return err
		}
	}
	w.note(k, v, len(v.Body), samePK, older)
	w.pend.add(k, v, samePK, older)
	return nil
}

// AddFrom appends the version that the walker is on. If its compressed bytes fit this
// writer they are copied; otherwise AddFrom is Add.
func (w *Writer) AddFrom(src *Walker) error {
	k, v := src.Key(), src.Version()
	g, m := &src.open.g, &src.open.members[src.i]
	if g.count != 1 || m.body <= groupRaw/2 || !w.enc.Takes(g.coding, src.open.dict) {
		if err := src.complete(); err != nil {
			return err
		}
		return w.Add(k, v)
	}
	samePK, older, err := w.accept(k, v)
	if err != nil {
		return w.fail(err)
	}
	if len(w.pend.members) > 0 {
		if err := w.flushGroup(); err != nil {
			return err
		}
	}
	w.note(k, v, m.body, samePK, older)
	w.pend.addCopied(k, v, g, m, older)
	return nil
}

// accept checks the order of a version and tells how it relates to the one
// before it.
func (w *Writer) accept(k *item.Key, v *item.Version) (samePK, older bool, err error) {
	if w.err != nil {
		return false, false, w.err
	}
	if len(k.EPK) != 16*w.opts.Levels || k.Hash != item.HashOf(k.EPK) || len(k.PK) > item.MaxPK || len(k.ID) > item.MaxID {
		return false, false, fmt.Errorf("%w: key of %d+%d+%d bytes", ErrItem, len(k.EPK), len(k.PK), len(k.ID))
	}
	if len(v.Body) > MaxBody || v.Deleted() && len(v.Body) > 0 || v.Seq == 0 || v.Flags > item.Claim {
		return false, false, fmt.Errorf("%w: body of %d bytes, sequence %d, flags %#x", ErrItem, len(v.Body), v.Seq, v.Flags)
	}
	if w.props.Items == 0 {
		return false, false, nil
	}
	if w.props.Items == math.MaxUint32 {
		return false, false, fmt.Errorf("%w: file is full", ErrItem)
	}
	c := item.ComparePartition(&w.last.Key, k)
	samePK = c == 0
	if samePK {
		c = bytes.Compare(w.last.ID, k.ID)
	}
	if c > 0 || c == 0 && v.Seq >= w.lastSeq {
		return false, false, fmt.Errorf("%w: after %d items, sequence %d after %d", ErrOrder, w.props.Items, v.Seq, w.lastSeq)
	}
	if older = c == 0; older {
		w.pend.members[len(w.pend.members)-1].flags |= memberFollowed
	}
	return samePK, older, nil
}

// note counts a version, with a body of so many bytes, that is about to join
// the pending group.
func (w *Writer) note(k *item.Key, v *item.Version, body int, samePK, older bool) {
	p := &w.props
	if p.Items == 0 {
		w.base = base{seq: v.Seq, modified: v.Modified, file: uint32(w.opts.FileNumber)}
		p.baseSeq, p.baseModified = v.Seq, v.Modified
		p.Min = k.Clone()
	}
	if !samePK {
		w.partitions.add(k.EPK, k.Hash, uint32(p.Items), w.offsets.n, p.RawBytes)
	}
	if !older {
		w.last.Set(k)
		p.Keys++
		if v.IsDocument() {
			p.Live++
		}
	}
	if w.deleted.hides(k, v, samePK) {
		p.DeletedHere++
	}
	if v.Deleted() {
		p.Tombstones++
		if k.OfPartition() {
			p.OfPartitions++
		}
	}
	w.lastSeq, w.lastOlder = v.Seq, older
	p.Items++
	p.RawBytes += uint64(body)
	p.MinSeq, p.MaxSeq = min(p.MinSeq, v.Seq), max(p.MaxSeq, v.Seq)
	p.MaxModified = max(p.MaxModified, v.Modified)
}

// deletedHere finds, among versions in order, those that a tombstone of their logical
// partition deletes.
type deletedHere struct {
	seq uint64 // of the newest tombstone of the present partition; 0: none
}

func (d *deletedHere) hides(k *item.Key, v *item.Version, samePK bool) bool {
	if !samePK {
		d.seq = 0
	}
	if k.OfPartition() && v.Deleted() {
		d.seq = max(d.seq, v.Seq)
	}
	return v.Seq < d.seq
}

// flushGroup encodes the pending group.
func (w *Writer) flushGroup() error {
	p := &w.pend
	if len(p.members) == 0 {
		return nil
	}
	off, at := w.offset(), len(w.buf)
	w.buf = p.appendTo(w.buf, off, &w.base, &w.enc)
	w.groupsCRC = crc32.Update(w.groupsCRC, castagnoli, w.buf[at:at+4])
	w.locator.add(p, off, w.offsets.n)
	w.offsets.add(off, len(w.buf)-at, len(p.members), p.highest())
	p.reset()
	return w.spill(false)
}

// spill writes the buffer: all of it, or only as many times writeBuffer as it has.
func (w *Writer) spill(all bool) error {
	n := len(w.buf)
	if !all {
		n -= n % writeBuffer
	}
	if n == 0 {
		return nil
	}
	if _, err := w.f.WriteAt(w.buf[:n], w.flushed); err != nil {
		return w.fail(fault.IO("write", w.f.Name(), w.flushed, err))
	}
	if !all {
		for at := 0; at < n; at += writePiece {
			if err := w.f.WriteBack(w.flushed+int64(at), int64(min(writePiece, n-at))); err != nil {
				return w.fail(fault.IO("write", w.f.Name(), w.flushed, err))
			}
		}
	}
	w.flushed += int64(n)
	rest := w.buf[n:]
	if cap(w.buf) > 4*writeBuffer {
		w.buf = make([]byte, 0, writeBuffer+64<<10)
	}
	w.buf = append(w.buf[:0], rest...)
	return nil
}

// release gives the buffer to other writers.
func (w *Writer) release() {
	if b := w.buf; b != nil && cap(b) <= 4*writeBuffer {
		writeBuffers.Put(&b)
	}
	w.buf = nil
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return err
}

// pad appends zeros up to the next section.
func (w *Writer) pad() {
	for n := aligned(w.offset()) - w.offset(); n > 0; n-- {
		w.buf = append(w.buf, 0)
	}
}

// section appends a section whose checksum is that of its bytes.
func (w *Writer) section(kind SectionKind, b []byte) {
	w.pad()
	w.sections = append(w.sections, Section{Kind: kind, Off: w.offset(), Len: int64(len(b)), CRC: checksum(b)})
	w.buf = append(w.buf, b...)
}

// Finish writes the tables and the footer, syncs the file and closes it. Its
// name is not yet durable. On an error the file is closed too.
func (w *Writer) Finish() (*Properties, error) {
	if w.err == nil && w.props.Items == 0 {
		w.fail(ErrEmpty)
	}
	if w.err == nil {
		w.finish()
	}
	if w.err != nil {
		w.Abort()
		return nil, w.err
	}
	w.release()
	name := w.f.Name()
	if err := w.f.Sync(); err != nil {
		w.fail(fault.IO("sync", name, -1, err))
	}
	err := w.f.Close()
	w.f = nil
	if err != nil {
		w.fail(fault.IO("close", name, -1, err))
	}
	if w.err != nil {
		return nil, w.err
	}
	w.err = errFinished
	p := w.props
	return &p, nil
}

var errFinished = errors.New("segment: writer is finished")

// finish writes all that follows the groups.
func (w *Writer) finish() {
	if w.flushGroup() != nil {
		return
	}
	p := &w.props
	groups := &w.sections[len(w.sections)-1]
	groups.Len, groups.CRC = w.offset()-groups.Off, w.groupsCRC
	p.Groups, p.LogicalPartitions = uint64(w.offsets.n), uint64(len(w.partitions.hashes))
	p.StoredBytes = uint64(groups.Len)
	p.Max = w.last.Clone()
	w.pad()

	t := tableWriter{w: w}
	t.begin(SectionPartitions)
	t.write(w.partitions.appendTo(nil))
	t.write(w.partitions.entries)
	t.begin(SectionLocator)
	t.write(w.locator.appendTo(nil))
	t.write(w.locator.buckets)
	t.begin(SectionOffsets)
	blocks, wide := w.offsets.finish(p)
	t.write(blocks)
	t.write(wide)
	if w.vectors != nil {
		t.begin(SectionDeletionVectors)
		t.write(w.vectors)
	}
	w.writeIndex(&t)
	t.begin(SectionProperties)
	props := p.encode()
	t.write(props)
	t.end(checksum(props))
	sums := t.finish()
	w.section(SectionChecksums, sums)
	w.pad()
	f := Footer{FileBytes: w.offset() + footerLen, FileNumber: p.FileNumber, StoreID: p.StoreID, Sections: w.sections}
	w.buf = append(w.buf, f.encode()...)
	p.Sections, p.FooterCRC, p.FileBytes = w.sections, f.CRC, f.FileBytes
	if w.err == nil {
		w.spill(true)
	}
}

// Abort closes the file, which is not a segment then. After Finish it does nothing.
func (w *Writer) Abort() {
	w.fail(errFinished)
	w.release()
	if w.f != nil {
		w.f.Close()
		w.f = nil
	}
}
