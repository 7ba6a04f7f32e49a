package openfile

import (
	"sync/atomic"
	"time"
)

// Residency remembers which pages of a file are in memory. A page of a mapping that is
// not stops the processor that touches it, and with it other goroutines. So the caller
// touches in the mapping what Has knows, and reads the rest from the file first: a
// goroutine that waits there stops no other. No system call is made for a page that was
// read before.
//
// A file that was in use before it was opened may be in memory as a whole. So at a page
// that was not read the system is asked about the 256 KiB around it. A store larger than
// memory would pay for these calls and hardly ever gain. So after a no the system is not
// asked about the next unread pages.
//
// A hint is wrong once the system has dropped the page. So the caller times a touch now
// and then (Observe). If it is so slow that a device must have been asked, the hints of
// its 256 KiB are taken back; after several slow ones, those of the whole file. A wrong
// hint costs time only.
type Residency struct {
	Slow   time.Duration   // what the touch of a page takes at least that is not in memory; of Init
	off    int64           // of page 0 in the file
	words  []atomic.Uint64 // a bit a page, a word for each wordBytes
	faults atomic.Int32    // slow touches lately
	unsure atomic.Int32    // reads of unread pages until the system is asked again
}

const (
	slowTouch   = 40 * time.Microsecond
	faultWeight = 8 // timed touches after which a slow one is forgotten
	faultLimit  = 4 * faultWeight

	pageLen     = 4 << 10
	wordBytes   = 64 * pageLen
	missesAsked = 16 // after a no, the system is asked about one of so many unread pages
)

// Init sets it up for the bytes of [off, end). warm: all of them are in memory.
func (h *Residency) Init(off, end int64, warm bool) {
	h.off, h.Slow = off&^(pageLen-1), slowTouch
	h.words = make([]atomic.Uint64, (end-h.off)/wordBytes+1)
	if warm {
		for i := range h.words {
			h.words[i].Store(^uint64(0))
		}
	}
}

// Observe takes into account how long it took to touch the page at off.
func (h *Residency) Observe(off int64, took time.Duration) {
	if took < h.Slow {
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

// Has reports whether all pages of [off, off+n) were read.
func (h *Residency) Has(off, n int64) bool {
	first, last := (off-h.off)/pageLen, (off+n-1-h.off)/pageLen
	if first/64 == last/64 { // one word has the hints of all of them, as nearly always
		bits := uint64(1<<(last-first+1)-1) << (first % 64)
		return h.words[first/64].Load()&bits == bits
	}
	for page := first; page <= last; page++ {
		if h.words[page/64].Load()&(1<<(page%64)) == 0 {
			return false
		}
	}
	return true
}

// Note says that the pages of [off, off+n) were read.
func (h *Residency) Note(off, n int64) {
	first, last := (off-h.off)/pageLen, (off+n-1-h.off)/pageLen
	for page := first; page <= last; page++ {
		h.words[page/64].Or(1 << (page % 64))
	}
}

// Ask notes the pages of the wordBytes around off if all of them are in memory.
func (h *Residency) Ask(v *View, off int64) bool {
	if h.unsure.Load() > 0 && h.unsure.Add(-1) > 0 {
		return false
	}
	word := (off - h.off) / wordBytes
	from := h.off + word*wordBytes
	if m := v.mapping; !m.Cached(from, min(wordBytes, int64(len(m.Data))-from)) {
		h.unsure.Store(missesAsked)
		return false
	}
	h.words[word].Store(^uint64(0))
	return true
}
