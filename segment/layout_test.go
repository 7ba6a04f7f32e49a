package segment

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestLayout prints small segment files as docs/segment.md describes them, by nothing that
// reads segments. A command segment has a version on each line of its input: partition
// key, id, sequence, time, expiry and body, or what it is instead of a document. Arguments:
// dictionary, deletion-vectors and index give the file these sections.
func TestLayout(t *testing.T) {
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		var m model
		for line := range strings.Lines(c.Input) {
			m = append(m, layoutEntry(t, strings.TrimSpace(line)))
		}
		m.sort()
		o := WriterOptions{FileNumber: 42, StoreID: testStore, EPK: hashEPK, Levels: len(m[0].key.EPK) / 16, Compression: None, Seed: item.Seed{1, 2}}
		if c.HasArg("dictionary") {
			d, err := NewDictionary([]byte(`{"id":"","city":"","text":"a text that documents have"}`))
			must(t, err)
			o.Compression, o.Dictionary = Fast, d
		}
		fsys := vfs.NewMem()
		f, err := fsys.Create("file")
		must(t, err)
		w, err := NewWriter(f, o)
		must(t, err)
		if c.HasArg("deletion-vectors") {
			w.SetDeletionVectors([]deletion.FileVector{{File: 3, Vector: deletion.Vector{Ordinals: []uint32{0, 7}, Seqs: []uint64{100, 99}}}, {File: 200, Vector: deletion.Vector{Ordinals: []uint32{5}, Seqs: []uint64{300}}}})
		}
		if c.HasArg("index") {
			w.SetIndex(func(emit func([]byte) error) error { return emit([]byte("index")) })
		}
		fill(t, w, m)
		data, err := fsys.ReadFile("file")
		must(t, err)
		return layoutOf(data)
	})
}

// layoutEntry reads a line of a command.
func layoutEntry(t *testing.T, line string) (e entry) {
	words := strings.SplitN(line, " ", 6)
	var values []any
	must(t, json.Unmarshal([]byte(words[0]), &values))
	e.key = newKey(encodeKey(values...), words[1])
	e.ver.Seq, _ = strconv.ParseUint(words[2], 10, 64)
	e.ver.Modified, _ = strconv.ParseInt(words[3], 10, 64)
	e.ver.Expires, _ = strconv.ParseInt(words[4], 10, 64)
	switch words[5] {
	case "deleted":
		e.ver.Flags = item.Tombstone
	case "all-deleted":
		e.ver.Flags, e.key.ID = item.Tombstone, nil
	case "claim":
		e.ver.Flags, e.ver.Body = item.Claim, []byte("holder")
	default:
		e.ver.Body = []byte(words[5])
	}
	return e
}

// layout prints a segment.
type layout struct {
	*binfmt.Printer
	b        []byte
	baseSeq  int64
	baseTime int64
	tables   int // offset of the first table
}

func layoutOf(b []byte) string {
	le := binary.LittleEndian
	l := &layout{Printer: binfmt.New(b), b: b}
	footer := b[len(b)-512:]
	type section struct {
		kind     SectionKind
		crc      uint32
		off, len int
	}
	var sections []section
	for i := range int(le.Uint32(footer[12:])) {
		e := footer[48+24*i:]
		s := section{SectionKind(le.Uint32(e)), le.Uint32(e[4:]), int(le.Uint64(e[8:])), int(le.Uint64(e[16:]))}
		switch s.kind {
		case SectionPartitions:
			l.tables = s.off
		case SectionProperties:
			l.baseSeq, l.baseTime = int64(le.Uint64(b[s.off+88:])), int64(le.Uint64(b[s.off+96:]))
		}
		sections = append(sections, s)
	}
	l.Heading("header")
	l.Text(8, "magic")
	l.Uint(4, "version")
	l.Uint(1, "cipher")
	l.Uint(1, "levels")
	l.ZerosTo(16)
	l.Uint(8, "file number")
	l.Hex(16, "store id")
	l.Hex(16, "seed")
	l.ZerosTo(60)
	l.Sum("CRC", l.CRC(0, 60))
	for _, s := range sections {
		l.ZerosTo(s.off)
		l.Heading("%v", s.kind)
		end := s.off + s.len
		switch s.kind {
		case SectionDictionaries:
			l.dictionaries()
		case SectionGroups:
			for l.At() < end {
				l.group()
			}
		case SectionPartitions:
			l.partitions(end)
		case SectionLocator:
			l.locator(end)
		case SectionOffsets:
			for l.At() < end {
				l.offsets()
			}
		case SectionDeletionVectors:
			l.deletionVectors()
		case SectionIndex:
			l.ZerosTo(l.tables + (s.off-l.tables+4095)&^4095)
			l.Text(end-l.At(), "index")
		case SectionProperties:
			l.properties()
		case SectionChecksums:
			for at := l.tables; at < s.off; at += 4096 {
				l.Sum("CRC of a page", l.CRC(at, min(at+4096, s.off)))
			}
		}
		if l.At() != end {
			l.Heading("the section ends at %d", end)
		}
	}
	l.ZerosTo(len(b) - 512)
	l.Heading("footer")
	l.Text(8, "magic")
	l.Uint(4, "version")
	l.Uint(4, "sections")
	l.Uint(8, "file bytes")
	l.Uint(8, "file number")
	l.Hex(16, "store id")
	for _, s := range sections {
		l.Uint(4, "kind")
		switch s.kind {
		case SectionDictionaries, SectionProperties, SectionChecksums:
			l.Sum("CRC", l.CRC(s.off, s.off+s.len))
		default:
			l.Hex(4, "CRC")
		}
		l.Uint(8, "offset")
		l.Uint(8, "bytes")
	}
	l.ZerosTo(len(b) - 4)
	l.Sum("CRC", l.CRC(len(b)-512, len(b)-4))
	return l.String()
}

func (l *layout) dictionaries() {
	n := int(l.Uint(4, "number"))
	l.ZerosTo(l.At() + 4)
	var lengths []int
	for range n {
		l.Hex(8, "hash")
		l.Uint(4, "offset")
		lengths = append(lengths, int(l.Uint(4, "bytes")))
	}
	for _, n := range lengths {
		l.Text(n, "content")
	}
}

func (l *layout) group() {
	at := l.At()
	l.Heading("group")
	rest := l.b[at+7:]
	headLen, n := binary.Uvarint(rest)
	payloadLen, m := binary.Uvarint(rest[n:])
	end := at + 7 + n + m + int(headLen+payloadLen)
	l.Sum("CRC", l.CRC(at+4, end)^uint32(at)^uint32(at>>32)^uint32(42*0x9e3779b1&0xFFFFFFFF))
	count := int(l.Uint(1, "count-1")) + 1
	coding := l.Uint(1, "coding")
	widths := int(l.Uint(1, "widths"))
	l.Uvarint("head bytes")
	l.Uvarint("payload bytes")
	l.Varint(fmt.Sprintf("lowest seq - %d", l.baseSeq))
	l.Varint(fmt.Sprintf("lowest time - %d", l.baseTime))
	l.Hex(count, "hashes")
	l.Hex(count*(widths&15), "sequences")
	l.Hex(count*(widths>>4), "times")
	for i := range count {
		l.member(i)
	}
	if l.At() != end-int(payloadLen) {
		l.Heading("the head ends at %d", end-int(payloadLen))
	}
	if coding&3 != 3 {
		l.Text(int(payloadLen), "payload")
		return
	}
	l.Uvarint("raw bytes")
	for l.At() < end {
		tag := int(l.Uint(1, "tag"))
		l.Uint(2, "offset")
		literals := tag & 3
		if tag>>2 == 63 {
			literals = int(l.Uint(1, "literals"))
			l.Uint(1, "low byte of match")
		}
		l.Text(literals, fmt.Sprintf("match of %d", tag>>2+2))
	}
}

func (l *layout) member(i int) {
	flags := l.Uint(1, "member: flags")
	older := flags&(1<<1) != 0 && i > 0
	l.Uvarint("body bytes")
	if flags&(1<<6) != 0 {
		l.Uvarint("annex bytes")
	}
	if flags&(1<<5) != 0 {
		l.Varint("expiry - time")
	}
	if flags&(1<<4) == 0 && !older {
		l.Uvarint("id offset")
		l.Uvarint("id bytes")
	}
	if flags&(1<<3) != 0 || older {
		return
	}
	kind := l.Uint(1, "key: kind")
	n := int(kind & 3)
	for c := range max(n, 1) {
		if n == 0 || kind&(4<<c) != 0 {
			l.Uvarint("key offset")
			l.Uvarint("key bytes")
			continue
		}
		width := 1
		if l.b[l.At()] == 5 {
			width = 9
		}
		l.Hex(width, "component")
	}
}

func (l *layout) partitions(end int) {
	entries := int(l.Uint(4, "entries"))
	slots := int(l.Uint(4, "slots"))
	l.Uint(4, "shift")
	width := int(l.Uint(4, "entry bytes"))
	l.Hex(8, "first hash")
	l.ZerosTo(l.At() + 40)
	l.Hex(4*slots, "directory")
	l.ZerosTo(end - entries*width)
	for range entries {
		l.Hex(width-16, "EPK prefix")
		l.Uint(4, "first ordinal")
		l.Uint(4, "group")
		l.Uint(8, "raw bytes before")
	}
}

func (l *layout) locator(end int) {
	chunks := int(l.Uint(4, "chunks"))
	l.ZerosTo(l.At() + 60)
	start, buckets := l.At()-64, end
	for range chunks {
		l.Hex(8, "hash of first key")
		l.Uint(8, "first group")
		buckets = min(buckets, start+int(l.Uint(8, "buckets at")))
		l.Uint(4, "buckets")
		l.Uint(4, "keys")
		l.Uint(4, "first group, index")
		l.Uint(4, "first key at")
		l.Uint(4, "its bytes")
		l.ZerosTo(l.At() + 20)
	}
	for range chunks {
		l.key()
	}
	l.ZerosTo(buckets)
	for l.At() < end {
		l.Hex(15, "fingerprints")
		l.Uint(1, "overflow")
		l.Hex(45, "group offsets")
		l.ZerosTo(l.At() + 3)
	}
}

func (l *layout) key() {
	epk, pk, id := int(l.Uint(2, "EPK bytes")), int(l.Uint(2, "key bytes")), int(l.Uint(2, "id bytes"))
	l.Hex(epk, "EPK")
	l.Text(pk, "key")
	l.Text(id, "id")
}

func (l *layout) offsets() {
	l.Uint(8, "first group")
	l.Uint(4, "its ordinal")
	l.Uint(4, "ceil")
	l.Hex(32, "bytes of 16 groups")
	l.Hex(16, "members - 1")
}

func (l *layout) deletionVectors() {
	for range l.Uvarint("files") {
		l.Uvarint("file number")
		for range l.Uvarint("versions") {
			l.Uvarint("ordinal - last - 1")
			l.Varint("sequence - last")
		}
	}
}

func (l *layout) properties() {
	for _, name := range []string{
		"versions", "live keys", "keys", "tombstones", "groups", "logical partitions", "raw bytes", "bytes of groups", "lowest seq", "highest seq",
		"newest time", "base seq", "base time", "of partitions", "deleted by them",
	} {
		l.Uint(8, name)
	}
	l.key()
	l.key()
}
