package segment

import (
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/openfile"
)

// Groups are touched in the mapping where their pages are in memory, and read from the
// file where they may not be (openfile.Residency). One touch in 32 is timed.

const (
	touchesPerTimed = 32

	coldLeast = 256       // the least that coldFirst can be
	coldAhead = 64 << 10  // read ahead of a cursor
	coldPiece = 256 << 10 // read at once
)

// coldFirst returns how much of a group of unknown length is read, where n groups have
// total bytes: 1.25 times the mean length. To read more would more often reach into
// another page for nothing.
func coldFirst(total int64, n uint64) int64 {
	if n == 0 {
		return coldLeast
	}
	return min(max(coldLeast, total/int64(n)*5/4), coldAhead)
}

// warmAhead reads what a cursor that goes from the group at from to the one at to will
// want next in this direction, if it was not read.
func (r *Reader) warmAhead(s *scratch, from, to int64) error {
	lo, hi := to, to+coldAhead
	m := r.file.View()
	if m == nil || from == to || r.residency.Has(to, min(2*pageLen, r.groups.end()-to)) {
		return nil
	}
	if to < from {
		lo, hi = to+pageLen-coldAhead, to+pageLen
	}
	lo, hi = max(lo, r.groups.Off), min(hi, r.groups.end())
	return r.warm(s, m, lo, hi-lo)
}

// warm reads the pages of [off, off+n), which lies in the groups, so that they
// are in memory.
func (r *Reader) warm(s *scratch, m *openfile.View, off, n int64) error {
	if r.residency.Ask(m, off) && r.residency.Has(off, n) {
		return nil
	}
	end := min((off+n+pageLen-1)&^(pageLen-1), r.props.FileBytes)
	for at := off &^ (pageLen - 1); at < end; at += coldPiece {
		s.cold = grow(s.cold, min(coldPiece, end-at))
		if err := r.file.ReadCold(s.cold, at); err != nil {
			return err
		}
	}
	r.residency.Note(off, n)
	return nil
}

// groupBytes returns the bytes of the group at off, those from there on if the length in its
// prelude is wrong. They are valid until the next call with the
// same scratch, and may be mapped: the caller is guarded. s.view is the mapping that they
// lie in, nil if they were read.
func (r *Reader) groupBytes(s *scratch, off int64) ([]byte, error) {
	limit := r.groups.end() - off
	if off < r.groups.Off || limit <= 0 {
		return nil, r.corrupt(off, errShort)
	}
	n := min(limit, r.coldFirst)
	m := r.file.View()
	s.view = nil
	if m == nil {
		return r.preadGroup(s, off, limit)
	}
	if !r.residency.Has(off, min(limit, preludeMax)) && !(r.residency.Ask(m, off) && r.residency.Has(off, n)) {
		return r.coldGroup(s, off, n, limit)
	}
	b := m.Data[off:r.groups.end()]
	s.view = m
	var start time.Time
	s.touches++
	timed := s.touches%touchesPerTimed == 0
	if timed {
		start = time.Now()
	}
	size, _, _, err := groupSize(b) // the first touch
	if timed {
		r.residency.Observe(off, time.Since(start))
	}
	if err != nil || int64(size) > limit {
		return b, nil // parse tells what is wrong
	}
	if n = int64(size); !r.residency.Has(off, n) {
		if err := r.warm(s, m, off, n); err != nil {
			return nil, err
		}
	}
	// A decoder may read beyond the group, but in no other page.
	page := (off + n + pageLen - 1) &^ (pageLen - 1)
	return b[:size:min(page-off, int64(cap(b)))], nil
}

// coldGroup is groupBytes for a group that was not read. It reads n bytes of it, or
// more, and uses them as they are. To touch the mapping would be a page fault, though
// the page is in memory: a tenth of the time of a processor.
func (r *Reader) coldGroup(s *scratch, off, n, limit int64) ([]byte, error) {
	from := off &^ (pageLen - 1)
	s.cold = s.cold[:0]
	for {
		end, at := min((off+n+pageLen-1)&^(pageLen-1), r.props.FileBytes), len(s.cold)
		s.cold = slices.Grow(s.cold, int(end-from)-at)[:end-from]
		if err := r.file.ReadCold(s.cold[at:], from+int64(at)); err != nil {
			return nil, err
		}
		r.residency.Note(off, n)
		b := s.cold[off-from : min(end, r.groups.end())-from]
		size, _, _, err := groupSize(b)
		if err != nil || int64(size) > limit {
			return b, nil // parse tells what is wrong
		}
		if size <= len(b) {
			return b[:size], nil
		}
		n = int64(size)
	}
}

// preadGroup is groupBytes without a mapping.
func (r *Reader) preadGroup(s *scratch, off, limit int64) ([]byte, error) {
	const guess = 2 << 10
	n := min(limit, guess)
	read := r.file.ReadAt
	if !r.residency.Has(off, n) {
		read = r.file.ReadCold
	}
	s.group = grow(s.group, n)
	if err := read(s.group, off); err != nil {
		return nil, err
	}
	size, _, _, err := groupSize(s.group)
	if more := int64(size); err == nil && more > n && more <= limit {
		s.group = slices.Grow(s.group, int(more-n))[:more]
		if err = read(s.group[n:], off+n); err != nil {
			return nil, err
		}
		n = more
	}
	r.residency.Note(off, n)
	if err == nil {
		s.group = s.group[:min(size, len(s.group))]
	}
	return s.group, nil
}
