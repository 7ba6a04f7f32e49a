package cleavetest

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// life is the disk as one process sees it, from its start to its death. It is the file
// system of the stores of that process.
//
// A call that changes the disk has mu to itself, from the question whether the process
// lives to its end. So what a crash keeps has each such call whole, or not at all.
type life struct {
	vfs.FS // a vfs.Faulty, which asks before each call
	s      *Store
	mem    *vfs.Mem

	mu    sync.Mutex
	dead  atomic.Bool
	image *vfs.Mem // the disk when the process died; nil: it lives. Guarded by mu
}

func newLife(s *Store, mem *vfs.Mem) *life {
	l := &life{s: s, mem: mem}
	faulty := vfs.NewFaulty(mem)
	faulty.SetHook(l.before)
	l.FS = faulty
	return l
}

// before is called before each call on the disk. It returns the error that the call is to
// fail with.
func (l *life) before(c vfs.Call) error {
	if l.dead.Load() {
		return ErrCrashed
	}
	crash, err := l.s.faults.met(c)
	if crash {
		l.dieLocked() // the call changes the disk, so it has mu
		return ErrCrashed
	}
	return err
}

// die ends the life, if it has not ended, and returns the disk as it was then.
func (l *life) die() *vfs.Mem {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dieLocked()
	return l.image
}

func (l *life) dieLocked() {
	if l.image == nil {
		l.image = l.mem.Kill()
		l.dead.Store(true)
	}
}

// disk returns the disk: after a crash, that from which the next life goes on.
func (l *life) disk() *vfs.Mem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.diskLocked()
}

func (l *life) diskLocked() *vfs.Mem {
	if l.image != nil {
		return l.image
	}
	return l.mem
}

// change makes a call that changes the disk.
func (l *life) change(call func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return call()
}

// sync makes a call that syncs.
func (l *life) sync(call func() error) error {
	if d := l.s.faults.slow.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return l.change(call)
}

func (l *life) Create(name string) (f vfs.File, err error) {
	err = l.change(func() error {
		f, err = l.FS.Create(name)
		return err
	})
	return l.file(f, err)
}

func (l *life) Open(name string) (vfs.File, error) { return l.file(l.FS.Open(name)) }

func (l *life) OpenWrite(name string) (vfs.File, error) { return l.file(l.FS.OpenWrite(name)) }

func (l *life) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &lifeFile{File: f, l: l}, nil
}

func (l *life) Mkdir(name string) error {
	return l.change(func() error { return l.FS.Mkdir(name) })
}

func (l *life) Remove(name string) error {
	return l.change(func() error { return l.FS.Remove(name) })
}

func (l *life) Rename(from, to string) error {
	return l.change(func() error { return l.FS.Rename(from, to) })
}

func (l *life) Link(from, to string) error {
	return l.change(func() error { return l.FS.Link(from, to) })
}

func (l *life) SyncDir(dir string) error {
	return l.sync(func() error { return l.FS.SyncDir(dir) })
}

func (l *life) OpenDir(dir string) (vfs.Dir, error) {
	d, err := l.FS.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &lifeDir{Dir: d, l: l}, nil
}

func (l *life) Lock(name, note string) (c io.Closer, err error) {
	err = l.change(func() error {
		c, err = l.FS.Lock(name, note)
		return err
	})
	return c, err
}

// lifeDir is an open directory.
type lifeDir struct {
	vfs.Dir
	l *life
}

func (d *lifeDir) Sync() error { return d.l.sync(d.Dir.Sync) }

// lifeFile is an open file.
type lifeFile struct {
	vfs.File
	l *life
}

func (f *lifeFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.l.change(func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *lifeFile) Truncate(size int64) error {
	return f.l.change(func() error { return f.File.Truncate(size) })
}

func (f *lifeFile) Allocate(size int64) error {
	return f.l.change(func() error { return f.File.Allocate(size) })
}

func (f *lifeFile) Sync() error { return f.l.sync(f.File.Sync) }

func (f *lifeFile) SyncReserved() error { return f.l.sync(f.File.SyncReserved) }

// WriteBack makes nothing durable, so it is no call that a fault can meet.
func (f *lifeFile) WriteBack(int64, int64) error {
	if f.l.dead.Load() {
		return ErrCrashed
	}
	return nil
}
