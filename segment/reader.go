package segment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/firstkeys"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/rowcache"
	"github.com/cleavestore/cleave/internal/scancache"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Mode says how a reader reaches the bytes of its file.
type Mode uint8

// Modes.
const (
	Map   Mode = iota // through a mapping; what may not be in memory is read first
	Pread             // through positioned reads; nothing is mapped
)

// ReaderOptions are the options of a reader.
type ReaderOptions struct {
	Mode Mode
	// EPK appends the effective partition key of an encoded partition key,
	// 16 bytes a level, to dst.
	EPK func(dst, pk []byte) []byte
	// MaxRaw is the most raw bytes that a group may decode to; 0 means the
	// format's own limit. It bounds the memory of a call.
	MaxRaw int
	// Warm says that the file was just written, so that its bytes are in
	// memory.
	Warm bool
	// Cold bounds the reads of bytes that may have to come from the device. Nil:
	// no bound.
	Cold *openfile.ColdReads
	// RowCache holds items that are read often. Nil: none.
	RowCache *rowcache.Cache
	// ScanCache holds parts of files decoded that cursors read often. Nil: none.
	ScanCache *scancache.Cache
	// Budget bounds what readers hold of the system. Nil: one of its own, without bounds.
	Budget *openfile.Budget
	// Keep says that the file may lose its name: its mapping, or else its descriptor, is
	// not given up.
	Keep bool
}

// Reader reads a segment. It is safe for concurrent use, and counts its users: the
// opener is the first, and the file is closed when the last has called Release. After
// that the reader, its cursors and its walkers must not be used. Its Budget decides when
// the file is open and mapped.
type Reader struct {
	name   string // full path, for messages
	file   openfile.File
	opts   ReaderOptions
	number uint64 // no other reader of the process has it
	refs   atomic.Int64

	props        Properties
	base         base
	seed         item.Seed // of the hashes of items; zero before version 3
	dicts        []*Dictionary
	groups       Section
	offsets      Section
	tables       tablePages
	residency    openfile.Residency              // of the groups
	verified     openfile.Verified               // groups, by cursors that verify them once
	coldFirst    int64                           // how much of a group of unknown length is read
	stretchShift uint8                           // logarithm of the length of a stretch
	firsts       atomic.Pointer[firstkeys.Table] // made by the first search

	ix struct {
		sync.Mutex // held while it is loaded
		loaded     atomic.Pointer[index]
	}
}

var readers atomic.Uint64 // opened so far

// index is what a reader keeps of the tables in memory. It is loaded by the
// first read, so that opening a file reads little.
type index struct {
	chunks     chunkTable
	partitions partitionTable
}

// scratch is the memory of one call.
type scratch struct {
	table []byte // bytes of a table that were not mapped
	group []byte // bytes of a group that were not mapped
	raw   []byte // a decoded payload
	cold  []byte // pages that were not in memory
	open  opened
	view  *openfile.View // of groupBytes

	touches uint32 // of mapped groups
	decoded uint32 // items, by point reads and Cursor.Show
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

const (
	scratchKeep    = 1 << 20 // larger buffers are not kept between calls
	decodesPerNote = 4       // one in so many decoded items is noted in the row cache
)

func (s *scratch) free() {
	if cap(s.group)+cap(s.raw)+cap(s.cold) > scratchKeep {
		s.group, s.raw, s.cold = nil, nil, nil
	}
	s.open.g, s.open.raw, s.open.dict, s.view = group{}, nil, nil, nil // they may refer to the buffers
	scratches.Put(s)
}

var (
	errEntry   = errors.New("table: entry points outside of what it describes")
	errPage    = errors.New("table: checksum of a page does not match")
	errRange   = errors.New("table: read outside of the tables")
	errNoDict  = errors.New("group: names a dictionary that the file does not have")
	errOlder   = errors.New("group: chain of versions is broken")
	errEPK     = errors.New("group: partition key does not hash to its level")
	errOrder   = errors.New("group: the tables lead to a key on the wrong side of that sought")
	errOrdinal = errors.New("group: holds another number of items than the tables say")
)

// Open opens a segment file. It reads header, footer, properties, dictionaries
// and the checksums of the tables, and verifies them; everything else is
// verified when it is read. A damaged file is a *fault.CorruptionError, one of
// a newer format matches fault.ErrTooNew.
func Open(fsys vfs.FS, name string, o ReaderOptions) (*Reader, error) {
	if o.EPK == nil || o.Mode > Pread || o.MaxRaw < 0 {
		return nil, fmt.Errorf("segment: mode %d, EPK function %t, limit %d", o.Mode, o.EPK != nil, o.MaxRaw)
	}
	if o.MaxRaw == 0 || o.MaxRaw > maxPart {
		o.MaxRaw = maxPart
	}
	r := &Reader{name: fsys.Path(name), opts: o, number: readers.Add(1)}
	r.file.Init(fsys, name, openfile.Options{Map: o.Mode == Map, Budget: o.Budget, Cold: o.Cold, Same: r.same})
	r.refs.Store(1)
	err := r.load()
	if err == nil && o.Keep {
		err = r.file.Keep()
	}
	if err != nil {
		r.file.Close()
		return nil, err
	}
	return r, nil
}

// load reads what a reader always holds.
func (r *Reader) load() error {
	size, err := r.file.Stat()
	if err != nil {
		return err
	}
	var head [headerLen]byte
	var foot [footerLen]byte
	if size < headerLen+footerLen {
		return fault.Corrupt(r.name, 0, "file of %d bytes is too short", size)
	}
	if err = r.file.ReadAt(foot[:], size-footerLen); err != nil {
		return err
	}
	if err = r.file.ReadAt(head[:], 0); err != nil {
		return err
	}
	h, err := decodeHeader(r.name, head[:])
	if err != nil {
		return err
	}
	f, err := DecodeFooter(r.name, foot[:], size)
	if err != nil {
		return err
	}
	if f.FileNumber != h.fileNumber || f.StoreID != h.storeID {
		return fault.Corrupt(r.name, size-footerLen, "footer: not that of this header")
	}
	r.file.SetSize(f.FileBytes)
	r.props = Properties{
		FormatVersion: h.version, FileNumber: h.fileNumber, StoreID: h.storeID, Levels: h.levels,
		Sections: f.Sections, FooterCRC: f.CRC, FileBytes: f.FileBytes,
	}
	r.groups, r.offsets = f.section(SectionGroups), f.section(SectionOffsets)
	s := f.section(SectionProperties)
	b, err := r.section(s, propertiesMax)
	if err != nil {
		return err
	}
	if err = r.props.decode(r.name, s.Off, b); err != nil {
		return err
	}
	if r.props.Items > r.props.Groups*groupMembers || r.props.Groups > uint64(r.groups.Len)/groupMin || r.props.Items > uint64(r.groups.Len)/memberMin {
		return fault.Corrupt(r.name, s.Off, "properties: %d versions in %d groups of %d bytes", r.props.Items, r.props.Groups, r.groups.Len)
	}
	if blocks := (int64(r.props.Groups) + blockGroups - 1) / blockGroups; blocks > r.offsets.Len/blockLen {
		return fault.Corrupt(r.name, r.offsets.Off, "offsets: %d bytes for %d groups", r.offsets.Len, r.props.Groups)
	}
	r.seed = h.seed
	r.base = base{seq: r.props.baseSeq, modified: r.props.baseModified, file: uint32(h.fileNumber)}
	if s = f.section(SectionDictionaries); s.Kind != 0 {
		if b, err = r.section(s, dictionary.MaxSection); err != nil {
			return err
		}
		if r.dicts, err = dictionary.DecodeSection(r.name, s.Off, b); err != nil {
			return err
		}
	}
	s = f.section(SectionChecksums)
	sums, err := r.section(s, f.FileBytes)
	if err != nil {
		return err
	}
	r.tables = newTablePages(f.section(SectionPartitions).Off, s.Off, sums)
	r.residency.Init(r.groups.Off, r.groups.end(), r.opts.Warm)
	r.coldFirst = coldFirst(r.groups.Len, r.props.Groups)
	r.stretchShift = stretchShift(r.groups.Len, r.props.RawBytes)
	return nil
}

// section reads a section whose checksum is that of its bytes.
func (r *Reader) section(s Section, limit int64) ([]byte, error) {
	if s.Len > limit {
		return nil, fault.Corrupt(r.name, s.Off, "%v: %d bytes, at most %d", s.Kind, s.Len, limit)
	}
	b := make([]byte, s.Len)
	if err := r.file.ReadAt(b, s.Off); err != nil {
		return nil, err
	}
	if got := checksum(b); got != s.CRC {
		return nil, fault.Corrupt(r.name, s.Off, "%v: checksum %08x, computed %08x", s.Kind, s.CRC, got)
	}
	return b, nil
}

// same returns an error unless f, another file of the size and name of the reader's, is a
// copy of it.
func (r *Reader) same(f vfs.File) error {
	size := r.props.FileBytes
	var foot [footerLen]byte
	if _, err := f.ReadAt(foot[:], size-footerLen); err != nil {
		return fault.IO("read", r.name, size-footerLen, err)
	}
	other, err := DecodeFooter(r.name, foot[:], size)
	if err == nil && other.CRC != r.props.FooterCRC {
		err = fault.Corrupt(r.name, size-footerLen, "footer: checksum %08x, was %08x when opened", other.CRC, r.props.FooterCRC)
	}
	if err == nil {
		r.tables.forget() // they were verified in the other copy
	}
	return err
}

// corrupt reports damage found at an offset of the file.
func (r *Reader) corrupt(at int64, err error) error { return fault.Corrupt(r.name, at, "%w", err) }

// Corrupt returns the error for an answer of the file that contradicts another.
func (r *Reader) Corrupt(cause error) error { return r.corrupt(r.offsets.Off, cause) }

// index returns the index, which the first call loads.
func (r *Reader) index() (*index, error) {
	if ix := r.ix.loaded.Load(); ix != nil {
		return ix, nil
	}
	if err := r.file.Broken(); err != nil {
		return nil, err
	}
	r.ix.Lock()
	defer r.ix.Unlock()
	if ix := r.ix.loaded.Load(); ix != nil {
		return ix, nil
	}
	f := Footer{Sections: r.props.Sections}
	ix := new(index)
	s := f.section(SectionPartitions)
	b, err := r.readTable(s.Off, min(partitionsHeader, s.Len))
	if err != nil {
		return nil, err
	}
	if ix.partitions, err = decodePartitions(r.name, s, &r.props, b); err != nil {
		return nil, err
	}
	s = f.section(SectionLocator)
	read := func(off, n int64) ([]byte, error) { return r.readTable(s.Off+off, n) }
	if ix.chunks, err = decodeChunks(r.name, s, r.groups, &r.props, read); err != nil {
		return nil, err
	}
	r.ix.loaded.Store(ix)
	return ix, nil
}

// ReadAt fills b with the bytes of the file at off, which it does not verify.
func (r *Reader) ReadAt(b []byte, off int64) error { return r.file.ReadAt(b, off) }

// Properties describes the file. The caller may not change them.
func (r *Reader) Properties() *Properties { return &r.props }

// Seed returns the seed of the hashes of items; zero: the file has none.
func (r *Reader) Seed() item.Seed { return r.seed }

// Size returns the length of the file in bytes.
func (r *Reader) Size() int64 { return r.props.FileBytes }

// FooterCRC returns the CRC32C of the footer, which identifies the content.
func (r *Reader) FooterCRC() uint32 { return r.props.FooterCRC }

// Dictionaries returns the dictionaries of the file. The caller may not change
// the slice.
func (r *Reader) Dictionaries() []*Dictionary { return r.dicts }

// Acquire adds a user. There must be one already.
func (r *Reader) Acquire() { r.refs.Add(1) }

// Release takes a user away. The last one closes the file.
func (r *Reader) Release() {
	if r.refs.Add(-1) == 0 {
		r.file.Close()
		r.firsts.Store(nil) // a store that was closed may still be referred to
		r.ix.loaded.Store(nil)
		r.verified.Forget()
	}
}

// AddName says that the file has another name.
func (r *Reader) AddName(name string) { r.file.AddName(name) }

// LetGo says that the file is about to lose a name. It returns false if that is the last
// name and the reader is pinned: then the name must stay, and LetGo is to be called
// again later.
func (r *Reader) LetGo(name string) bool { return r.file.LetGo(name) }

// Pin is Acquire for a caller that uses the reader outside of the stays that the Retire
// of its Budget waits for. Pin is called in such a stay. Unpin ends it.
func (r *Reader) Pin() {
	r.file.Pin()
	r.Acquire()
}

// Unpin ends what Pin began.
func (r *Reader) Unpin() {
	r.file.Unpin()
	r.Release()
}
