package vfs

import (
	"io"
	"sync"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
)

// Limited wraps an FS as a process with limits has it: calls fail with EMFILE that need a
// descriptor where as many are open as may be, and Map with ENOMEM. A directory that is
// listed or synced, and the device that is asked for its space, take a descriptor for
// the length of the call.
type Limited struct {
	FS
	mu       sync.Mutex // held over counting, not over the calls that are counted
	files    counted
	mappings counted
}

// counted is a resource with a limit.
type counted struct{ now, most, limit int }

// take takes one; false: none is left.
func (c *counted) take() bool {
	if c.now >= c.limit {
		return false
	}
	c.now++
	c.most = max(c.most, c.now)
	return true
}

// NewLimited returns inner with limits of open files and of mappings.
func NewLimited(inner FS, files, mappings int) *Limited {
	return &Limited{FS: inner, files: counted{limit: files}, mappings: counted{limit: mappings}}
}

// SetLimits changes the limits. They may be below what is in use already.
func (l *Limited) SetLimits(files, mappings int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.limit, l.mappings.limit = files, mappings
}

// Used returns how many files are open and how many mappings there are.
func (l *Limited) Used() (files, mappings int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.now, l.mappings.now
}

// Most returns how many there were at most.
func (l *Limited) Most() (files, mappings int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.most, l.mappings.most
}

func (l *Limited) take(c *counted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.take()
}

func (l *Limited) give(c *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.now--
}

// during makes a call that takes a descriptor.
func (l *Limited) during(op, name string, call func() error) error {
	if !l.take(&l.files) {
		return fault.IO(op, l.Path(name), -1, syscall.EMFILE)
	}
	defer l.give(&l.files)
	return call()
}

// limit makes a file of what open returns one that counts.
func (l *Limited) limit(op, name string, open func(string) (File, error)) (File, error) {
	if !l.take(&l.files) {
		return nil, fault.IO(op, l.Path(name), -1, syscall.EMFILE)
	}
	f, err := open(name)
	if err != nil {
		l.give(&l.files)
		return nil, err
	}
	return &limitedFile{File: f, held: held{l: l}}, nil
}

// Create implements FS.
func (l *Limited) Create(name string) (File, error) { return l.limit("create", name, l.FS.Create) }

// Open implements FS.
func (l *Limited) Open(name string) (File, error) { return l.limit("open", name, l.FS.Open) }

// OpenWrite implements FS.
func (l *Limited) OpenWrite(name string) (File, error) { return l.limit("open", name, l.FS.OpenWrite) }

// List implements FS.
func (l *Limited) List(dir string) (names []string, err error) {
	err = l.during("list", dir, func() error {
		names, err = l.FS.List(dir)
		return err
	})
	return names, err
}

// SyncDir implements FS.
func (l *Limited) SyncDir(dir string) error {
	return l.during("sync", dir, func() error { return l.FS.SyncDir(dir) })
}

// OpenDir implements FS.
func (l *Limited) OpenDir(dir string) (Dir, error) {
	if !l.take(&l.files) {
		return nil, fault.IO("open", l.Path(dir), -1, syscall.EMFILE)
	}
	d, err := l.FS.OpenDir(dir)
	if err != nil {
		l.give(&l.files)
		return nil, err
	}
	return &limitedDir{Dir: d, held: held{l: l}}, nil
}

// held is a descriptor that counts until it is closed.
type held struct {
	l    *Limited
	once sync.Once
}

func (h *held) close(c io.Closer) error {
	h.once.Do(func() { h.l.give(&h.l.files) })
	return c.Close()
}

// limitedDir is an open directory that counts.
type limitedDir struct {
	Dir
	held
}

func (d *limitedDir) Close() error { return d.close(d.Dir) }

// Free implements FS.
func (l *Limited) Free() (n uint64, err error) {
	err = l.during("free space", ".", func() error {
		n, err = l.FS.Free()
		return err
	})
	return n, err
}

// Lock implements FS.
func (l *Limited) Lock(name, note string) (io.Closer, error) {
	if !l.take(&l.files) {
		return nil, fault.IO("lock", l.Path(name), -1, syscall.EMFILE)
	}
	c, err := l.FS.Lock(name, note)
	if err != nil {
		l.give(&l.files)
		return nil, err
	}
	return &limitedLock{Closer: c, held: held{l: l}}, nil
}

// limitedFile is an open file that counts.
type limitedFile struct {
	File
	held
}

func (f *limitedFile) Close() error { return f.close(f.File) }

func (f *limitedFile) Map() (*Mapping, error) {
	if !f.l.take(&f.l.mappings) {
		return nil, fault.IO("map", f.Name(), -1, syscall.ENOMEM)
	}
	m, err := f.File.Map()
	if err != nil {
		f.l.give(&f.l.mappings)
		return nil, err
	}
	m.unmapped = func() { f.l.give(&f.l.mappings) }
	return m, nil
}

// limitedLock is a held lock that counts.
type limitedLock struct {
	io.Closer
	held
}

func (c *limitedLock) Close() error { return c.close(c.Closer) }
