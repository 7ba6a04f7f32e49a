package segment

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// A page of a mapping that is not in memory stops the processor that touches it, and
// with it other goroutines. So a reader remembers which pages of the groups were read.
// It touches those in the mapping. It reads the others from the file first: a goroutine
// that waits there stops no other. No system call is made for a page that was read
// before.
//
// A file that was in use before it was opened may be in memory as a whole. So at a page
// that was not read the system is asked about the 256 KiB around it. A store larger than
// memory would pay for these calls and hardly ever gain. So after a no the system is not
// asked about the next unread pages.
//
// A hint is wrong once the system has dropped the page. One touch in 32 is timed. If it
// is so slow that a device must have been asked, the hints of its 256 KiB are taken
// back; after several slow ones, those of the whole file. A wrong hint costs time only.
type residency struct {
	off    int64           // of page 0 in the file
	words  []atomic.Uint64 // a bit a page, a word for each wordBytes
	faults atomic.Int32    // slow touches lately
	unsure atomic.Int32    // reads of unread pages until the system is asked again

	// coldFirst is how much of a group of unknown length is read: 1.25 times the mean
	// length. To read more would more often reach into another page for nothing.
	coldFirst int64
}

const (
	touchesPerTimed = 32
	slowTouch       = 40 * time.Microsecond
	faultWeight     = 8 // timed touches after which a slow one is forgotten
	faultLimit      = 4 * faultWeight

	wordBytes   = 64 * pageLen
	missesAsked = 16 // after a no, the system is asked about one of so many unread pages
)

func (h *residency) init(groups Section, n uint64, warm bool) {
	h.coldFirst = coldLeast
	if n > 0 {
		h.coldFirst = min(max(h.coldFirst, groups.Len/int64(n)*5/4), coldAhead)
	}
	h.off = groups.Off &^ (pageLen - 1)
	h.words = make([]atomic.Uint64, (groups.end()-h.off)/wordBytes+1)
	if warm {
		for i := range h.words {
			h.words[i].Store(^uint64(0))
		}
	}
}

// observe takes into account how long it took to touch the page at off.
func (h *residency) observe(off int64, took time.Duration) {
	if took < slowTouch {
		if h.faults.Load() > 0 {
			h.faults.Add(-1)
		}
		return
	}
	if h.faults.Add(faultWeight) < faultLimit {
		h.words[(off-h.off)/wordBytes].Store(0)
		return
	}
	h.faults.Store(0)
	for i := range h.words {
		h.words[i].Store(0)
	}
}

// has reports whether all pages of [off, off+n) were read.
func (h *residency) has(off, n int64) bool {
	first, last := (off-h.off)/pageLen, (off+n-1-h.off)/pageLen
	for page := first; page <= last; page++ {
		if h.words[page/64].Load()&(1<<(page%64)) == 0 {
			return false
		}
	}
	return true
}

// note says that the pages of [off, off+n) were read.
func (h *residency) note(off, n int64) {
	first, last := (off-h.off)/pageLen, (off+n-1-h.off)/pageLen
	for page := first; page <= last; page++ {
		h.words[page/64].Or(1 << (page % 64))
	}
}

// ask notes the pages of the wordBytes around off if all of them are in memory.
func (h *residency) ask(m *vfs.Mapping, off int64) bool {
	if h.unsure.Load() > 0 && h.unsure.Add(-1) > 0 {
		return false
	}
	word := (off - h.off) / wordBytes
	from := h.off + word*wordBytes
	if !m.Cached(from, min(wordBytes, int64(len(m.Data))-from)) {
		h.unsure.Store(missesAsked)
		return false
	}
	h.words[word].Store(^uint64(0))
	return true
}

// readCold fills b with bytes that may have to come from the device.
func (r *Reader) readCold(b []byte, off int64) error {
	cold := r.opts.Cold
	if cold == nil {
		return r.readAt(b, off)
	}
	start := time.Now()
	cold.places <- struct{}{}
	err := r.readAt(b, off)
	<-cold.places
	cold.reads.Add(1)
	cold.waited.Add(int64(time.Since(start)))
	return err
}

// ColdReads bounds and counts the reads of bytes that may have to come from
// the device. Readers may share one; it is safe for concurrent use.
type ColdReads struct {
	places        chan struct{}
	reads, waited atomic.Int64
}

// NewColdReads returns a bound of n reads at the same time.
func NewColdReads(n int) *ColdReads { return &ColdReads{places: make(chan struct{}, n)} }

// Stats returns the number of reads, and how long they took altogether, the
// wait for a place included.
func (c *ColdReads) Stats() (reads int64, waited time.Duration) {
	return c.reads.Load(), time.Duration(c.waited.Load())
}

const (
	coldLeast = 256       // the least that coldFirst can be
	coldAhead = 64 << 10  // read ahead of a cursor
	coldPiece = 256 << 10 // read at once
)

// warmAhead reads what a cursor that goes from the group at from to the one at to will
// want next in this direction, if it was not read.
func (r *Reader) warmAhead(s *scratch, from, to int64) error {
	lo, hi := to, to+coldAhead
	m := r.view()
	if m == nil || from == to || r.residency.has(to, min(2*pageLen, r.groups.end()-to)) {
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
func (r *Reader) warm(s *scratch, m *view, off, n int64) error {
	if r.residency.ask(m.Mapping, off) && r.residency.has(off, n) {
		return nil
	}
	end := min((off+n+pageLen-1)&^(pageLen-1), r.props.FileBytes)
	for at := off &^ (pageLen - 1); at < end; at += coldPiece {
		s.cold = grow(s.cold, min(coldPiece, end-at))
		if err := r.readCold(s.cold, at); err != nil {
			return err
		}
	}
	r.residency.note(off, n)
	return nil
}

// groupBytes returns the bytes from the group at off on: at least the whole group,
// unless the length in its prelude is wrong. They are valid until the next call with the
// same scratch, and may be mapped: the caller is guarded.
func (r *Reader) groupBytes(s *scratch, off int64) ([]byte, error) {
	limit := r.groups.end() - off
	if off < r.groups.Off || limit <= 0 {
		return nil, r.corrupt(off, errShort)
	}
	n := min(limit, r.residency.coldFirst)
	m := r.view()
	if m == nil {
		return r.preadGroup(s, off, limit)
	}
	if !r.residency.has(off, min(limit, preludeMax)) && !(r.residency.ask(m.Mapping, off) && r.residency.has(off, n)) {
		return r.coldGroup(s, off, n, limit)
	}
	b := m.data[off:r.groups.end()]
	var start time.Time
	s.touches++
	timed := s.touches%touchesPerTimed == 0
	if timed {
		start = time.Now()
	}
	size, _, _, err := groupSize(b) // the first touch
	if timed {
		r.residency.observe(off, time.Since(start))
	}
	if err != nil || int64(size) > limit {
		return b, nil // parse tells what is wrong
	}
	if n = int64(size); !r.residency.has(off, n) {
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
		if err := r.readCold(s.cold[at:], from+int64(at)); err != nil {
			return nil, err
		}
		r.residency.note(off, n)
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
	read := r.readAt
	if !r.residency.has(off, n) {
		read = r.readCold
	}
	s.group = grow(s.group, n)
	if err := read(s.group, off); err != nil {
		return nil, err
	}
	size, _, _, err := groupSize(s.group)
	if more := int64(size); err == nil && more > n && more <= limit {
		s.group = slices.Grow(s.group, int(more-n))[:more]
		if err := read(s.group[n:], off+n); err != nil {
			return nil, err
		}
		n = more
	}
	r.residency.note(off, n)
	return s.group, nil
}
