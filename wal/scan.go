package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// windowBytes is how much a scanner reads at once.
const windowBytes = 256 << 10

// scanner reads the records of one file, front to back.
type scanner struct {
	file   vfs.File
	number uint64
	size   int64 // of the file when it was opened
	header FileHeader
	place  place
	limit  int64 // end of what may be read: the file's size, or the noted length
	window []byte
	ahead  int64 // how much is read at once, bytes
	start  int64 // offset of the window in the file
	valid  int   // bytes of the window that were read
	last   header
	found  scanned
}

// scanned is what is known of a file after its records were read up to the
// first that fails, at end.
type scanned struct {
	end     int64  // offset after the last good record
	mark    int64  // highest synced-up-to offset
	records int64  // good ones, the seal included
	lastSeq uint64 // highest sequence
	sealed  bool   // the last good record is a seal
	reason  string // what is wrong at end; "" at a clean end
	torn    int64  // bytes beyond end that look like records of this file
	lost    int64  // records whose headers verify at end or beyond it
	seen    bool   // some record header verified, at end or beyond it too
}

// openScanner opens a log file and checks its header.
func openScanner(fs vfs.FS, dir string, number uint64, window []byte) (*scanner, error) {
	f, err := fs.Open(path.Join(dir, FileName(number)))
	if err != nil {
		return nil, err
	}
	s := &scanner{file: f, number: number, window: window, ahead: windowBytes}
	if err := s.begin(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *scanner) begin() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size, s.limit = info.Size, info.Size
	if s.header, err = s.readHeader(); err != nil {
		return err
	}
	if s.header.Number != s.number {
		return fault.Corrupt(s.file.Name(), 16, "this is log file %d", s.header.Number)
	}
	s.place.setID(s.header.ID)
	s.found = scanned{end: fileHeaderBytes, mark: fileHeaderBytes}
	return nil
}

func (s *scanner) readHeader() (FileHeader, error) {
	b := make([]byte, fileHeaderBytes)
	n, err := s.file.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return FileHeader{}, fault.IO("read", s.file.Name(), 0, err)
	}
	return DecodeFileHeader(s.file.Name(), b[:n])
}

// at returns up to n bytes at off, fewer where the file ends. They are valid
// until the next call.
func (s *scanner) at(off, n int64) ([]byte, error) {
	n = max(min(n, s.limit-off), 0)
	if off >= s.start && n <= s.start+int64(s.valid)-off {
		return s.window[off-s.start:][:n], nil
	}
	want := min(max(n, s.ahead), s.limit-off)
	if int64(cap(s.window)) < want {
		s.window = make([]byte, want)
	}
	s.window = s.window[:want]
	got, err := s.file.ReadAt(s.window, off)
	s.start, s.valid = off, got
	if err != nil && err != io.EOF {
		s.valid = 0
		return nil, fault.IO("read", s.file.Name(), off, err)
	}
	return s.window[:min(n, int64(got))], nil
}

// next reads the record at found.end and steps over it. It reports false if there is
// none, and sets found.reason unless that is a clean end. The payload is valid until the
// next call.
func (s *scanner) next() (payload []byte, ok bool, err error) {
	f := &s.found
	if f.sealed || f.end >= s.limit {
		return nil, false, nil
	}
	b, err := s.at(f.end, headerBytes)
	if err != nil {
		return nil, false, err
	}
	if zero(b) {
		return nil, false, nil
	}
	if len(b) < headerBytes {
		f.reason, f.torn = "the file ends in a record header", int64(len(b))
		return nil, false, nil
	}
	h := &s.last
	sum, ok := s.place.get(b, f.end, h)
	if !ok {
		f.reason, f.torn = "bad record header", headerBytes
		return nil, false, nil
	}
	// A mark counts also if the payload is damaged.
	f.seen, f.mark = true, max(f.mark, h.mark)
	padded := h.end(f.end) - f.end
	if padded > s.limit-f.end {
		f.reason, f.torn, f.lost = "the file ends in a record", s.limit-f.end, 1
		return nil, false, nil
	}
	if b, err = s.at(f.end, padded); err != nil {
		return nil, false, err
	}
	if int64(len(b)) < padded {
		f.reason, f.torn, f.lost = "the file ends in a record", int64(len(b)), 1
		return nil, false, nil
	}
	payload = b[headerBytes:h.length]
	if crc32.Checksum(payload, castagnoli) != sum {
		f.reason, f.torn, f.lost = "bad payload checksum", recordBytes(len(payload)), 1
		return nil, false, nil
	}
	if !zero(b[h.length:]) {
		f.reason, f.torn, f.lost = "bytes behind the payload are not zero", padded, 1
		return nil, false, nil
	}
	if h.typ == TypeSeal {
		if err := checkSeal(payload, f.records, f.lastSeq, f.end); err != nil {
			return nil, false, fault.Corrupt(s.file.Name(), f.end, "%w", err)
		}
		f.sealed = true
	}
	f.records++
	f.lastSeq = max(f.lastSeq, lastSeq(h.typ, h.seq, h.count))
	f.end = h.end(f.end)
	return payload, true, nil
}

// record fills r with what next returned.
func (s *scanner) record(r *Record, payload []byte) {
	*r = Record{
		Stream: s.last.stream, Type: s.last.typ, Seq: s.last.seq, Count: s.last.count, Payload: payload,
		File: s.number, Offset: s.found.end - recordBytes(len(payload)),
	}
}

// beyond looks for headers of this file's records behind found.end, where the reading
// stopped. It raises the mark to the highest one that it finds, and torn to the end of
// the last record. This tells a hole in what was synced from a write that the crash
// tore.
func (s *scanner) beyond(ctx context.Context) error {
	f := &s.found
	if f.sealed {
		return nil
	}
	var h header
	for base := f.end + alignment; s.limit-base >= headerBytes; {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Skip holes of the file: a header begins with its checksums, which are data.
		if base = s.file.NextData(base) &^ (alignment - 1); s.limit-base < headerBytes {
			return nil
		}
		b, err := s.at(base, windowBytes)
		if err != nil {
			return err
		}
		if len(b) < headerBytes {
			return nil // the file has become shorter
		}
		last := len(b) - headerBytes
		for i := 0; i <= last; i += alignment {
			if i%zeroPiece == 0 && i+zeroPiece <= len(b) && zero(b[i:i+zeroPiece]) {
				i += zeroPiece - alignment
				continue
			}
			// Both checksums of a record are zero only with a chance of 2^-64.
			if binary.LittleEndian.Uint64(b[i:]) == 0 {
				continue
			}
			if _, ok := s.place.get(b[i:], base+int64(i), &h); !ok {
				continue
			}
			f.seen, f.mark = true, max(f.mark, h.mark)
			f.lost++
			f.torn = max(f.torn, min(h.end(base+int64(i)), s.limit)-f.end)
			if f.reason == "" {
				f.reason = "records follow a place where none is"
			}
		}
		base += int64(last)&^(alignment-1) + alignment
	}
	return nil
}

// whole reports damage if the file is shorter than it was made. It is meant for a file
// whose length no manifest notes: only noted files are truncated.
func (s *scanner) whole() error {
	if s.size >= s.header.Made {
		return nil
	}
	return fault.Corrupt(s.file.Name(), s.size, "the file ends, but it was made with %d bytes", s.header.Made)
}

// dropped counts what lies behind found.end and is not delivered. Bytes that make no
// sense there end the count of records. They are no damage, since they are not needed.
func (s *scanner) dropped(ctx context.Context) (Dropped, error) {
	f := &s.found
	begin, records := f.end, f.records
	for {
		if err := ctx.Err(); err != nil {
			return Dropped{}, err
		}
		_, ok, err := s.next()
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			return Dropped{}, err
		}
		if !ok || err != nil {
			break
		}
	}
	err := s.beyond(ctx)
	return Dropped{Bytes: f.end + f.torn - begin, Records: f.records + f.lost - records}, err
}

// any reports whether the file has a record header anywhere, and whether the mark of one
// says that records before it were synced.
func (s *scanner) any(ctx context.Context) (some, vouches bool, err error) {
	f := &s.found
	for i := 0; f.mark == fileHeaderBytes; i++ {
		if i%256 == 0 && ctx.Err() != nil {
			return false, false, ctx.Err()
		}
		_, ok, err := s.next()
		if err != nil {
			return false, false, err
		}
		if !ok {
			err = s.beyond(ctx)
			return f.seen, f.mark > fileHeaderBytes, err
		}
	}
	return true, true, nil
}

// rewind makes the scanner read from the first record again.
func (s *scanner) rewind() {
	s.found = scanned{end: fileHeaderBytes, mark: fileHeaderBytes}
}

// again makes the scanner read anew at found.end, where it found no record.
func (s *scanner) again() {
	s.valid, s.found.reason, s.found.torn, s.found.lost = 0, "", 0, 0
}

// refresh makes the scanner read from the first record again. What lies behind the mark
// is then read from the disk, unless it is still to be written: a failed sync leaves
// bytes in the cache that are not on it.
func (s *scanner) refresh() {
	const page = 64 << 10 // the largest page there is; parts of a page are not dropped
	from := s.found.mark &^ (page - 1)
	s.file.Advise(from, (s.found.end-from+page-1)&^(page-1), vfs.DontNeed)
	s.valid = 0
	s.rewind()
}

// judge turns the end of reading into a verdict: nil, or corruption if bytes
// that were once durable are gone.
func (s *scanner) judge() error {
	f := &s.found
	if f.end >= f.mark {
		return nil
	}
	reason := f.reason
	if reason == "" {
		reason = "the records end"
	}
	return fault.Corrupt(s.file.Name(), f.end, "%s, but the log was synced up to offset %d", reason, f.mark)
}

func (s *scanner) close() { s.file.Close() }

// zeroPiece is how many zeros beyond passes over at once.
const zeroPiece = 4 << 10

// zeros is never written to.
var zeros [256 << 10]byte

// zero reports whether b, of len(zeros) at most, is all zeros.
func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
