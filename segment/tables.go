package segment

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
)

// tablePages are the pages between the groups and the checksums section, each
// of which has a checksum. A page is verified when it is first touched.
type tablePages struct {
	off, end int64 // in the file
	sums     []byte
	checked  []atomic.Uint64 // a bit a page
}

func newTablePages(off, end int64, sums []byte) tablePages {
	return tablePages{off: off, end: end, sums: sums, checked: make([]atomic.Uint64, len(sums)/4/64+1)}
}

func (t *tablePages) isChecked(page int64) bool {
	return t.checked[page/64].Load()&(1<<(page%64)) != 0
}

func (t *tablePages) check(page int64, b []byte) bool {
	if checksum(b) != binary.LittleEndian.Uint32(t.sums[4*page:]) {
		return false
	}
	t.checked[page/64].Or(1 << (page % 64))
	return true
}

// forget marks all pages as not verified.
func (t *tablePages) forget() {
	for i := range t.checked {
		t.checked[i].Store(0)
	}
}

// table returns n verified bytes of the tables, valid until the next call with
// the same scratch. They may be mapped: the caller is guarded.
func (r *Reader) table(s *scratch, at, n int64) ([]byte, error) {
	if err := r.file.Broken(); err != nil {
		return nil, err
	}
	t := &r.tables
	if at < t.off || n < 1 || n > t.end-at {
		return nil, r.corrupt(at, errRange)
	}
	first, last := (at-t.off)/pageLen, (at+n-1-t.off)/pageLen
	for page := first; page <= last; page++ {
		if !t.isChecked(page) {
			if err := r.checkPage(s, page); err != nil {
				return nil, err
			}
		}
	}
	if m := r.file.View(); m != nil {
		return m.Data[at : at+n], nil
	}
	s.table = grow(s.table, n)
	return s.table, r.file.ReadAt(s.table, at)
}

// checkPage verifies a page of the tables. It reads the page from the file first, so
// that the mapping need not fetch it.
func (r *Reader) checkPage(s *scratch, page int64) error {
	at := r.tables.off + page*pageLen
	n := min(pageLen, r.tables.end-at)
	var b []byte
	m := r.file.View()
	if m == nil || !r.opts.Warm {
		s.cold = grow(s.cold, n)
		if err := r.file.ReadCold(s.cold, at); err != nil {
			return err
		}
		b = s.cold
	}
	if m != nil {
		b = m.Data[at : at+n]
	}
	if !r.tables.check(page, b) {
		return r.corrupt(at, errPage)
	}
	return nil
}

// readTable returns a copy of n bytes of the tables, read from the file.
func (r *Reader) readTable(at, n int64) ([]byte, error) {
	t := &r.tables
	if at < t.off || n < 1 || n > t.end-at {
		return nil, r.corrupt(at, errRange)
	}
	start := t.off + (at-t.off)/pageLen*pageLen
	end := min(t.end, t.off+(at+n-t.off+pageLen-1)/pageLen*pageLen)
	b := make([]byte, end-start)
	if err := r.file.ReadCold(b, start); err != nil {
		return nil, err
	}
	for i := int64(0); i < int64(len(b)); i += pageLen {
		if !t.check((start+i-t.off)/pageLen, b[i:min(i+pageLen, int64(len(b)))]) {
			return nil, r.corrupt(start+i, errPage)
		}
	}
	return b[at-start : at-start+n], nil
}

// tableWriter writes the tables and computes the checksums of their pages.
type tableWriter struct {
	w    *Writer
	open bool
	page int // bytes of the page being filled
	crc  uint32
	sums []byte
}

// begin starts a section after ending the one before it.
func (t *tableWriter) begin(kind SectionKind) {
	t.end(0)
	t.w.sections = append(t.w.sections, Section{Kind: kind, Off: t.w.offset()})
	t.open = true
}

// end completes the open section, with padding.
func (t *tableWriter) end(crc uint32) {
	if !t.open {
		return
	}
	t.open = false
	s := &t.w.sections[len(t.w.sections)-1]
	s.Len, s.CRC = t.w.offset()-s.Off, crc
	t.write(make([]byte, aligned(t.w.offset())-t.w.offset()))
}

func (t *tableWriter) write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), pageLen-t.page)
		t.crc = crc32.Update(t.crc, castagnoli, b[:n])
		t.w.buf = append(t.w.buf, b[:n]...)
		b = b[n:]
		if t.page += n; t.page == pageLen {
			t.endPage()
			if t.w.spill(false) != nil {
				t.w.buf = t.w.buf[:0]
			}
		}
	}
}

func (t *tableWriter) endPage() {
	t.sums = binary.LittleEndian.AppendUint32(t.sums, t.crc)
	t.page, t.crc = 0, 0
}

func (t *tableWriter) finish() []byte {
	t.end(0)
	if t.page > 0 {
		t.endPage()
	}
	return t.sums
}
