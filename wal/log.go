package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrTooLarge says that a record exceeds Options.MaxRecordBytes or has more
// sequences than a header can count.
var ErrTooLarge = errors.New("log record too large")

// ErrNoFile says that MakeFile must be called first: the file for a record has not been
// made yet, or what was appended before waits for space on the disk.
var ErrNoFile = errors.New("log file is not made yet")

// ErrClosed says that the log is closed.
var ErrClosed = errors.New("log is closed")

// ErrStalled says that the disk has no space for records that were appended, on a file
// system where overwriting takes space. The records stay in memory. When there is space,
// the next call that appends, waits or syncs writes them, so ErrStalled comes with
// fault.ErrOutcomeUnknown. Until then the log takes no more records.
var ErrStalled = errors.New("no space for what was appended to the log")

// Log is a log that is written to. Its methods are safe for concurrent use.
//
// Locks, in the order in which they are taken:
//
//	write    for writing to files; held over pwrite
//	sync     for syncing; held over fsync
//	mu       for appending; held over a copy into memory
//	maker    for making and recycling files; held over their making
//	sealed   the list of full files
//	live     the list of files
//
// A holder of write or mu waits for neither a sync nor the making of a file. A writer
// waits for sync if it asked for one, and for maker if its record needs a file that is
// not there.
//
// group orders the goroutines that wait for a sync. While it is held, no other lock is
// taken.
type Log struct {
	fs   vfs.FS
	dir  string
	opts Options

	dropped Dropped // before Create
	failed  atomic.Pointer[failure]
	stalled atomic.Bool // there is no space for what was appended

	// Ends of what was appended, written to the kernel, made durable.
	appended, written, synced atomic.Int64
	lastSeq                   atomic.Uint64
	lacking                   atomic.Int64 // size of the largest record that found no file

	write struct {
		sync.Mutex
		chunks []chunk // not written yet; none between calls, unless the log is stalled
		at     extent  // end of what was written
	}
	sync   sync.Mutex
	sealed sealed
	mu     struct {
		sync.Mutex
		file   *file  // takes the next record
		offset int64  // at which it goes
		buf    []byte // records of file that no chunk has yet
		start  int64  // offset of buf in file
		full   []chunk
		free   [][]byte
		place  place // of the records in file
		closed bool
	}
	group group
	maker maker
	live  live
	count counters
}

// extent is a place in a file and in the log.
type extent struct {
	file *file
	off  int64
	pos  Position
}

// chunk is a piece of the log that is to be written.
type chunk struct {
	extent        // its end
	start  int64  // its offset in the file
	buf    []byte // its bytes
	seals  bool   // the file is complete with it
}

// file is a log file that is written to.
type file struct {
	vfs.File
	number uint64
	id     uint64
	size   int64             // records must end below
	memory *vfs.WriteMapping // guarded by Log.write; nil: none
	synced atomic.Int64      // durable length
	// filled is the offset up to which the space of the file is known to have been
	// written before: a sync below it changes no metadata. Guarded by Log.sync.
	filled int64

	// Guarded by Log.mu.
	streams  map[Stream]uint64 // highest sequence of each
	records  int64
	lastSeq  uint64 // highest sequence in a record
	lastEnd  int64  // end of the last record that is not a vouch
	vouched  int64  // highest mark in a record
	behind   bool   // it follows a file with records that no mark of that file vouches for
	nextWish int64  // offset at which background work is asked for next
}

// Close closes the file and its mapping. No goroutine may be writing to it.
func (f *file) Close() error {
	err := f.unmap()
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}

// unmap gives the mapping back, if there is one.
func (f *file) unmap() error {
	if f.memory == nil {
		return nil
	}
	memory := f.memory
	f.memory = nil
	return memory.Unmap()
}

// wishEvery returns after how many bytes background work is asked for: often, so that a
// power cut loses little of what is not synced.
func (f *file) wishEvery() int64 { return min(f.size/4, syncAheadBytes) }

// failure is why a log takes no more records.
type failure struct{ cause error }

// pendingBytes is how much may wait in memory before Append writes it.
const pendingBytes = 1 << 20

// keptBufferBytes is the size above which a buffer is not used again.
const keptBufferBytes = 4 << 20

// Create starts a new file behind the files that Recover found. Before that the manifest
// must note their lengths (Recovery.Closed). nextSeq is the first sequence that Append
// gives out; 0 stands for 1. The zero Recovery is that of a log without files.
func Create(fs vfs.FS, dir string, rec *Recovery, nextSeq uint64, o Options) (*Log, error) {
	l := &Log{fs: fs, dir: dir, opts: o.withDefaults(), dropped: rec.Dropped}
	l.lastSeq.Store(max(nextSeq, 1) - 1)
	l.group.init()
	l.maker.init(l, max(rec.NextFile, 1))
	l.live.init(rec)
	if err := l.maker.adopt(rec.First); err != nil {
		return nil, err
	}
	if err := l.maker.prepare(0, true); err != nil {
		return nil, err
	}
	f := l.maker.take(0)
	l.live.add(f)
	l.useLocked(f)
	l.write.at = extent{file: f, off: fileHeaderBytes}
	return l, nil
}

// sealed is the list of full files that are written and not yet synced, oldest first. A
// sync begins with them: a file is synced only after those before it.
type sealed struct {
	sync.Mutex
	ends []extent
}

func (s *sealed) add(e extent) {
	s.Lock()
	s.ends = append(s.ends, e)
	s.Unlock()
}

// oldest returns the end of the oldest full file, if it lies at pos or before.
func (s *sealed) oldest(pos Position) (extent, bool) {
	s.Lock()
	defer s.Unlock()
	if len(s.ends) == 0 || s.ends[0].pos > pos {
		return extent{}, false
	}
	return s.ends[0], true
}

// remove removes the oldest.
func (s *sealed) remove() {
	s.Lock()
	s.ends = s.ends[1:]
	s.Unlock()
}

// useLocked makes f the file that takes records. mu is held.
func (l *Log) useLocked(f *file) {
	l.mu.file, l.mu.offset, l.mu.start = f, fileHeaderBytes, fileHeaderBytes
	l.mu.place.setID(f.id)
	f.streams = make(map[Stream]uint64)
	f.lastEnd, f.vouched = fileHeaderBytes, fileHeaderBytes
	f.nextWish = f.wishEvery()
}

// Append puts a record at the end of the log, in memory: Wait writes it. The
// payload is head and body, which are copied. It gives count sequences in a
// row and returns the first; count 0 gives none and returns the last one that
// was given. pos is the end of the record.
//
// Sequences, positions and the order in the files are one order. On an error
// nothing was appended and no sequence given: fault.ErrDiskFull if there is no
// space for another file, ErrTooLarge, ErrClosed, or fault.ErrFailed.
func (l *Log) Append(s Stream, t Type, count uint32, head, body []byte) (seq uint64, pos Position, err error) {
	for {
		seq, pos, err = l.AppendNow(s, t, count, head, body)
		if err != ErrNoFile {
			return seq, pos, err
		}
		if err = l.MakeFile(); err != nil {
			return 0, 0, err
		}
	}
}

// AppendNow is Append for a caller with a lock that others wait for. If a file would
// have to be made first, or the disk is full, it returns ErrNoFile. The caller then
// releases the lock, calls MakeFile, and begins again.
func (l *Log) AppendNow(s Stream, t Type, count uint32, head, body []byte) (seq uint64, pos Position, err error) {
	if count > maxCount {
		return 0, 0, fmt.Errorf("%d sequences: %w", count, ErrTooLarge)
	}
	if t != TypeWrite && t != TypeFence && t != TypeVouch {
		return 0, 0, fmt.Errorf("Append takes no record of %v", t)
	}
	seq, pos, _, err = l.append(header{stream: s, typ: t, count: count}, head, body)
	return seq, pos, err
}

// AppendCarried appends a record of versions that have their sequences already, none
// above highest. It returns the end of the record and where the record is.
func (l *Log) AppendCarried(s Stream, highest uint64, body []byte) (pos Position, at Ref, err error) {
	for {
		pos, at, err = l.AppendCarriedNow(s, highest, body)
		if err != ErrNoFile {
			return pos, at, err
		}
		if err = l.MakeFile(); err != nil {
			return 0, Ref{}, err
		}
	}
}

// AppendCarriedNow is AppendCarried for a caller with a lock: see AppendNow.
func (l *Log) AppendCarriedNow(s Stream, highest uint64, body []byte) (pos Position, at Ref, err error) {
	_, pos, at, err = l.append(header{stream: s, typ: TypeCarried, seq: highest}, nil, body)
	return pos, at, err
}

// MakeFile makes the file that an append found missing, or writes what a full disk
// has left in memory. After an error that matches fault.ErrDiskFull nothing has changed.
func (l *Log) MakeFile() error {
	if l.stalled.Load() {
		if err := l.flush(l.Appended()); err != nil {
			return l.refusal(err)
		}
	}
	if size := l.lacking.Swap(0); size > 0 {
		return l.maker.prepare(size, false)
	}
	return nil
}

func (l *Log) append(h header, head, body []byte) (seq uint64, pos Position, at Ref, err error) {
	payload := len(head) + len(body)
	if int64(payload) > l.opts.MaxRecordBytes {
		return 0, 0, Ref{}, fmt.Errorf("payload of %d bytes, limit %d: %w", payload, l.opts.MaxRecordBytes, ErrTooLarge)
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
	h.length = headerBytes + int64(payload)
	size := recordBytes(payload)

	l.mu.Lock()
	for {
		if err := l.appendableLocked(); err != nil {
			l.mu.Unlock()
			return 0, 0, Ref{}, err
		}
		if l.stalled.Load() {
			l.mu.Unlock()
			return 0, 0, Ref{}, ErrNoFile
		}
		end := l.Appended()
		if waiting := int64(end - l.Written()); waiting > 0 && waiting+size > pendingBytes {
			// Bound what waits in memory: write it first.
			l.mu.Unlock()
			if err := l.flush(end); err != nil {
				return 0, 0, Ref{}, l.refusal(err)
			}
			l.mu.Lock()
			continue
		}
		if size <= l.mu.file.size-sealBytes-l.mu.offset {
			break
		}
		if next := l.maker.take(size); next != nil {
			l.rotateLocked(next)
			break
		}
		l.lacking.Store(max(l.lacking.Load(), size))
		l.mu.Unlock()
		return 0, 0, Ref{}, ErrNoFile
	}
	f := l.mu.file
	last := l.lastSeq.Load()
	switch {
	case h.typ == TypeCarried:
	case h.count == 0:
		h.seq = last
	default:
		if uint64(h.count) > math.MaxUint64-last {
			l.mu.Unlock()
			return 0, 0, Ref{}, fmt.Errorf("sequences are used up: %w", ErrTooLarge)
		}
		h.seq = last + 1
		last += uint64(h.count)
	}
	at = Ref{f.number, l.mu.offset}
	end := l.putLocked(&h, sum, head, body)
	if h.typ != TypeVouch {
		f.lastEnd = l.mu.offset
		f.streams[h.stream] = max(f.streams[h.stream], lastSeq(h.typ, h.seq, h.count))
	}
	l.appended.Store(int64(end))
	l.lastSeq.Store(last)
	if l.mu.offset >= f.nextWish {
		f.nextWish += f.wishEvery()
		l.maker.wish()
	}
	l.mu.Unlock()
	return h.seq, end, at, nil
}

// appendableLocked says why nothing can be appended.
func (l *Log) appendableLocked() error {
	if f := l.failed.Load(); f != nil {
		return f.refuse()
	}
	if l.mu.closed {
		return ErrClosed
	}
	return nil
}

// putLocked copies a record to the end of the buffer; the file has space for
// it. It returns the record's end.
func (l *Log) putLocked(h *header, sum uint32, head, body []byte) Position {
	f := l.mu.file
	h.mark = f.synced.Load()
	size := recordBytes(int(h.length - headerBytes))
	n := len(l.mu.buf)
	l.mu.buf = extend(l.mu.buf, int(size))
	b := l.mu.buf[n:]
	l.mu.place.put(b, l.mu.offset, h, sum)
	used := headerBytes + copy(b[headerBytes:], head)
	used += copy(b[used:], body)
	clear(b[used:])
	l.mu.offset += size
	f.records++
	f.lastSeq = max(f.lastSeq, lastSeq(h.typ, h.seq, h.count))
	f.vouched = max(f.vouched, h.mark)
	l.count.records.Add(1)
	return Position(l.appended.Load() + size)
}

// extend makes b n bytes longer and does not clear the new bytes. There is always space
// for a terminator behind them.
func extend(b []byte, n int) []byte {
	need := len(b) + n + terminatorBytes
	if need > cap(b) {
		grown := make([]byte, len(b), max(need, 2*cap(b), 64<<10))
		copy(grown, b)
		b = grown
	}
	return b[:len(b)+n]
}

// rotateLocked seals the file and goes on to next. next must exist, durably, before the
// seal is appended: so a full disk changes nothing.
func (l *Log) rotateLocked(next *file) {
	f := l.mu.file
	var seal [sealPayloadBytes]byte
	payload := appendSeal(seal[:0], f.records, f.lastSeq, l.mu.offset)
	h := header{length: headerBytes + sealPayloadBytes, typ: TypeSeal, seq: f.lastSeq}
	end := l.putLocked(&h, crc32.Checksum(payload, castagnoli), payload, nil)
	l.appended.Store(int64(end))
	l.mu.full = append(l.mu.full, chunk{
		extent: extent{file: f, off: l.mu.offset, pos: end},
		start:  l.mu.start, buf: l.mu.buf, seals: true,
	})
	l.mu.buf = l.bufferLocked()
	next.behind = f.unvouchedLocked()
	l.live.add(next)
	l.useLocked(next)
	l.maker.wish() // to sync the full one
}

// unvouchedLocked says whether records of the file, or of those before it, have no mark that vouches for
// them. A mark above the header vouches for the files before its file.
func (f *file) unvouchedLocked() bool {
	return f.lastEnd > f.vouched || f.behind && f.vouched == fileHeaderBytes
}

// bufferLocked returns an empty buffer.
func (l *Log) bufferLocked() []byte {
	n := len(l.mu.free)
	if n == 0 {
		return nil
	}
	b := l.mu.free[n-1]
	l.mu.free = l.mu.free[:n-1]
	return b
}

// fail makes the log refuse all further work. It returns the error of the calls whose
// records were under way.
func (l *Log) fail(cause error) error {
	l.failed.CompareAndSwap(nil, &failure{cause})
	return l.failed.Load().unknown()
}

// unknown returns the error of calls whose records may or may not survive.
func (f *failure) unknown() error {
	return fmt.Errorf("log: %w", fault.Outcome(fault.ErrOutcomeUnknown, f.cause))
}

// stallError is the error of calls whose records were appended and found no space.
type stallError struct{ cause error }

func (e *stallError) Error() string { return "log: " + ErrStalled.Error() + ": " + e.cause.Error() }

// Is matches ErrStalled, fault.ErrOutcomeUnknown, and the cause, except
// fault.ErrDiskFull.
func (e *stallError) Is(target error) bool {
	return target == ErrStalled || errors.Is(fault.Outcome(fault.ErrOutcomeUnknown, e.cause), target)
}

// As finds the first error of the cause that fits target.
func (e *stallError) As(target any) bool { return errors.As(e.cause, target) }

// refusal turns err into the error of a call that has no record among those that could
// not be written. If these found no space, it says that the disk is full.
func (l *Log) refusal(err error) error {
	if f := l.failed.Load(); f != nil {
		return f.refuse()
	}
	if stall, ok := err.(*stallError); ok {
		return fmt.Errorf("log: %w", stall.cause)
	}
	return err
}

// refuse returns the error of calls that come after the failure.
func (f *failure) refuse() error {
	return fmt.Errorf("log: %w", fault.Outcome(fault.ErrFailed, f.cause))
}

// LastSeq returns the newest sequence that was given out. The record that has
// it lies below a position that Appended returns afterwards.
func (l *Log) LastSeq() uint64 { return l.lastSeq.Load() }

// Appended returns the end of the newest record.
func (l *Log) Appended() Position { return Position(l.appended.Load()) }

// Written returns the position up to which records were written to the kernel: the end
// of the process loses none of them.
func (l *Log) Written() Position { return Position(l.written.Load()) }

// Synced returns the position up to which records are durable.
func (l *Log) Synced() Position { return Position(l.synced.Load()) }
