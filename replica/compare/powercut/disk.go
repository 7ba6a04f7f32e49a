//go:build linux

// Package powercut makes a directory a disk that a power cut takes what was not synced from. It
// mounts a file system of FUSE on it, which passes everything to another directory and keeps, for
// each file, how to undo what was done to its content since its last sync.
//
// What concerns names (a file is made, renamed, removed) counts as durable at once, as on a file
// system whose journal is fast: a store loses no more here than on a real disk. Only root may mount.
package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a directory that is mounted. Its methods are safe for concurrent use.
type Disk struct {
	backing, at string
	server      *fuse.Server

	mu    sync.Mutex // held while the content of a file changes
	cut   bool
	files map[uint64]*content // by inode
}

// content is what is known of a file.
type content struct {
	file  *os.File
	inode uint64
	opens int
	undo  []change // since the last sync, in the order of the changes
}

// change says how a file was before a change: its length, and the bytes at an offset.
type change struct {
	length int64
	off    int64
	old    []byte
	wrote  int64 // bytes
}

// toTheEnd is the end of a change that reaches to the end of the file.
const toTheEnd = 1 << 62

// Mount mounts the content of the directory backing at the directory at. Both must be there.
func Mount(backing, at string) (*Disk, error) {
	d := &Disk{backing: backing, at: at}
	return d, d.mount()
}

func (d *Disk) mount() error {
	d.cut, d.files = false, make(map[uint64]*content)
	root := &fs.LoopbackRoot{Path: d.backing}
	var st syscall.Stat_t
	if err := syscall.Stat(d.backing, &st); err != nil {
		return fmt.Errorf("%s: %w", d.backing, err)
	}
	root.Dev = uint64(st.Dev)
	first := &node{LoopbackNode: fs.LoopbackNode{RootData: root}, d: d}
	root.RootNode = first
	var err error
	d.server, err = fs.Mount(d.at, first, &fs.Options{MountOptions: fuse.MountOptions{FsName: "powercut", Name: "powercut", DirectMount: true, MaxWrite: 1 << 20, DisableXAttrs: true}})
	if err != nil {
		return fmt.Errorf("mount a file system of FUSE at %s: %w", d.at, err)
	}
	return nil
}

// Cut takes everything away that was not synced, and mounts the disk again. The processes that have
// used it must have ended. It returns how many bytes had been written to how many files, and were taken.
func (d *Disk) Cut() (bytes int64, files int, err error) {
	d.mu.Lock()
	d.cut = true // what the system still has to write comes too late
	d.mu.Unlock()
	if err = d.server.Unmount(); err != nil {
		return 0, 0, fmt.Errorf("unmount %s: %w", d.at, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.files {
		if len(c.undo) > 0 {
			files++
		}
		for i := len(c.undo) - 1; i >= 0; i-- {
			u := &c.undo[i]
			_, e := c.file.WriteAt(u.old, u.off)
			err = errors.Join(err, e, c.file.Truncate(u.length))
			bytes += u.wrote
		}
		err = errors.Join(err, c.file.Close())
	}
	if err != nil {
		return bytes, files, err
	}
	return bytes, files, d.mount()
}

// Settle makes durable all that is there.
func (d *Disk) Settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.files {
		c.undo = nil
	}
}

// Close unmounts the disk.
func (d *Disk) Close() error {
	err := d.server.Unmount()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.files {
		err = errors.Join(err, c.file.Close())
	}
	d.files = nil
	return err
}

// open notes that a file is open.
func (d *Disk) open(path string) (*content, syscall.Errno) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	var st syscall.Stat_t
	if err = syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fs.ToErrno(errors.Join(err, f.Close()))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.files[st.Ino]
	if c == nil {
		c = &content{file: f, inode: st.Ino}
		d.files[st.Ino] = c
	} else if err = f.Close(); err != nil {
		return nil, fs.ToErrno(err)
	}
	c.opens++
	return c, 0
}

// release notes that a file was closed. If all of it is durable it is forgotten.
func (d *Disk) release(c *content) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.opens--; c.opens == 0 && len(c.undo) == 0 && d.files[c.inode] == c {
		_ = c.file.Close() // nothing was written through it
		delete(d.files, c.inode)
	}
}

// change changes a file by do. Before that it notes what do may change: the bytes from off up to end,
// and the length.
func (d *Disk) change(c *content, off, end int64, do func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return syscall.EIO
	}
	info, err := c.file.Stat()
	if err != nil {
		return fs.ToErrno(err)
	}
	u := change{length: info.Size(), off: off}
	if end < toTheEnd {
		u.wrote = end - off
	}
	if end = min(end, u.length); end > off {
		u.old = make([]byte, end-off)
		if _, err = c.file.ReadAt(u.old, off); err != nil {
			return fs.ToErrno(err)
		}
	}
	c.undo = append(c.undo, u)
	return do()
}

// node is a file or a directory.
type node struct {
	fs.LoopbackNode
	d *Disk
}

func (n *node) backing() string { return filepath.Join(n.d.backing, n.Path(n.Root())) }

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: n.RootData}, d: n.d}
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	c, errno := n.d.open(n.backing())
	if errno != 0 {
		return nil, 0, errno
	}
	if flags&syscall.O_TRUNC != 0 {
		errno = n.d.change(c, 0, toTheEnd, func() syscall.Errno { return fs.ToErrno(c.file.Truncate(0)) })
	}
	var h fs.FileHandle
	if errno == 0 {
		h, _, errno = n.LoopbackNode.Open(ctx, flags&^syscall.O_TRUNC)
	}
	if errno != 0 {
		n.d.release(c)
		return nil, 0, errno
	}
	return &handle{h.(*fs.LoopbackFile), n.d, c}, 0, 0
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, h, more, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	c, errno := n.d.open(filepath.Join(n.backing(), name))
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return child, &handle{h.(*fs.LoopbackFile), n.d, c}, more, 0
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	length, changes := in.GetSize()
	h, open := f.(*handle)
	if !changes {
		if open {
			f = h.LoopbackFile
		}
		return n.LoopbackNode.Setattr(ctx, f, in, out)
	}
	c := (*content)(nil)
	if open {
		c = h.c
		f = h.LoopbackFile
	} else {
		var errno syscall.Errno
		if c, errno = n.d.open(n.backing()); errno != 0 {
			return errno
		}
		defer n.d.release(c)
	}
	return n.d.change(c, int64(length), toTheEnd, func() syscall.Errno { return n.LoopbackNode.Setattr(ctx, f, in, out) })
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if h, open := f.(*handle); open {
		f = h.LoopbackFile
	}
	return n.LoopbackNode.Getattr(ctx, f, out)
}

// Fsync implements fs.NodeFsyncer. That of a directory has nothing to do.
func (n *node) Fsync(_ context.Context, f fs.FileHandle, _ uint32) syscall.Errno {
	h, open := f.(*handle)
	if !open {
		return 0
	}
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.d.cut {
		return syscall.EIO
	}
	h.c.undo = nil // the other directory need not be synced: its machine stays up
	return 0
}

// CopyFileRange implements fs.NodeCopyFileRanger: the system reads and writes instead.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}

// handle is an open file.
type handle struct {
	*fs.LoopbackFile
	d *Disk
	c *content
}

// Write implements fs.FileWriter.
func (h *handle) Write(ctx context.Context, data []byte, off int64) (n uint32, errno syscall.Errno) {
	errno = h.d.change(h.c, off, off+int64(len(data)), func() (e syscall.Errno) {
		n, e = h.LoopbackFile.Write(ctx, data, off)
		return e
	})
	return n, errno
}

// Allocate implements fs.FileAllocater.
func (h *handle) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	end := int64(off) // space is reserved, no byte changes
	if mode&^1 != 0 {
		end += int64(size)
	}
	return h.d.change(h.c, int64(off), end, func() syscall.Errno { return h.LoopbackFile.Allocate(ctx, off, size, mode) })
}

// Release implements fs.FileReleaser.
func (h *handle) Release(ctx context.Context) syscall.Errno {
	h.d.release(h.c)
	return h.LoopbackFile.Release(ctx)
}

// PassthroughFd implements fs.FilePassthroughFder: writes must come here.
func (h *handle) PassthroughFd() (int, bool) { return 0, false }
