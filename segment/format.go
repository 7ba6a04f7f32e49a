package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
)

// FormatVersion is the format that Writer writes and the newest that Open
// accepts. Version 1 had no LZ blocks; before version 3 hashes of items had no
// seed.
const FormatVersion = 3

const seededVersion = 3 // the first with a seed

// Sizes of the format, in bytes unless said otherwise; they never change.
const (
	headerLen   = 64
	footerLen   = 512
	sectionLen  = 24 // entry of the footer's section table
	maxSections = 16
	alignment   = 64
	pageLen     = 4 << 10 // unit of the page checksums

	groupRaw      = 512 // raw bytes that neighbours are grouped up to
	groupMembers  = 64  // members of a group
	maxKeyLen     = item.MaxEPK + item.MaxPK + item.MaxID
	propertiesMin = 15 * 8
	propertiesMax = propertiesMin + 2*(6+maxKeyLen)

	// MaxBody is the largest body of an item.
	MaxBody = 16 << 20
)

const (
	headerMagic = "CLVSEG\r\n"
	footerMagic = "CLVSEG\x1aF"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// SectionKind names a section. The values are part of the format.
type SectionKind uint32

// Kinds of sections, in the order in which they lie in a file. Those marked
// reserved have their place but are not written yet.
const (
	SectionDictionaries    SectionKind = 1  // compression dictionaries
	SectionGroups          SectionKind = 2  // the items
	SectionPartitions      SectionKind = 3  // table of logical partitions
	SectionLocator         SectionKind = 4  // hash tables for point reads
	SectionOffsets         SectionKind = 5  // groups by ordinal
	SectionBySequence      SectionKind = 6  // reserved: ordinals by sequence
	SectionDeletionVectors SectionKind = 7  // ordinals overwritten in older files
	SectionUniqueTerms     SectionKind = 8  // reserved: terms of unique keys
	SectionDeletedBefore   SectionKind = 9  // reserved: logical partitions deleted up to a sequence
	SectionIndex           SectionKind = 10 // secondary indexes
	SectionProperties      SectionKind = 11 // counts and key range
	SectionChecksums       SectionKind = 12 // CRC32C of each page of the tables
)

var sectionNames = [...]string{
	SectionDictionaries: "dictionaries", SectionGroups: "groups", SectionPartitions: "partitions",
	SectionLocator: "locator", SectionOffsets: "offsets", SectionBySequence: "by-sequence",
	SectionDeletionVectors: "deletion vectors", SectionUniqueTerms: "unique terms", SectionDeletedBefore: "deleted before",
	SectionIndex: "index", SectionProperties: "properties", SectionChecksums: "checksums",
}

// String returns the name of the section.
func (k SectionKind) String() string {
	if k == 0 || int(k) >= len(sectionNames) {
		return fmt.Sprintf("section %d", uint32(k))
	}
	return sectionNames[k]
}

// Section is a range of a segment file.
type Section struct {
	Kind SectionKind
	Off  int64 // in the file, a multiple of 64
	Len  int64 // bytes, without the padding up to the next section
	// CRC is the CRC32C of the bytes of dictionaries, properties and
	// checksums. For groups it is that of the group checksums one after the
	// other, for the other tables 0: their pages have checksums.
	CRC uint32
}

func (s Section) end() int64 { return s.Off + s.Len }

// Properties describes a finished segment.
type Properties struct {
	FormatVersion     uint32
	FileNumber        uint64
	StoreID           [16]byte
	Levels            int    // of the partition key
	Items             uint64 // versions, tombstones and older ones included
	Live              uint64 // keys whose newest version is a document
	Keys              uint64 // different keys
	Tombstones        uint64 // versions that are tombstones
	OfPartitions      uint64 // of these, partition tombstones: they delete a logical partition
	DeletedHere       uint64 // versions that these partition tombstones delete
	Groups            uint64
	LogicalPartitions uint64
	RawBytes          uint64 // sum of the lengths of all bodies
	StoredBytes       uint64 // of the groups, before the tables
	MinSeq, MaxSeq    uint64
	MaxModified       int64    // milliseconds since the Unix epoch
	Min, Max          item.Key // lowest and highest key; the caller may not change them
	Sections          []Section
	FooterCRC         uint32
	FileBytes         int64

	baseSeq      uint64 // what the sequences of groups are relative to
	baseModified int64
}

// header is the first 64 bytes of a file.
//
//	0   8  magic
//	8   4  format version
//	12  1  cipher: 0, none
//	13  1  levels of the partition key
//	14  2  zero
//	16  8  file number
//	24  16 store id
//	40  16 seed of the hashes of items; zero before version 3
//	56  4  zero
//	60  4  CRC32C of the 60 bytes before
type header struct {
	version    uint32
	seed       item.Seed
	levels     int
	fileNumber uint64
	storeID    [16]byte
}

func (h *header) encode() []byte {
	b := make([]byte, headerLen)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], FormatVersion)
	b[13] = byte(h.levels)
	binary.LittleEndian.PutUint64(b[16:], h.fileNumber)
	copy(b[24:40], h.storeID[:])
	binary.LittleEndian.PutUint64(b[40:], h.seed[0])
	binary.LittleEndian.PutUint64(b[48:], h.seed[1])
	binary.LittleEndian.PutUint32(b[60:], checksum(b[:60]))
	return b
}

func decodeHeader(file string, b []byte) (h header, err error) {
	if len(b) < headerLen {
		return h, fault.Corrupt(file, 0, "header: %d bytes of %d", len(b), headerLen)
	}
	b = b[:headerLen]
	if string(b[:8]) != headerMagic {
		return h, fault.Corrupt(file, 0, "header: no segment file")
	}
	if want, got := binary.LittleEndian.Uint32(b[60:]), checksum(b[:60]); want != got {
		return h, fault.Corrupt(file, 0, "header: checksum %08x, computed %08x", want, got)
	}
	if h.version = binary.LittleEndian.Uint32(b[8:]); h.version > FormatVersion {
		return h, fmt.Errorf("%s: segment format %d: %w", file, h.version, fault.ErrTooNew)
	} else if h.version == 0 {
		return h, fault.Corrupt(file, 8, "header: format 0")
	}
	if b[12] != 0 {
		return h, fmt.Errorf("%s: cipher %d: %w", file, b[12], fault.ErrTooNew)
	}
	h.levels = int(b[13])
	if h.levels < 1 || h.levels > item.MaxLevels {
		return h, fault.Corrupt(file, 13, "header: %d levels", h.levels)
	}
	h.fileNumber = binary.LittleEndian.Uint64(b[16:])
	copy(h.storeID[:], b[24:40])
	if h.version < seededVersion {
		return h, nil
	}
	h.seed = item.Seed{binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])}
	if h.seed == (item.Seed{}) {
		return h, fault.Corrupt(file, 40, "header: no seed")
	}
	return h, nil
}

// Footer is the last 512 bytes of a file.
//
//	0    8      magic
//	8    4      format version
//	12   4      number of sections, at most 16
//	16   8      length of the file
//	24   8      file number
//	32   16     store id
//	48   16×24  sections: kind 4, CRC32C 4, offset 8, length 8
//	432  76     zero
//	508  4      CRC32C of the 508 bytes before
type Footer struct {
	FileBytes  int64
	FileNumber uint64
	StoreID    [16]byte
	Sections   []Section
	CRC        uint32
}

func (f *Footer) encode() []byte {
	b := make([]byte, footerLen)
	copy(b, footerMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], FormatVersion)
	le.PutUint32(b[12:], uint32(len(f.Sections)))
	le.PutUint64(b[16:], uint64(f.FileBytes))
	le.PutUint64(b[24:], f.FileNumber)
	copy(b[32:48], f.StoreID[:])
	for i, s := range f.Sections {
		e := b[48+i*sectionLen:]
		le.PutUint32(e, uint32(s.Kind))
		le.PutUint32(e[4:], s.CRC)
		le.PutUint64(e[8:], uint64(s.Off))
		le.PutUint64(e[16:], uint64(s.Len))
	}
	f.CRC = checksum(b[:footerLen-4])
	le.PutUint32(b[footerLen-4:], f.CRC)
	return b
}

// DecodeFooter decodes the last 512 bytes of a file of the given length. The
// sections it returns lie one after the other within the file, in the order of
// their kinds.
func DecodeFooter(file string, b []byte, fileBytes int64) (f Footer, err error) {
	at := fileBytes - footerLen
	if len(b) != footerLen || at < headerLen {
		return f, fault.Corrupt(file, 0, "footer: file of %d bytes is too short", fileBytes)
	}
	le := binary.LittleEndian
	if string(b[:8]) != footerMagic {
		return f, fault.Corrupt(file, at, "footer: not found at the end of the file")
	}
	f.CRC = le.Uint32(b[footerLen-4:])
	if got := checksum(b[:footerLen-4]); got != f.CRC {
		return f, fault.Corrupt(file, at, "footer: checksum %08x, computed %08x", f.CRC, got)
	}
	if v := le.Uint32(b[8:]); v > FormatVersion {
		return f, fmt.Errorf("%s: segment format %d: %w", file, v, fault.ErrTooNew)
	} else if v == 0 {
		return f, fault.Corrupt(file, at+8, "footer: format 0")
	}
	f.FileBytes = int64(le.Uint64(b[16:]))
	if f.FileBytes != fileBytes {
		return f, fault.Corrupt(file, at+16, "footer: file has %d bytes, not %d", fileBytes, uint64(f.FileBytes))
	}
	f.FileNumber = le.Uint64(b[24:])
	copy(f.StoreID[:], b[32:48])
	n := le.Uint32(b[12:])
	if n == 0 || n > maxSections {
		return f, fault.Corrupt(file, at+12, "footer: %d sections", n)
	}
	f.Sections = make([]Section, n)
	end := int64(headerLen)
	kind := SectionKind(0)
	for i := range f.Sections {
		e := b[48+i*sectionLen:]
		off, length := le.Uint64(e[8:]), le.Uint64(e[16:])
		s := Section{Kind: SectionKind(le.Uint32(e)), CRC: le.Uint32(e[4:]), Off: int64(off), Len: int64(length)}
		where := at + 48 + int64(i)*sectionLen
		if s.Kind <= kind || int(s.Kind) >= len(sectionNames) {
			return f, fault.Corrupt(file, where, "footer: %v out of order", s.Kind)
		}
		if off != uint64(aligned(end)) || length > uint64(at)-min(off, uint64(at)) {
			return f, fault.Corrupt(file, where, "footer: %v at %d, length %d", s.Kind, off, length)
		}
		f.Sections[i] = s
		kind, end = s.Kind, s.end()
	}
	if aligned(end) != at {
		return f, fault.Corrupt(file, at, "footer: sections end at %d", end)
	}
	for _, need := range []SectionKind{SectionGroups, SectionPartitions, SectionLocator, SectionOffsets, SectionProperties, SectionChecksums} {
		if f.section(need).Kind == 0 {
			return f, fault.Corrupt(file, at, "footer: no %v", need)
		}
	}
	groups, tables, sums := f.section(SectionGroups), f.section(SectionPartitions), f.section(SectionChecksums)
	if groups.Len == 0 || groups.end() > tables.Off {
		return f, fault.Corrupt(file, at, "footer: groups of %d bytes", groups.Len)
	}
	if pages := (sums.Off - tables.Off + pageLen - 1) / pageLen; sums.Len != 4*pages {
		return f, fault.Corrupt(file, at, "footer: %d bytes of checksums for %d pages", sums.Len, pages)
	}
	return f, nil
}

// section returns the section of a kind; its Kind is 0 if there is none.
func (f *Footer) section(k SectionKind) Section {
	for _, s := range f.Sections {
		if s.Kind == k {
			return s
		}
	}
	return Section{}
}

func aligned(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// Properties are 15 integers of 8 bytes, then the lowest and the highest key:
// lengths of EPK, partition key and id in 2 bytes each, and their bytes.
func (p *Properties) encode() []byte {
	le := binary.LittleEndian
	var b []byte
	for _, n := range [...]uint64{
		p.Items, p.Live, p.Keys, p.Tombstones, p.Groups, p.LogicalPartitions, p.RawBytes, p.StoredBytes,
		p.MinSeq, p.MaxSeq, uint64(p.MaxModified), p.baseSeq, uint64(p.baseModified), p.OfPartitions,
		p.DeletedHere,
	} {
		b = le.AppendUint64(b, n)
	}
	for _, k := range []*item.Key{&p.Min, &p.Max} {
		b = appendKey(b, k)
	}
	return b
}

func (p *Properties) decode(file string, at int64, b []byte) error {
	if len(b) < propertiesMin {
		return fault.Corrupt(file, at, "properties: %d bytes", len(b))
	}
	le := binary.LittleEndian
	for i, n := range [...]*uint64{
		&p.Items, &p.Live, &p.Keys, &p.Tombstones, &p.Groups, &p.LogicalPartitions, &p.RawBytes, &p.StoredBytes,
		&p.MinSeq, &p.MaxSeq,
	} {
		*n = le.Uint64(b[8*i:])
	}
	p.MaxModified = int64(le.Uint64(b[80:]))
	p.baseSeq = le.Uint64(b[88:])
	p.baseModified = int64(le.Uint64(b[96:]))
	p.OfPartitions, p.DeletedHere = le.Uint64(b[104:]), le.Uint64(b[112:])
	rest := b[propertiesMin:]
	for _, k := range []*item.Key{&p.Min, &p.Max} {
		var ok bool
		if *k, rest, ok = cutKey(rest); !ok || len(k.EPK) != 16*p.Levels {
			return fault.Corrupt(file, at, "properties: bad key range")
		}
	}
	if len(rest) != 0 || p.Items == 0 || p.Items > math.MaxUint32 || p.Keys == 0 || p.Keys > p.Items || p.Live > p.Keys ||
		p.Tombstones > p.Items || p.OfPartitions > p.Tombstones || p.DeletedHere > p.Items || p.Groups == 0 || p.Groups > p.Items || p.LogicalPartitions == 0 ||
		p.LogicalPartitions > p.Keys || p.MinSeq > p.MaxSeq {
		return fault.Corrupt(file, at, "properties: counts contradict each other")
	}
	return nil
}

func appendKey(b []byte, k *item.Key) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(len(k.EPK)))
	b = le.AppendUint16(b, uint16(len(k.PK)))
	b = le.AppendUint16(b, uint16(len(k.ID)))
	b = append(b, k.EPK...)
	b = append(b, k.PK...)
	return append(b, k.ID...)
}

// cutKey decodes a key at the start of b into memory of its own.
func cutKey(b []byte) (k item.Key, rest []byte, ok bool) {
	if len(b) < 6 {
		return k, b, false
	}
	le := binary.LittleEndian
	e, p, i := int(le.Uint16(b)), int(le.Uint16(b[2:])), int(le.Uint16(b[4:]))
	if e > item.MaxEPK || p > item.MaxPK || i > item.MaxID || e+p+i > len(b)-6 {
		return k, b, false
	}
	b = b[6:]
	k = item.Key{Hash: item.HashOf(b[:e]), EPK: b[:e], PK: b[e : e+p], ID: b[e+p : e+p+i]}
	return k.Clone(), b[e+p+i:], true
}
