package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// Sizes of the segment format that the targets need to build files around the
// bytes that they are given.
const (
	segHeader  = 64
	segFooter  = 512
	segPage    = 4 << 10
	segAlign   = 64
	segSection = 24
	segFile    = 3       // file number
	segMaxRaw  = 1 << 16 // bound of what a reader may decode
	segMaxFuzz = 1 << 16 // longer inputs are not tried
)

// segStory is a small segment and what is in it.
type segStory struct {
	file     []byte
	sections map[segment.SectionKind][]byte
	items    []segItem
}

type segItem struct {
	key item.Key
	ver item.Version
}

func segEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}

// newSegStory writes a segment: some versions, tombstones and expiries in a few
// logical partitions.
func newSegStory(tb testing.TB, compression segment.Compression, dict bool) *segStory {
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		tb.Fatal(err)
	}
	o := segment.WriterOptions{FileNumber: segFile, Levels: 1, Compression: compression, EPK: segEPK}
	if dict {
		if o.Dictionary, err = segment.NewDictionary(bytes.Repeat([]byte(`{"id":"item-1","text":"some words and more words`), 2)); err != nil {
			tb.Fatal(err)
		}
	}
	w, err := segment.NewWriter(f, o)
	if err != nil {
		tb.Fatal(err)
	}
	s := &segStory{}
	pks := make([][]byte, 3)
	for i := range pks {
		pks[i] = append(append([]byte{8}, fmt.Sprintf("part-%d", i)...), 0xFF)
	}
	for range pks { // in the order of their EPKs
		lowest := -1
		for i, pk := range pks {
			if pk != nil && (lowest < 0 || bytes.Compare(segEPK(nil, pk), segEPK(nil, pks[lowest])) < 0) {
				lowest = i
			}
		}
		pk := pks[lowest]
		pks[lowest] = nil
		epk := segEPK(nil, pk)
		for i := range 5 {
			k := item.Key{Hash: item.HashOf(epk), EPK: epk, PK: pk, ID: fmt.Appendf(nil, "item-%d", i)}
			for seq := i % 3; seq >= 0; seq-- {
				v := item.Version{Seq: uint64(10*i + seq + 1), Modified: int64(1000 + i)}
				switch {
				case seq == 1:
					v.Flags = item.Tombstone
				case i == 3:
					v.Expires = 5000
					v.Body = bytes.Repeat([]byte("no id "), 200)
				default:
					v.Body = fmt.Appendf(nil, `{"id":"item-%d","pk":"part-%d","text":"some words and more words %d"}`, i, lowest, seq)
				}
				if err := w.Add(&k, &v); err != nil {
					tb.Fatal(err)
				}
				s.items = append(s.items, segItem{k, v})
			}
		}
	}
	p, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	r, err := fsys.Open("a")
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	s.file = make([]byte, p.FileBytes)
	if _, err := r.ReadAt(s.file, 0); err != nil {
		tb.Fatal(err)
	}
	s.sections = make(map[segment.SectionKind][]byte)
	for _, sec := range p.Sections {
		s.sections[sec.Kind] = s.file[sec.Off : sec.Off+sec.Len]
	}
	for kind, b := range s.sections {
		if !bytes.Equal(s.rebuild(kind, b), s.file) {
			tb.Fatalf("a file rebuilt with its own %v is another", kind)
		}
	}
	return s
}

func segSum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// rebuild makes a file with one section replaced and every checksum right.
func (s *segStory) rebuild(kind segment.SectionKind, b []byte) []byte {
	le := binary.LittleEndian
	out := bytes.Clone(s.file[:segHeader])
	foot := bytes.Clone(s.file[len(s.file)-segFooter:])
	clear(foot[48 : segFooter-4])
	var tables, n int
	for k := segment.SectionDictionaries; k <= segment.SectionChecksums; k++ {
		content, ok := s.sections[k]
		if k == kind {
			content, ok = b, true
		}
		if !ok {
			continue
		}
		start := len(out)
		if k == segment.SectionPartitions {
			tables = start
		}
		if k == segment.SectionChecksums {
			content = nil
			for at := tables; at < start; at += segPage {
				content = le.AppendUint32(content, segSum(out[at:min(at+segPage, start)]))
			}
		}
		out = append(out, content...)
		e := foot[48+n*segSection:]
		n++
		le.PutUint32(e, uint32(k))
		switch k {
		case segment.SectionGroups:
			le.PutUint32(e[4:], sealGroups(out, start))
		case segment.SectionDictionaries, segment.SectionProperties, segment.SectionChecksums:
			le.PutUint32(e[4:], segSum(out[start:]))
		}
		le.PutUint64(e[8:], uint64(start))
		le.PutUint64(e[16:], uint64(len(content)))
		for len(out)%segAlign != 0 {
			out = append(out, 0)
		}
	}
	le.PutUint32(foot[12:], uint32(n))
	le.PutUint64(foot[16:], uint64(len(out)+segFooter))
	le.PutUint32(foot[segFooter-4:], segSum(foot[:segFooter-4]))
	return append(out, foot...)
}

// sealGroups makes the checksums of the groups from start on right, as far as
// their lengths make sense, and returns the checksum of the checksums.
func sealGroups(b []byte, start int) uint32 {
	var sums []byte
	for off := start; len(b)-off > 9; {
		head, i := binary.Uvarint(b[off+7:])
		if i <= 0 {
			break
		}
		payload, j := binary.Uvarint(b[off+7+i:])
		n := uint64(7 + i + j)
		if j <= 0 || head > 1<<30 || payload > 1<<30 || n+head+payload > uint64(len(b)-off) {
			break
		}
		group := b[off : off+int(n+head+payload)]
		file := uint32(segFile)
		binary.LittleEndian.PutUint32(group, segSum(group[4:])^uint32(off)^file*0x9e3779b1)
		sums = append(sums, group[:4]...)
		off += len(group)
	}
	return segSum(sums)
}

// readAll makes every kind of call on a file. Errors must be typed. It returns
// what a walk saw; found is called for what Get found.
func readAll(t *testing.T, s *segStory, file []byte, mode segment.Mode, found func(*segItem, *item.Version)) {
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(file, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	typed := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
			t.Errorf("untyped error: %v", err)
		}
	}
	r, err := segment.Open(fsys, "a", segment.ReaderOptions{Mode: mode, EPK: segEPK, MaxRaw: segMaxRaw})
	if err != nil {
		typed(err)
		return
	}
	defer r.Release()
	c := r.Cursor(20)
	for i := range s.items {
		it := &s.items[i]
		for _, maxSeq := range []uint64{math.MaxUint64, it.ver.Seq} {
			var v item.Version
			ok, _, err := r.Get(it.key.Lookup(), maxSeq, nil, &v)
			typed(err)
			if ok && found != nil {
				found(it, &v)
			}
		}
		_, _, _, err := r.PartitionStats(&it.key)
		typed(err)
		c.SeekGE(&it.key)
		typed(c.Err())
		c.Prev()
		c.SeekLT(&it.key)
		typed(c.Err())
		c.Next()
		typed(c.Err())
	}
	partitions := r.WalkPartitions()
	for partitions.Next() {
		_, err := partitions.AppendKey(nil)
		typed(err)
	}
	typed(partitions.Err())
	for _, maxSeq := range []uint64{math.MaxUint64, 20, 0} {
		c := r.Cursor(maxSeq)
		for ok := c.First(); ok; ok = c.Next() {
			if c.Version().Seq > maxSeq {
				t.Errorf("cursor at %d shows %d", maxSeq, c.Version().Seq)
			}
		}
		typed(c.Err())
		for ok := c.Last(); ok; ok = c.Prev() {
			_ = c.Key()
		}
		typed(c.Err())
	}
	w := r.Walk()
	for w.Next() {
		if len(w.Version().Body) > segMaxRaw {
			t.Errorf("body of %d bytes", len(w.Version().Body))
		}
	}
	typed(w.Err())
	typed(r.VerifyChecksums(context.Background()))
	typed(r.Verify(context.Background(), func(segment.Finding) {}))
}

// stories are the files that the targets begin with.
func stories(tb testing.TB) []*segStory {
	return []*segStory{
		newSegStory(tb, segment.Fast, true), newSegStory(tb, segment.Small, false), newSegStory(tb, segment.None, false),
	}
}

// mustBe says that what Get finds is what was written: the groups are intact.
func mustBe(t *testing.T, s *segStory) func(*segItem, *item.Version) {
	return func(it *segItem, v *item.Version) {
		for i := range s.items {
			o := &s.items[i]
			if o.ver.Seq == v.Seq && item.Compare(&o.key, &it.key) == 0 && bytes.Equal(o.ver.Body, v.Body) {
				return
			}
		}
		t.Errorf("%q: found version %d with %d bytes, which nobody wrote", it.key.ID, v.Seq, len(v.Body))
	}
}

// FuzzSegmentFooter: a footer is refused with its place, or describes sections
// that lie in the file.
func FuzzSegmentFooter(f *testing.F) {
	for _, s := range stories(f) {
		f.Add(s.file[len(s.file)-segFooter:], int64(len(s.file)))
	}
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) == segFooter {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b[segFooter-4:], segSum(b[:segFooter-4]))
		}
		foot, err := segment.DecodeFooter("f", b, size)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
				t.Errorf("untyped error: %v", err)
			}
			return
		}
		end := int64(segHeader)
		for _, s := range foot.Sections {
			if s.Off < end || s.Len < 0 || s.Len > size-segFooter-s.Off {
				t.Errorf("%v lies at %d, length %d, in a file of %d", s.Kind, s.Off, s.Len, size)
			}
			end = s.Off + s.Len
		}
	})
}

// FuzzSegmentGroup: groups, sealed with right checksums, are read or refused.
func FuzzSegmentGroup(f *testing.F) {
	all := stories(f)
	for i, s := range all {
		f.Add(uint8(i), s.sections[segment.SectionGroups])
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		if len(b) > segMaxFuzz {
			return
		}
		s := all[int(which)%len(all)]
		readAll(t, s, s.rebuild(segment.SectionGroups, b), segment.Mode(which>>4&1), nil)
	})
}

// FuzzSegmentLocator: a locator, sealed, is refused or finds what was written.
func FuzzSegmentLocator(f *testing.F) {
	fuzzTable(f, segment.SectionLocator)
}

// FuzzSegmentTables: the other tables, sealed, are refused or lead to what was
// written.
func FuzzSegmentTables(f *testing.F) {
	fuzzTable(f, segment.SectionPartitions, segment.SectionOffsets, segment.SectionProperties)
}

func fuzzTable(f *testing.F, kinds ...segment.SectionKind) {
	all := stories(f)
	for i, s := range all {
		for j, kind := range kinds {
			f.Add(uint8(i), uint8(j), s.sections[kind])
		}
	}
	f.Fuzz(func(t *testing.T, which, kind uint8, b []byte) {
		if len(b) > segMaxFuzz {
			return
		}
		s := all[int(which)%len(all)]
		k := kinds[int(kind)%len(kinds)]
		check := mustBe(t, s)
		if k == segment.SectionProperties {
			check = nil // sequences are relative to one that stands there
		}
		readAll(t, s, s.rebuild(k, b), segment.Mode(which>>4&1), check)
	})
}

// FuzzSegmentDictionary: a dictionaries section, sealed, is refused or read; a
// dictionary is refused or gives its bytes and name back.
func FuzzSegmentDictionary(f *testing.F) {
	s := newSegStory(f, segment.Fast, true)
	f.Add(s.sections[segment.SectionDictionaries])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2*segMaxFuzz {
			return
		}
		readAll(t, s, s.rebuild(segment.SectionDictionaries, b), segment.Map, nil)
		d, err := segment.NewDictionary(b)
		if err != nil {
			return
		}
		again, err := segment.NewDictionary(d.Bytes())
		if err != nil || again != d || !bytes.Equal(d.Bytes(), b) {
			t.Errorf("dictionary of %d bytes: %v", len(b), err)
		}
	})
}

// FuzzSegmentFile: any file is refused or read.
func FuzzSegmentFile(f *testing.F) {
	all := stories(f)
	for i, s := range all {
		f.Add(uint8(i), s.file)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		if len(b) > segMaxFuzz {
			return
		}
		readAll(t, all[int(which)%len(all)], b, segment.Mode(which>>4&1), nil)
	})
}
