package wal

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
)

// maker makes log files: new ones, or out of old ones that are not needed any more. Its
// lock is held while a file is made, synced and renamed. A caller that waits for the
// lock has found no file that was made ahead, and waits for this one.
//
// A file is made under a temporary name: space, header, sync, then the rename and the
// sync of the directory. So a log file always has a whole header. Behind it there are
// zeros, or its own records, or what an earlier use left behind them.
//
// A sync after overwriting blocks that were written before costs half of a sync after
// growing the file or filling reserved blocks. A write to such blocks costs about 0.8 of
// 2.1 microseconds less, since its pages are in the cache already. So files are used
// again. While synced writes come, a file made ahead is filled with zeros. Otherwise it
// is mapped, and grows into reserved space.
type maker struct {
	sync.Mutex
	log    *Log
	number uint64  // of the file to be made
	size   int64   // of the file to be made
	spares []spare // files to be used again
	coming int     // places that are reserved for files on their way to spares
	waits  int64   // count of synced waits when the last file was made
	busy   bool    // many synced waits came between the making of the last two files
	closed bool

	next   atomic.Pointer[file] // made ahead, under its name; nil: none
	idle   atomic.Int64         // spares
	hurry  atomic.Bool          // a caller waits for the file that is being made
	wanted chan struct{}
}

// spare is a file without use. Its content does not matter.
type spare struct {
	name   string // path in the FS
	size   int64
	filled int64 // offset up to which it is known to have been written; 0: unknown
}

const (
	// maxSpares bounds the files that wait for another use.
	maxSpares = 2
	// fewWaits is how many synced waits a file must see for the next one to
	// be filled ahead.
	fewWaits = 16
	// fillAtOnce is the size up to which a file is filled although a caller waits for
	// it.
	fillAtOnce = 1 << 20
	// fillPiece is how much of a file is filled and synced at a time, so that syncs of
	// the log need not wait until all of it is filled.
	fillPiece = 1 << 20
	// mostRest is for how long the device is left to others after a piece, at most.
	mostRest = 50 * time.Millisecond
	// mappedAtMost is the size up to which a file is mapped. A single large record may
	// make a file huge.
	mappedAtMost = 128 << 20
	// readAheadBytes is the piece in which a file is read ahead.
	readAheadBytes = 1 << 20
	// syncAheadBytes is how much may be unsynced before MakeSpare syncs, so that a power
	// cut loses little of what was written without a sync.
	syncAheadBytes = 4 << 20
)

func (m *maker) init(l *Log, number uint64) {
	m.log, m.number, m.size = l, number, l.opts.FirstFileBytes
	m.wanted = make(chan struct{}, 1)
}

// SpareWanted returns a channel that has a value when MakeSpare has something
// to do.
func (l *Log) SpareWanted() <-chan struct{} { return l.maker.wanted }

func (m *maker) wish() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

// MakeSpare does ahead what would hold up Append and Wait when the file is full: it
// makes the next file, and syncs if much is unsynced or a file is full. It is meant for
// a goroutine in the background. An error leaves the log as it was, unless the log has
// failed.
func (l *Log) MakeSpare(ctx context.Context) error {
	if err := l.maker.makeAhead(ctx); err != nil {
		return err
	}
	_, full := l.sealed.oldest(l.Written())
	if full || l.Appended()-l.Synced() >= syncAheadBytes {
		return l.Sync()
	}
	return nil
}

func (m *maker) makeAhead(ctx context.Context) error {
	m.Lock()
	defer m.Unlock()
	if m.next.Load() != nil || m.closed {
		return nil
	}
	busy := m.busyLocked()
	f, err := m.makeLocked(ctx, m.size, busy)
	if err != nil {
		return err
	}
	if !busy {
		m.mapAhead(ctx, f)
	}
	m.next.Store(f)
	return nil
}

// busyLocked reports whether many synced waits came since the last file was made, or
// between the making of the last two files.
func (m *maker) busyLocked() bool { return m.busy || m.log.count.waits.Load()-m.waits >= fewWaits }

// fitting returns how large a file must be for a record of size bytes.
func fitting(size int64) int64 { return size + fileHeaderBytes + sealBytes }

// take returns the next file if it is made and has space for a record of size bytes.
// nil: call prepare. It never waits.
func (m *maker) take(size int64) *file {
	f := m.next.Load()
	if f == nil || f.size < fitting(size) || !m.next.CompareAndSwap(f, nil) {
		return nil
	}
	return f
}

// prepare makes the next file for a caller that waits for it, with space for a record of
// size bytes.
func (m *maker) prepare(size int64, fill bool) error {
	m.hurry.Store(true)
	m.Lock()
	defer m.Unlock()
	m.hurry.Store(false)
	if m.closed {
		return ErrClosed
	}
	size = fitting(size)
	f := m.next.Swap(nil) // so that take does not get it meanwhile
	var err error
	switch {
	case f == nil:
		f, err = m.makeFitLocked(size, fill)
	case f.size < size:
		f, err = m.replaceLocked(f, size, fill)
	}
	if err == nil {
		m.next.Store(f)
	}
	return err
}

// replaceLocked makes a larger file in place of one that was made ahead, whose header could
// not be changed in one piece. The name is there all the time, for a reader that has listed
// it, unless the space of the old file is needed.
func (m *maker) replaceLocked(old *file, size int64, fill bool) (*file, error) {
	m.number = old.number
	if err := old.Close(); err != nil {
		return nil, err
	}
	f, err := m.makeFitLocked(size, fill)
	if errors.Is(err, fault.ErrDiskFull) {
		if err = m.log.fs.Remove(path.Join(m.log.dir, FileName(old.number))); err == nil {
			f, err = m.makeFitLocked(size, fill)
		}
	}
	return f, err
}

// makeFitLocked makes the next file while a caller waits for it. It has at least size
// bytes. If the disk has no room for a file of the usual size, it is smaller.
func (m *maker) makeFitLocked(size int64, fill bool) (*file, error) {
	for want := max(m.size, size); ; want = max(want/2, size) {
		f, err := m.makeLocked(context.Background(), want, want <= fillAtOnce && (fill || m.busyLocked()))
		if err == nil || want <= max(size, minFileBytes) || !errors.Is(err, fault.ErrDiskFull) {
			return f, err
		}
	}
}

// unmakeLocked turns a file that was made ahead into a spare. If it keeps its name, the
// next file that is made replaces it.
func (m *maker) unmakeLocked(f *file) error {
	l := m.log
	m.number = f.number
	err := f.Close()
	to := path.Join(l.dir, fmt.Sprintf("%016x%s", f.id, spareSuffix))
	if renameErr := l.fs.Rename(path.Join(l.dir, FileName(f.number)), to); renameErr == nil {
		m.spares = append(m.spares, spare{to, f.size, f.filled})
		m.idle.Store(int64(len(m.spares)))
	} else if err == nil {
		err = renameErr
	}
	return err
}

// makeLocked makes the next file, of at least size bytes.
func (m *maker) makeLocked(ctx context.Context, size int64, fill bool) (*file, error) {
	l := m.log
	if f := l.failed.Load(); f != nil {
		return nil, f.refuse()
	}
	h := FileHeader{Version: FormatVersion, Number: m.number, ID: l.opts.RandomID(), StoreID: l.opts.StoreID}
	temp, have, filled, err := m.prepareLocked(ctx, &h, size, fill)
	if err != nil {
		return nil, err
	}
	name := path.Join(l.dir, FileName(m.number))
	// Open the directory first: a lack of descriptors must show before the rename.
	d, err := l.fs.OpenDir(l.dir)
	if err != nil {
		l.fs.Remove(temp)
		return nil, fault.IO("open", l.fs.Path(l.dir), -1, err)
	}
	if err = l.fs.Rename(temp, name); err != nil {
		d.Close()
		l.fs.Remove(temp)
		return nil, fault.IO("rename", l.fs.Path(temp), -1, err)
	}
	err = d.Sync()
	d.Close()
	if err != nil {
		// Whether the name is durable is unknown, and another sync proves nothing.
		l.fail(fault.IO("sync", l.fs.Path(l.dir), -1, err))
		return nil, l.failed.Load().refuse()
	}
	opened, err := l.fs.OpenWrite(name)
	if err != nil {
		return nil, fault.IO("open", l.fs.Path(name), -1, err)
	}
	// The sync of the directory also vouches for the reserved space of the file: it
	// fails if the journal that has this metadata has failed.
	f := &file{File: opened, number: m.number, id: h.ID, size: have, filled: filled}
	f.synced.Store(fileHeaderBytes)
	m.number++
	m.size = min(2*m.size, l.opts.MaxFileBytes)
	waits := l.count.waits.Load()
	m.busy, m.waits = waits-m.waits >= fewWaits, waits
	l.count.made.Add(1)
	return f, nil
}

// mapAhead maps a file that is not likely to be synced often. It first reads all of it
// into the kernel's cache, in large pieces, for which some systems use large pages. It
// leaves the file unmapped if a caller waits for a file, or where a mapping is of no
// use.
func (m *maker) mapAhead(ctx context.Context, f *file) {
	if f.size > mappedAtMost {
		return
	}
	piece := make([]byte, min(f.size, readAheadBytes))
	for off := int64(0); off < f.size; off += readAheadBytes {
		if ctx.Err() != nil || m.hurry.Load() {
			return
		}
		if _, err := f.ReadAt(piece[:min(f.size-off, readAheadBytes)], off); err != nil {
			return // the write will return the error
		}
	}
	if memory, err := f.MapWrite(f.size); err == nil {
		f.memory = memory
	}
}

// prepareLocked makes a synced file of at least size bytes with header h, under the
// temporary name temp. have is its size. It has been written up to filled.
func (m *maker) prepareLocked(ctx context.Context, h *FileHeader, size int64, fill bool) (temp string, have, filled int64, err error) {
	l := m.log
	for n := len(m.spares); n > 0; n = len(m.spares) {
		old := m.spares[n-1]
		m.spares = m.spares[:n-1]
		m.idle.Store(int64(n - 1))
		if old.size < size {
			l.fs.Remove(old.name)
			continue
		}
		f, openErr := l.fs.OpenWrite(old.name)
		if openErr == nil {
			h.Made = old.size
			filled, openErr = m.fillFile(ctx, f, h, old.filled, fill)
			openErr = finish(f, openErr)
		}
		if openErr == nil {
			l.count.recycled.Add(1)
			return old.name, old.size, filled, nil
		}
		l.fs.Remove(old.name) // a new one may do
	}
	temp = path.Join(l.dir, FileName(h.Number)+tempSuffix)
	f, err := l.fs.Create(temp)
	if errors.Is(err, iofs.ErrExist) {
		if err = l.fs.Remove(temp); err == nil {
			f, err = l.fs.Create(temp)
		}
	}
	if err != nil {
		return "", 0, 0, fault.IO("create", l.fs.Path(temp), -1, err)
	}
	err = f.Allocate(size)
	if err == nil {
		h.Made = size
		filled, err = m.fillFile(ctx, f, h, 0, fill)
	}
	if err = finish(f, err); err != nil {
		l.fs.Remove(temp)
		return "", 0, 0, fault.IO("make", l.fs.Path(temp), -1, err)
	}
	return temp, size, filled, nil
}

// fillFile writes the header and a terminator, fills the file with zeros from filled to
// its end if fill is set, and syncs. It returns up to where the file has been written.
// It stops filling when a caller waits for a file.
//
// The device does one thing after the other: a sync of the log that comes while 32 MiB
// of zeros are being written takes 40 ms. So zeros are written in pieces. After each
// piece the device is left to others as long as the piece took, but not for as long as a stall.
func (m *maker) fillFile(ctx context.Context, f interface {
	WriteAt([]byte, int64) (int, error)
	Sync() error
}, h *FileHeader, filled int64, fill bool) (int64, error) {
	head := append(appendFileHeader(nil, h), zeros[:terminatorBytes]...)
	if _, err := f.WriteAt(head, 0); err != nil {
		return 0, err
	}
	begun, piece, size := time.Now(), int64(len(head)), h.Made
	filled = max(filled, piece)
	for fill && filled < size && ctx.Err() == nil {
		if size > fillAtOnce && m.hurry.Load() {
			break
		}
		n, err := f.WriteAt(zeros[:min(size-filled, int64(len(zeros)))], filled)
		if err != nil {
			return 0, err
		}
		filled += int64(n)
		if piece += int64(n); piece >= fillPiece && filled < size {
			if err := f.Sync(); err != nil {
				return 0, err
			}
			if !m.hurry.Load() {
				time.Sleep(min(time.Since(begun), mostRest))
			}
			begun, piece = time.Now(), 0
		}
	}
	return filled, f.Sync()
}

// finish closes f and returns the first error.
func finish(f interface{ Close() error }, err error) error {
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// retire takes a file that the log does not need any more and that was written up to
// filled. It keeps the file for another use, or removes it if there are enough spares. A
// file with a second name belongs to a checkpoint too: only this name is removed. The
// lock is not held while the name changes, since a writer that needs a file may wait for
// it.
func (m *maker) retire(number uint64, filled int64) error {
	l := m.log
	name := path.Join(l.dir, FileName(number))
	info, err := l.fs.Stat(name)
	if errors.Is(err, fault.ErrMissing) {
		return nil
	} else if err != nil {
		return err
	}
	id, wanted := uint64(0), false
	if info.Links == 1 {
		id, wanted = m.reserve(info.Size)
	}
	if !wanted {
		return l.fs.Remove(name)
	}
	to := path.Join(l.dir, fmt.Sprintf("%016x%s", id, spareSuffix))
	err = l.fs.Rename(name, to)
	m.Lock()
	defer m.Unlock()
	m.coming--
	if err == nil {
		m.spares = append(m.spares, spare{to, info.Size, filled})
		m.idle.Store(int64(len(m.spares)))
	}
	return err
}

// reserve reserves a place among the spares for a file of that size, and returns the id
// for its name; false: it is not wanted.
func (m *maker) reserve(size int64) (id uint64, wanted bool) {
	m.Lock()
	defer m.Unlock()
	if size < m.size || len(m.spares)+m.coming >= maxSpares || m.closed {
		return 0, false
	}
	m.coming++
	return m.log.opts.RandomID(), true
}

// adopt takes over the spares of an earlier run. It removes unfinished files and files
// below first. What cannot be removed now is left for the next run and does no harm.
// Neither does a spare whose old name a power cut brings back: that number is below
// first, or no record has it.
func (m *maker) adopt(first uint64) error {
	m.Lock()
	defer m.Unlock()
	l := m.log
	bases, err := l.fs.List(l.dir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		name := path.Join(l.dir, base)
		if number, ok := ParseFileName(base); ok {
			if number < first {
				l.fs.Remove(name)
			}
			continue
		}
		switch {
		case strings.HasSuffix(base, spareSuffix):
			info, err := l.fs.Stat(name)
			if err == nil && !info.Dir && info.Links == 1 && info.Size >= m.size && len(m.spares) < maxSpares {
				m.spares = append(m.spares, spare{name: name, size: info.Size})
				continue
			}
			l.fs.Remove(name)
		case strings.HasSuffix(base, logSuffix+tempSuffix):
			l.fs.Remove(name)
		}
	}
	m.idle.Store(int64(len(m.spares)))
	return nil
}

// close keeps spares of up to keep bytes in all and removes the others. This need not be
// durable: adopt takes spares that a power cut brings back, or that retire adds later.
func (m *maker) close(keep int64) error {
	m.Lock()
	defer m.Unlock()
	l := m.log
	m.closed = true
	var err error
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	if f := m.next.Swap(nil); f != nil {
		note(m.unmakeLocked(f))
	}
	for _, s := range m.spares {
		if keep -= s.size; keep < 0 {
			note(l.fs.Remove(s.name))
		}
	}
	m.spares = nil
	m.idle.Store(0)
	return err
}
