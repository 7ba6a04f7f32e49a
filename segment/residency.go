package segment

import (
	"slices"
	"sync/atomic"
)

// A page of a mapping that is not in memory stops the processor that touches
// it, and with it other goroutines. So a reader remembers which pages of the
// groups were read: those it touches in the mapping, the others it reads from
// the file first, where a goroutine that waits is in nobody's way. A hint that
// is wrong costs time only.
type residency struct {
	off   int64           // of page 0 in the file
	words []atomic.Uint64 // a bit a page, a word for each 256 KiB
}

func newResidency(groups Section, warm bool) residency {
	h := residency{off: groups.Off &^ (pageLen - 1)}
	h.words = make([]atomic.Uint64, (groups.end()-h.off)/(64*pageLen)+1)
	if warm {
		for i := range h.words {
			h.words[i].Store(^uint64(0))
		}
	}
	return h
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

// readCold fills b with bytes that may have to come from the device.
func (r *Reader) readCold(b []byte, off int64) error {
	if cold := r.opts.Cold; cold != nil {
		cold <- struct{}{}
		defer func() { <-cold }()
	}
	return r.readAt(b, off)
}

const (
	coldRead  = 1 << 10   // read ahead of knowing how long a group is
	coldPiece = 256 << 10 // read at once
)

// warm reads the pages of [off, off+n), which lies in the groups.
func (r *Reader) warm(s *scratch, off, n int64) error {
	end := min((off+n+pageLen-1)&^(pageLen-1), r.props.FileBytes)
	for off &^= pageLen - 1; off < end; {
		n := min(coldPiece, end-off)
		s.cold = grow(s.cold, n)
		if err := r.readCold(s.cold, off); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// groupBytes returns the bytes from the group at off on: at least the whole
// group unless the length that it gives is wrong. They are valid until the next
// call with the same scratch, and may be mapped: the caller is guarded.
func (r *Reader) groupBytes(s *scratch, off int64) ([]byte, error) {
	limit := r.groups.end() - off
	if off < r.groups.Off || limit <= 0 {
		return nil, r.corrupt(off, errShort)
	}
	n := min(limit, coldRead)
	if r.data == nil {
		return r.preadGroup(s, off, limit)
	}
	if !r.hints.has(off, min(limit, preludeMax)) {
		if err := r.warm(s, off, n); err != nil {
			return nil, err
		}
		r.hints.note(off, n)
	}
	b := r.data[off:r.groups.end()]
	size, _, _, err := groupSize(b)
	if err != nil || int64(size) > limit {
		return b, nil // parse tells what is wrong
	}
	if n = int64(size); !r.hints.has(off, n) {
		if err := r.warm(s, off, n); err != nil {
			return nil, err
		}
		r.hints.note(off, n)
	}
	return b[:size], nil
}

// preadGroup is groupBytes without a mapping.
func (r *Reader) preadGroup(s *scratch, off, limit int64) ([]byte, error) {
	const guess = 2 << 10
	n := min(limit, guess)
	read := r.readAt
	if !r.hints.has(off, n) {
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
	r.hints.note(off, n)
	return s.group, nil
}
