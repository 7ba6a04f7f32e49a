package forge

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

const (
	segmentHead     = 64
	segmentFoot     = 512
	segmentSections = 16 // at most
	segmentPage     = 4 << 10

	kindDictionaries = 1
	kindGroups       = 2
	kindPartitions   = 3
	kindProperties   = 11
	kindChecksums    = 12
)

// Section is a section of a segment file.
type Section struct {
	Kind uint32
	Off  int64
	Len  int64 // -1: it does not lie in the file
}

// In returns the bytes of the section in the file.
func (s Section) In(b []byte) []byte { return b[s.Off : s.Off+s.Len] }

// sumOf is where the footer has the checksum of the section of an index.
func sumOf(foot []byte, i int) []byte { return foot[48+24*i+4:] }

// Sections returns the sections that the footer of a segment file names.
func Sections(b []byte) (list []Section) {
	foot := b[len(b)-segmentFoot:]
	for i := range min(segmentSections, le.Uint32(foot[12:])) {
		e := foot[48+24*i:]
		s := Section{le.Uint32(e), int64(le.Uint64(e[8:])), int64(le.Uint64(e[16:]))}
		if end := int64(len(b)) - segmentFoot; s.Off < segmentHead || s.Len < 0 || s.Off > end || s.Len > end-s.Off {
			s.Len = -1
		}
		list = append(list, s)
	}
	return list
}

// MendSegment makes all checksums of a segment file right.
func MendSegment(b []byte) {
	foot := b[len(b)-segmentFoot:]
	var tables, sums Section
	for i, s := range Sections(b) {
		switch {
		case s.Len < 0:
		case s.Kind == kindGroups:
			le.PutUint32(sumOf(foot, i), checksum(mendGroups(b, s)))
		case s.Kind == kindPartitions:
			tables = s
		case s.Kind == kindChecksums:
			sums = s
		}
	}
	if tables.Kind != 0 && sums.Kind != 0 {
		for i, off := int64(0), tables.Off; off < sums.Off && 4*i+4 <= sums.Len; i, off = i+1, off+segmentPage {
			le.PutUint32(b[sums.Off+4*i:], checksum(b[off:min(off+segmentPage, sums.Off)]))
		}
	}
	for i, s := range Sections(b) {
		if s.Len >= 0 && (s.Kind == kindDictionaries || s.Kind == kindProperties || s.Kind == kindChecksums) {
			le.PutUint32(sumOf(foot, i), checksum(s.In(b)))
		}
	}
	le.PutUint32(b[60:], checksum(b[:60]))
	le.PutUint32(foot[segmentFoot-4:], checksum(foot[:segmentFoot-4]))
}

// mendGroups makes the checksums of groups right and returns them.
func mendGroups(b []byte, s Section) (sums []byte) {
	number := uint32(le.Uint64(b[16:]))
	for off, end := s.Off, s.Off+s.Len; off < end; {
		n := groupBytes(b[off:end])
		if n == 0 {
			break
		}
		group := b[off : off+n]
		le.PutUint32(group, checksum(group[4:])^uint32(off)^uint32(off>>32)^number*0x9e3779b1)
		sums = append(sums, group[:4]...)
		off += n
	}
	return sums
}

// groupBytes returns the length of the group that b begins with; 0: there is none.
func groupBytes(b []byte) int64 {
	const fixed = 7
	if len(b) < fixed {
		return 0
	}
	head, i := binary.Uvarint(b[fixed:])
	if i <= 0 {
		return 0
	}
	body, j := binary.Uvarint(b[fixed+i:])
	left := uint64(len(b) - fixed - i - max(j, 0))
	if j <= 0 || head > left || body > left-head {
		return 0
	}
	return int64(len(b)) - int64(left-head-body)
}

// Segment changes something in one section of a segment file, or in its footer, and says
// what.
func Segment(rng *rand.Rand, b []byte) (what string) {
	list := Sections(b)
	which := rng.IntN(len(list) + 1)
	if which == len(list) {
		what = "footer" + Somewhere(rng, b[len(b)-segmentFoot+12:len(b)-4])
	} else {
		what = fmt.Sprintf("section %d of kind %d%s", which, list[which].Kind, Somewhere(rng, list[which].In(b)))
	}
	MendSegment(b)
	return what
}
