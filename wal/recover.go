package wal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Recovery is what Recover found.
type Recovery struct {
	First    uint64      // number of the first file that is needed
	Files    []FileState // the files there are from First on, by number
	Closed   []Closed    // their lengths, to be noted in the manifest before Create
	LastSeq  uint64      // highest sequence in any record; 0 if there is none
	Given    uint64      // highest one that the log gave out, as far as records tell: those of TypeWrite
	Records  int64       // records delivered
	NextFile uint64      // number of the file that Create makes

	// Where the log ends, if the crash tore its last write. Nothing that was known to be
	// durable is missing. TornFile is 0 if the end is clean.
	TornFile   uint64
	TornOffset int64  // end of the last good record
	TornBytes  int64  // what is dropped of TornFile, as far as it can be told
	TornReason string // what the reader met at TornOffset
	// Dropped is all that is dropped: at TornOffset, and in the files behind a hole.
	Dropped Dropped
}

// Begins returns the number of the file with which the log begins, once Create has made its
// file.
func (r *Recovery) Begins() uint64 {
	if len(r.Closed) == 0 {
		return r.NextFile
	}
	return r.Closed[0].File
}

// FileState is a log file of an earlier run.
type FileState struct {
	Number  uint64
	Length  int64             // up to the end of the last record, bytes
	Size    int64             // of the file, bytes
	Streams map[Stream]uint64 // highest sequence of each stream with records in it
}

// PrepareRecovery makes durable what Recover is about to read, and lets it be read from the disk
// only: it syncs the log files whose length st does not note, drops their cached pages
// and syncs the directory. A process that was killed leaves records in the page cache.
// Without it a power cut could take away what Recover has already seen. It
// changes no byte.
func PrepareRecovery(fs vfs.FS, dir string, st State) error {
	numbers, err := list(fs, dir, st)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if noted(st, n) >= 0 {
			continue
		}
		f, err := fs.OpenWrite(path.Join(dir, FileName(n)))
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Advise(0, 0, vfs.DontNeed)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return fs.SyncDir(dir)
}

// Recover reads the log in dir from file st.First on and calls fn with each record, in
// order. It modifies nothing and gives the same result each time.
//
// It fails with a *fault.CorruptionError if bytes that are known to have been
// durable do not verify, or if a file is missing; with the error of the file
// system if a file cannot be read; with what fn returns. A tail that a crash
// tore is no error and is reported in the result. Records that fn got before
// an error are not to be used.
func Recover(ctx context.Context, fs vfs.FS, dir string, st State, o Options, fn func(*Record) error) (*Recovery, error) {
	r := &reader{ctx: ctx, fs: fs, dir: dir, opts: o.withDefaults(), state: st, fn: fn}
	r.first = max(st.First, 1)
	r.result = &Recovery{First: r.first}
	numbers, err := list(fs, dir, st)
	if err != nil {
		return nil, err
	}
	if err = r.checkNumbers(numbers); err != nil {
		return nil, err
	}
	tail, vouching, err := r.findTail(numbers)
	if err != nil {
		return nil, err
	}
	records := tail // index of the last file that has records
	for i, n := range numbers {
		if i > tail {
			err = r.ahead(n, i <= records)
		} else {
			var ended bool
			if ended, err = r.file(n, i < vouching, i == tail); ended {
				tail = i
			}
		}
		if err != nil {
			return nil, err
		}
	}
	r.result.NextFile = r.first + uint64(len(numbers))
	return r.result, nil
}

// list returns the numbers of the log files that st needs, ascending.
func list(fs vfs.FS, dir string, st State) ([]uint64, error) {
	bases, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, base := range bases {
		if n, ok := ParseFileName(base); ok && n >= st.First {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// noted returns the length that the manifest has for a file, or -1.
func noted(st State, n uint64) int64 {
	for _, c := range st.Closed {
		if c.File == n {
			return c.Length
		}
	}
	return -1
}

// reader is a run of Recover.
type reader struct {
	ctx    context.Context
	fs     vfs.FS
	dir    string
	opts   Options
	state  State
	first  uint64
	fn     func(*Record) error
	window []byte
	// lastWrite is the last sequence of the newest write.
	lastWrite uint64
	result    *Recovery
}

func (r *reader) missing(n uint64) error {
	return fault.Corrupt(r.fs.Path(path.Join(r.dir, FileName(n))), 0, "log file is missing")
}

// checkNumbers demands that the numbers of the files follow each other from the first
// on, and that each file whose length is noted is there.
func (r *reader) checkNumbers(numbers []uint64) error {
	for i, n := range numbers {
		if want := r.first + uint64(i); n != want {
			return r.missing(want)
		}
	}
	if len(numbers) == 0 && r.first > 1 {
		return r.missing(r.first) // State.First names a file that must exist
	}
	end := r.first + uint64(len(numbers))
	for _, c := range r.state.Closed {
		if c.File >= end {
			return r.missing(c.File)
		}
	}
	return nil
}

func (r *reader) open(n uint64) (*scanner, error) {
	s, err := openScanner(r.fs, r.dir, n, r.window)
	if err != nil {
		return nil, err
	}
	if s.header.StoreID != r.opts.StoreID {
		s.close()
		return nil, fault.Corrupt(s.file.Name(), 32, "log file of another store")
	}
	return s, nil
}

// findTail returns the index of the last file with records in it, and of the last one
// that vouches for all before it. A file vouches if its length is noted, also without
// records: Close notes it when the files before it are sealed and synced, and Recover
// notes all files. Or it vouches by a mark that says that some of its records were synced:
// they are synced only after the files before it are sealed and synced. A power cut may
// have torn each file from the vouching one on. The files after the tail were made ahead.
func (r *reader) findTail(numbers []uint64) (tail, vouching int, err error) {
	for i := len(numbers) - 1; i > 0; i-- {
		length := noted(r.state, numbers[i])
		if length >= 0 {
			vouching = max(vouching, i)
		}
		if length > fileHeaderBytes || length < 0 && i < vouching { // noted, or sealed
			return max(tail, i), vouching, nil
		} else if length >= 0 {
			continue
		}
		s, err := r.open(numbers[i])
		if err != nil {
			return 0, 0, err
		}
		var some, vouches bool
		if err = s.whole(); err == nil {
			some, vouches, err = s.any(r.ctx)
		}
		r.window = s.window
		s.close()
		if err != nil {
			return 0, 0, err
		}
		if some {
			tail = max(tail, i)
		}
		if vouches {
			return tail, i, nil
		}
	}
	return tail, vouching, nil
}

// file reads one file. durable says that a later file vouches for it, last that no
// record follows in later files. It reports whether the log ends in this file: then the
// files that follow do not continue it.
func (r *reader) file(n uint64, durable, last bool) (ended bool, err error) {
	s, err := r.open(n)
	if err != nil {
		return false, err
	}
	defer s.close()
	state := FileState{Number: n, Size: s.limit, Streams: make(map[Stream]uint64)}
	length := noted(r.state, n)
	if length >= 0 {
		s.limit = min(s.limit, length)
	} else if err = s.whole(); err != nil {
		return false, err
	}
	// A file that may end anywhere is read once: what its end tells comes after the last
	// record was delivered, and the caller uses no record if it is an error. Unless a writer
	// may be at work: then the end is found first.
	open := length < 0 && !durable
	vouched := int64(math.MaxInt64)
	var end scanned
	if open {
		vouched = 0
		if r.opts.Unsettled {
			if err = r.findEnd(s); err != nil {
				return false, err
			}
			end = s.found
			vouched, s.limit = end.mark, end.end
			s.rewind()
		}
	}
	deliver := func() error { return r.deliver(s, state.Streams, vouched) }
	if open && !r.opts.Unsettled {
		err = r.toEnd(s, deliver)
		end = s.found
	} else {
		err = deliver()
	}
	if err != nil {
		return false, err
	}
	if open {
		ended = !end.sealed
		if ended && !last && end.reason == "" {
			end.reason = "the records end without a seal, others follow in later files"
		}
		if end.reason != "" && r.result.TornFile == 0 {
			r.result.TornFile, r.result.TornOffset = n, end.end
			r.result.TornBytes, r.result.TornReason = end.torn, end.reason
		}
		r.result.Dropped.add(Dropped{Bytes: end.torn, Records: end.lost})
	}
	f := &s.found
	reason := f.reason
	if reason == "" {
		reason = "the records end"
	}
	switch {
	case length >= 0 && f.end != length:
		return false, fault.Corrupt(s.file.Name(), f.end, "%s, but the manifest notes a length of %d", reason, length)
	case length < 0 && durable && !f.sealed:
		return false, fault.Corrupt(s.file.Name(), f.end, "%s without a seal, but a later file vouches for it", reason)
	case open && f.end != end.end: // a writer has put the file to another use since its end was found
		return false, fault.Corrupt(s.file.Name(), f.end, "%s, but there were records up to offset %d", reason, end.end)
	}
	state.Length = f.end
	r.result.Files = append(r.result.Files, state)
	r.result.Closed = append(r.result.Closed, Closed{File: n, Length: f.end})
	r.window = s.window
	return ended, nil
}

// ahead notes a file that was made ahead, or whose records follow a hole that a power
// cut left in a file before it. Its records are not delivered. A live writer may have
// put some there since findTail looked: they are left out too, since of the file before
// it only a part may have been read. records says that findTail saw some.
func (r *reader) ahead(n uint64, records bool) error {
	s, err := r.open(n)
	if err != nil {
		return err
	}
	defer s.close()
	length := noted(r.state, n)
	if length > s.limit {
		return fault.Corrupt(s.file.Name(), s.limit, "the file ends, but the manifest notes a length of %d", length)
	}
	if length < 0 && records {
		lost, err := s.dropped(r.ctx)
		if err != nil {
			return err
		}
		r.result.Dropped.add(lost)
		r.window = s.window
	} else if length < 0 {
		if err := s.whole(); err != nil {
			return err
		}
		_, _, err := s.next()
		if err == nil && s.found.reason != "" && r.opts.Unsettled { // it may have been written since
			s.again()
			_, _, err = s.next()
		}
		if err != nil {
			return err
		}
		if s.found.reason != "" && r.result.TornFile == 0 {
			r.result.TornFile, r.result.TornOffset = n, s.found.end
			r.result.TornBytes, r.result.TornReason = s.found.torn, s.found.reason
			r.result.Dropped.add(Dropped{Bytes: s.found.torn})
		}
	}
	r.result.Files = append(r.result.Files, FileState{Number: n, Length: fileHeaderBytes, Size: s.size})
	r.result.Closed = append(r.result.Closed, Closed{File: n, Length: fileHeaderBytes})
	return nil
}

// findEnd finds where the records end of a file on which a writer may be at work.
func (r *reader) findEnd(s *scanner) error {
	if err := r.verify(s); err != nil || s.found.end <= s.found.mark {
		return err
	}
	return r.settle(s)
}

// verify reads a file that may end anywhere and finds where it ends.
func (r *reader) verify(s *scanner) error {
	return r.toEnd(s, func() error {
		for {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if _, ok, err := s.next(); err != nil || !ok {
				return err
			}
		}
	})
}

// toEnd reads a file that may end anywhere. read takes the records from s up to the first
// that fails, and toEnd looks behind that one. Where damage is found it looks again: a writer
// may have written the record since its place was read, and synced it before it wrote the
// one that vouches for it. So what is not there at the second look is damage. In a file that
// nobody writes to, the second look finds what the first one found, and the verdict stays.
// Beside a writer, what looks torn is looked at again too: it may have been written since.
func (r *reader) toEnd(s *scanner, read func() error) error {
	var verdict error
	for again := false; ; again = true {
		end := s.found.end
		if err := read(); err != nil {
			return err
		}
		same := again && s.found.end == end
		if verdict != nil && same {
			return verdict
		}
		if err := s.beyond(r.ctx); err != nil {
			return err
		}
		verdict = s.judge()
		if verdict == nil && (same || s.found.reason == "" || !r.opts.Unsettled) {
			return nil
		}
		s.again()
	}
}

// settle makes durable the records that s has found in a file and no mark vouches for,
// and reads them again, from the disk: what an earlier sync has lost is not there. A
// writer may have gone on meanwhile: what follows was not synced and is left out. If the
// system lets no reader sync, all records count as durable.
func (r *reader) settle(s *scanner) error {
	first := s.found
	err := s.file.Sync()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.limit = first.mark
		s.rewind()
		if verifyErr := r.verify(s); verifyErr != nil {
			return verifyErr
		}
		f := &s.found
		f.reason, f.torn = fmt.Sprintf("the records that follow cannot be synced: %v", err), first.end+first.torn-f.end
		f.lost = first.records + first.lost - f.records
		return nil
	}
	s.refresh()
	if err := r.verify(s); err != nil {
		return err
	}
	if f := &s.found; f.end > first.end {
		f.end, f.sealed, f.reason, f.torn, f.lost = first.end, false, "", 0, 0
	}
	return nil
}

// deliver passes the records of a file to fn.
func (r *reader) deliver(s *scanner, streams map[Stream]uint64, vouched int64) error {
	var rec Record
	for i := 0; ; i++ {
		if i%256 == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		payload, ok, err := s.next()
		if err != nil || !ok {
			return err
		}
		s.record(&rec, payload)
		rec.Vouched = s.found.end <= max(vouched, s.found.mark)
		if rec.Type == TypeWrite && rec.Count > 0 {
			if rec.Seq <= r.lastWrite {
				return fault.Corrupt(s.file.Name(), rec.Offset, "sequence %d after %d", rec.Seq, r.lastWrite)
			}
			r.lastWrite = rec.Last()
		}
		if rec.Type == TypeWrite || rec.Type == TypeCarried || rec.Type == TypeFence {
			streams[rec.Stream] = max(streams[rec.Stream], rec.Last())
		}
		r.result.LastSeq = max(r.result.LastSeq, rec.Last())
		if rec.Type == TypeWrite {
			r.result.Given = max(r.result.Given, rec.Last())
		}
		r.result.Records++
		if err := r.fn(&rec); err != nil {
			return err
		}
	}
}
