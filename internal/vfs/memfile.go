package vfs

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lockorder"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// change is one unsynced call on a file. Never modified once made.
type change struct {
	seq     uint64   // order among all files
	off     int64    // first byte written
	size    int64    // bytes written; 0 for a truncation
	length  int64    // of the file afterwards; -1: as before
	sectors []sector // as they were afterwards
}

// sector is the content of one sector; data is shorter at the end of the file.
type sector struct {
	off  int64
	data []byte
}

// record remembers a write of size bytes at off, or a truncation.
func (m *Mem) record(n *node, off, size, before int64) {
	m.lastSeq++
	c := &change{seq: m.lastSeq, off: off, size: size, length: -1}
	if n.live.size != before {
		c.length = n.live.size
	}
	if size > 0 {
		first, end := off-off%sectorBytes, off+size
		if rest := end % sectorBytes; rest != 0 {
			end = min(end+sectorBytes-rest, n.live.size)
		}
		c.sectors = n.live.sectorsAt(first, end)
		// What is written again will be brought to the disk, all of the sector.
		n.lost = slices.DeleteFunc(n.lost, func(at int64) bool { return at >= first && at < end })
	}
	n.changes = append(n.changes, c)
}

// write writes to the live bytes, as many as there is space for.
func (m *Mem) write(n *node, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := m.readOnly(); err != nil {
		return 0, err
	}
	before := n.live.size
	p, err := m.copyFirst(n, p, off)
	limit := before + min(m.available(), maxMemFileBytes-before)
	if room := limit - off; int64(len(p)) > room {
		p, err = p[:max(0, room)], syscall.ENOSPC
	}
	if len(p) == 0 {
		return 0, err
	}
	n.live.writeAt(p, off)
	m.used += n.live.size - before
	m.record(n, off, int64(len(p)), before)
	return len(p), err
}

// copyFirst takes space for the sectors that a write of p at off overwrites, where the
// file system copies on write. It returns what of p there is space for.
func (m *Mem) copyFirst(n *node, p []byte, off int64) ([]byte, error) {
	end := min(off+int64(len(p)), n.live.size)
	for at := off - off%sectorBytes; m.copies && at < end; at += sectorBytes {
		if !n.written.has(at) || n.moved.has(at) {
			continue
		}
		if m.available() < sectorBytes {
			return p[:max(0, at-off)], syscall.ENOSPC
		}
		n.moved.add(at)
		n.held += sectorBytes
		m.used += sectorBytes
	}
	return p, nil
}

// letGo gives the space of overwritten sectors back.
func (m *Mem) letGo(n *node) {
	m.used -= n.held
	n.held, n.moved = 0, nil
}

// maxMemFileBytes bounds a file, so that a wild offset is a full disk and not
// an exhausted heap.
const maxMemFileBytes = 1 << 30

func (m *Mem) truncate(n *node, size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	before := n.live.size
	if size == before {
		return nil
	}
	if size-before > min(m.available(), maxMemFileBytes-before) {
		return syscall.ENOSPC
	}
	if err := m.askJournal(); err != nil {
		return err
	}
	n.live.resize(size)
	m.used += size - before
	m.record(n, 0, 0, before)
	return nil
}

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	node   *node
	name   string // relative
	writes bool
	closed bool // guarded by m.mu
	told   int  // of how many losses of the node, guarded by m.mu
}

func (m *Mem) handle(n *node, name string, writes bool) *memFile {
	n.opens++
	return &memFile{m: m, node: n, name: name, writes: writes, told: n.losses}
}

func (f *memFile) Name() string { return f.m.Path(f.name) }

func (f *memFile) err(op string, off int64, err error) error {
	return fault.IO(op, f.Name(), off, err)
}

// usable fails after Close, and for writes to a file open for reading.
func (f *memFile) usable(write bool) error {
	if f.closed {
		return os.ErrClosed
	}
	if write && !f.writes {
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable(false); err != nil {
		return 0, f.err("read", off, err)
	}
	if off < 0 {
		return 0, f.err("read", off, errors.New("negative offset"))
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := f.node.live.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	lockorder.IO("write", f.name)
	if len(p) == 0 && off >= 0 {
		return 0, nil // as os.File, which asks nobody
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(true); err != nil {
		return 0, f.err("write", off, err)
	}
	n, err := f.m.write(f.node, p, off)
	return n, f.err("write", off, err)
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return f.err("close", -1, os.ErrClosed)
	}
	f.closed = true
	f.node.opens--
	f.m.forget(f.node)
	return nil
}

func (f *memFile) Stat() (Info, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable(false); err != nil {
		return Info{}, f.err("stat", -1, err)
	}
	return f.node.info(), nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.usable(true)
	if err == nil {
		err = f.m.truncate(f.node, size)
	}
	return f.err("truncate", size, err)
}

func (f *memFile) Allocate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.usable(size > 0)
	if err == nil && size > f.node.live.size {
		err = f.m.truncate(f.node, size)
	}
	return f.err("allocate", size, err)
}

func (f *memFile) Sync() error { return f.sync(false) }

func (f *memFile) SyncReserved() error { return f.sync(true) }

// sync is Sync; with ask it asks the journal behind it.
func (f *memFile) sync(ask bool) error {
	lockorder.IO("sync", f.name)
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.usable(ask)
	if err == nil {
		err = f.m.readOnly()
	}
	if err != nil {
		return f.err("sync", -1, err)
	}
	n := f.node
	f.m.letGo(n)
	if f.m.journal == journalAborted {
		n.syncWritten()
		if ask {
			err = f.m.askJournal()
		}
		return f.err("sync", -1, err)
	}
	for _, c := range n.changes {
		for _, s := range c.sectors {
			n.durable.writeAt(s.data, s.off)
			n.written.add(s.off)
		}
		if c.length >= 0 {
			n.durable.resize(c.length)
			n.written.cut(c.length)
		}
	}
	// The lengths differ only after loseUnsynced.
	n.durable.resize(n.live.size)
	n.changes = nil
	if f.told < n.losses {
		f.told = n.losses
		return f.err("sync", -1, syscall.EIO)
	}
	return nil
}

// loseUnsynced does what a failed sync does: the system forgets that the
// changes are still to be written, so that a later sync succeeds without them.
// They can be read until the cache drops them, which it may do with what it
// takes for written. Each file that is open is told once.
func (f *memFile) loseUnsynced() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.node.losses++
	f.told = f.node.losses
	for _, c := range f.node.changes {
		for _, s := range c.sectors {
			f.node.lost = append(f.node.lost, s.off)
		}
	}
	f.node.changes = nil
	f.m.letGo(f.node)
}

func (f *memFile) Map() (*Mapping, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable(false); err != nil {
		return nil, f.err("map", -1, err)
	}
	return &Mapping{Data: f.node.live.bytes()}, nil
}

// MapWrite maps if SetMapped says so. A write that fails is a memory fault, whatever
// its cause.
func (f *memFile) MapWrite(size int64) (*WriteMapping, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.usable(true)
	if err == nil && size > f.node.live.size {
		err = syscall.EINVAL
	}
	if err != nil || !f.m.mapped {
		return nil, f.err("map", -1, err)
	}
	f.node.mapped++
	unmap := func() {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.node.mapped--
	}
	return &WriteMapping{name: f.Name(), unmap: unmap, write: func(p []byte, off int64) error {
		lockorder.IO("write", f.name)
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		if off < 0 || off+int64(len(p)) > size {
			return syscall.EINVAL
		}
		if off+int64(len(p)) > f.node.live.size {
			return ErrFault // the file shrank
		}
		if _, err := f.m.write(f.node, p, off); err != nil {
			return ErrFault
		}
		return nil
	}}, nil
}

// NextData passes over whole pages of zeros, written or not.
func (f *memFile) NextData(off int64) int64 {
	const page = 4 << 10
	info, err := f.Stat()
	if err != nil || off < 0 || off >= info.Size {
		return off
	}
	b := make([]byte, page)
	for at := off; at < info.Size; {
		n, _ := f.ReadAt(b[:min(page-at%page, info.Size-at)], at)
		for _, c := range b[:n] {
			if c != 0 {
				return at
			}
		}
		if n == 0 {
			return at
		}
		at += int64(n)
	}
	return info.Size
}

func (f *memFile) WriteBack(off, _ int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.err("write back", off, f.usable(false))
}

// Advise with DontNeed shows what is on the disk in place of what a failed sync
// left in memory, unless the file is mapped for writing.
func (f *memFile) Advise(off, n int64, advice Advice) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if advice != DontNeed || f.usable(false) != nil || off < 0 || n < 0 || f.node.mapped > 0 {
		return
	}
	x := f.node
	x.lost = slices.DeleteFunc(x.lost, func(at int64) bool {
		if at < off || n > 0 && at >= off+n {
			return false
		}
		var b [sectorBytes]byte
		x.durable.readAt(b[:], at)
		if there := min(sectorBytes, x.live.size-at); there > 0 {
			x.live.writeAt(b[:there], at)
		}
		return true
	})
}
