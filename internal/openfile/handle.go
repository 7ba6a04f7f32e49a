package openfile

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// handle is the descriptor of a file.
type handle struct {
	slot
	opening sync.Mutex   // held while it is opened: a goroutine that waits needs the file too
	users   atomic.Int64 // calls that use it; closedHandle is added while it is closed
	file    vfs.File     // changed only while it is closed
	was     bool         // open before; guarded by opening
	id      uint64       // inode of the file; guarded by opening
}

const closedHandle = math.MinInt64 / 2

// take returns the open file. Call give after the system call for which it was taken.
func (f *File) take() (vfs.File, error) {
	h := &f.handle
	if h.users.Add(1) > 0 {
		h.touch()
		return h.file, nil
	}
	f.give()
	return f.openFile()
}

// give gives back the file that take returned.
func (f *File) give() {
	if f.handle.users.Add(-1) == 0 && f.budget.waiting.Load() > 0 {
		f.budget.mu.Lock()
		f.budget.freed.Broadcast()
		f.budget.mu.Unlock()
	}
}

// openFile is take for a file that was not open.
func (f *File) openFile() (vfs.File, error) {
	h, b := &f.handle, f.budget
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.users.Add(1) > 0 {
		return h.file, nil
	}
	f.give()
	b.reserve()
	open, err := f.openName()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	if err != nil {
		b.freed.Broadcast()
		return nil, err
	}
	if h.was {
		b.reopens.Add(1)
	}
	h.file, h.was = open, true
	h.users.Add(1 - closedHandle)
	b.files.add(&h.slot)
	return open, nil
}

// openName opens the file by one of its names. opening is locked.
func (f *File) openName() (open vfs.File, err error) {
	f.names.Lock()
	list := slices.Clone(f.names.list)
	f.names.Unlock()
	for _, name := range list {
		// A name may go after the list was copied.
		if open, err = f.fs.Open(name); !errors.Is(err, fault.ErrMissing) {
			break
		}
	}
	if err != nil {
		return nil, fault.IO("open", f.name, -1, err)
	}
	if err = f.recognise(open); err != nil {
		open.Close()
		return nil, err
	}
	open.Advise(0, 0, vfs.Random)
	return open, nil
}

// recognise makes sure that the opened file is the one that was open before, or a copy
// of it. opening is locked.
func (f *File) recognise(open vfs.File) error {
	info, err := open.Stat()
	if err != nil {
		return fault.IO("stat", f.name, -1, err)
	}
	h := &f.handle
	if h.was && h.id != info.ID {
		if info.Size != f.size {
			return fault.Corrupt(f.name, min(f.size, info.Size), "file has %d bytes, had %d when opened", info.Size, f.size)
		}
		if err := f.o.Same(open); err != nil {
			return err
		}
	}
	h.id = info.ID
	return nil
}
