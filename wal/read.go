package wal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrRecycled says that a log file got another use while it was read.
var ErrRecycled = errors.New("log file was recycled while it was read")

// FileInfo describes a log file as ReadFile found it.
type FileInfo struct {
	Header  FileHeader
	Size    int64  // of the file, bytes
	Length  int64  // up to the end of the last good record, bytes
	Mark    int64  // offset up to which a record says that the file was synced
	Records int64  // good ones
	LastSeq uint64 // highest sequence in a record
	Sealed  bool   // the file is full: its last record is a seal
	// Vouches says that its length is noted or some of its records were synced, and so
	// were all of the files before it.
	Vouches bool
	// What lies at Length if that is not a clean end: a torn write, or one
	// that is under way.
	TornBytes  int64
	TornReason string
	// Dropped is what lies behind the length that the manifest notes: the store dropped
	// it when it was opened.
	Dropped Dropped
}

// ReadFile reads log file n and calls fn with each record. It locks, changes and syncs
// nothing, and works on the log of a running store. length is the length that the
// manifest notes for the file, negative if it notes none. ReadFile reads what is in the
// cache: a record that is not Vouched may not be on the disk.
//
// After an error the result has what was found before it. It is nil only if the file or
// its header cannot be read. Errors are those of Recover for this file, and ErrRecycled.
// A record's Vouched is set only if length, or a record before it, vouches for it.
func ReadFile(fs vfs.FS, dir string, n uint64, length int64, fn func(*Record) error) (*FileInfo, error) {
	s, err := openScanner(fs, dir, n, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	info := &FileInfo{Header: s.header, Size: s.limit}
	if length >= 0 {
		s.limit = min(s.limit, length)
		s.found.mark = length
		err = s.readAll(fn)
	} else if err = s.readAll(fn); err == nil {
		err = s.whole()
	}
	f := &s.found
	info.Length, info.Mark, info.Records, info.LastSeq, info.Sealed = f.end, f.mark, f.records, f.lastSeq, f.sealed
	info.Vouches, info.TornBytes, info.TornReason = length >= 0 || f.mark > fileHeaderBytes, f.torn, f.reason
	if length >= 0 && err == nil && f.end == length {
		s.limit = s.size
		info.Dropped, err = s.dropped(context.Background())
	}
	// After another use the file has another id, and none of the records read before
	// verify any more.
	if now, headErr := s.readHeader(); headErr != nil || now.ID != s.header.ID {
		return info, fmt.Errorf("%s: %w", s.file.Name(), ErrRecycled)
	}
	return info, err
}

// Reader reads records of a log file whose places are known, one by one: what lies between
// them is not read. Like ReadFile it works on the log of a running store, and a record that
// it reads may not be on the disk. Its methods are not safe for concurrent use.
type Reader struct{ s *scanner }

// refBytes is how much a Reader reads at once: records of one stream often lie close together.
const refBytes = 16 << 10

// OpenReader opens log file n. Errors: fault.ErrMissing; *fault.CorruptionError and
// fault.ErrTooNew of its header; those of the file system.
func OpenReader(fs vfs.FS, dir string, n uint64) (*Reader, error) {
	s, err := openScanner(fs, dir, n, nil)
	if err != nil {
		return nil, err
	}
	s.ahead = refBytes
	return &Reader{s}, nil
}

// At reads the record at an offset. Its payload is valid until the next call; Vouched is not
// set. If no record verifies there the error is a *fault.CorruptionError: what was written
// there is damaged, or was not a record's beginning, or the file has got another use.
func (r *Reader) At(offset int64) (Record, error) {
	s := r.s
	if offset < fileHeaderBytes || offset%alignment != 0 {
		return Record{}, fault.Corrupt(s.file.Name(), offset, "no record begins at this offset")
	}
	s.found = scanned{end: offset, mark: fileHeaderBytes}
	payload, ok, err := s.next()
	if err == nil && !ok {
		s.valid = 0 // it may have been written since the bytes around it were read
		s.found = scanned{end: offset, mark: fileHeaderBytes}
		payload, ok, err = s.next()
	}
	if err != nil {
		return Record{}, err
	}
	if !ok {
		reason := s.found.reason
		if reason == "" {
			reason = "there is no record"
		}
		return Record{}, fault.Corrupt(s.file.Name(), offset, "%s", reason)
	}
	var rec Record
	s.record(&rec, payload)
	return rec, nil
}

// Close closes the file.
func (r *Reader) Close() { r.s.close() }

func (s *scanner) readAll(fn func(*Record) error) error {
	var rec Record
	var verdict error
	for {
		payload, ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			verdict = nil
			s.record(&rec, payload)
			rec.Vouched = s.found.end <= s.found.mark
			if err := fn(&rec); err != nil {
				return err
			}
			continue
		}
		if verdict != nil {
			return verdict
		}
		if err := s.beyond(context.Background()); err != nil {
			return err
		}
		// In a file that grows, a later record may vouch for one that was not
		// there yet when its place was read: look again.
		if verdict = s.judge(); verdict == nil {
			return nil
		}
		s.again()
	}
}
