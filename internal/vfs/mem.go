package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lockorder"
)

// Mem is a file system in memory that a test can cut the power of. It keeps
// two states: the live one, which calls see, and the durable one, which File.Sync
// and SyncDir bring up to date. What lies between them, writes and name
// operations in their order, is what Crash chooses from.
//
// All methods are safe for concurrent use.
type Mem struct {
	mu       sync.RWMutex
	root     *node
	lastID   uint64
	lastSeq  uint64
	capacity int64
	used     int64     // live bytes of files that have a name or are open
	pending  []*nameOp // not yet durable, in order
	journal  journal
	copies   bool // overwriting takes space until the next sync
	mapped   bool // MapWrite maps
}

// node is a file or a directory. Guarded by Mem.mu.
type node struct {
	id     uint64
	links  int  // live names
	opens  int  // open Files
	locked bool // by Lock

	// File.
	live    blob
	durable blob
	changes []*change // from durable to live, in order
	lost    []int64   // sectors that a failed sync left in memory only, as if written
	losses  int       // failed syncs
	mapped  int       // WriteMappings
	written sectors   // that were brought to the disk once
	moved   sectors   // of them, that were written again since the last sync of a copy-on-write system
	held    int64     // bytes that those take beside their old copies

	// Directory: nil in a file.
	names  map[string]*node // live
	synced map[string]*node // durable
}

func (n *node) isDir() bool { return n.names != nil }

func (n *node) info() Info {
	return Info{Size: n.live.size, Dir: n.isDir(), Links: n.links, ID: n.id}
}

// NewMem returns an empty file system without a limit of space.
func NewMem() *Mem {
	m := &Mem{capacity: math.MaxInt64}
	m.root = m.newNode(true)
	m.root.links = 1
	return m
}

func (m *Mem) newNode(dir bool) *node {
	m.lastID++
	n := &node{id: m.lastID}
	if dir {
		n.names, n.synced = map[string]*node{}, map[string]*node{}
	}
	return n
}

// SetCapacity limits the bytes of all files together, counted by their lengths.
// A write past it writes what fits and fails with ENOSPC. The limit may be
// below what is used already.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// SetCopyOnWrite has a write over bytes that are on the disk need space of its own, as on
// btrfs or ZFS, which gives the old bytes back when the file is synced.
func (m *Mem) SetCopyOnWrite(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies = on
}

// SetMapped has MapWrite map; else it returns nil, so that every write is a call.
func (m *Mem) SetMapped(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mapped = on
}

// available returns the bytes that files can still grow by.
func (m *Mem) available() int64 { return max(0, m.capacity-m.used) }

// Path implements FS.
func (m *Mem) Path(name string) string { return path.Join("mem", name) }

func (m *Mem) err(op, name string, err error) error { return fault.IO(op, m.Path(name), -1, err) }

// lookup returns what has the name.
func (m *Mem) lookup(name string) (*node, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	n := m.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !n.isDir() {
			return nil, errNotDir
		}
		if n = n.names[part]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// lookupFile is lookup that refuses directories.
func (m *Mem) lookupFile(name string) (*node, error) {
	n, err := m.lookup(name)
	if err == nil && n.isDir() {
		err = errIsDir
	}
	return n, err
}

// lookupDir is lookup that refuses files.
func (m *Mem) lookupDir(name string) (*node, error) {
	n, err := m.lookup(name)
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	return n, err
}

// vacant returns the directory and base of a name that must be free.
func (m *Mem) vacant(name string) (dir *node, base string, err error) {
	if err = checkName(name); err != nil {
		return nil, "", err
	}
	if name == "." {
		return nil, "", syscall.EEXIST
	}
	if dir, err = m.lookupDir(path.Dir(name)); err != nil {
		return nil, "", err
	}
	base = path.Base(name)
	if dir.names[base] != nil {
		return nil, "", syscall.EEXIST
	}
	return dir, base, nil
}

// add makes a node with a new name.
func (m *Mem) add(name string, isDir bool) (*node, error) {
	dir, base, err := m.vacant(name)
	if err == nil {
		err = m.askJournal()
	}
	if err != nil {
		return nil, err
	}
	n := m.newNode(isDir)
	m.apply(&nameOp{dir: dir, set: []binding{{base, n}}})
	return n, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.add(name, false)
	if err != nil {
		return nil, m.err("create", name, err)
	}
	return m.handle(n, name, true), nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenWrite implements FS.
func (m *Mem) OpenWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupFile(name)
	if err != nil {
		return nil, m.err("open", name, err)
	}
	return m.handle(n, name, write), nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.add(name, true)
	return m.err("mkdir", name, err)
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	switch {
	case err != nil:
	case name == ".":
		err = fs.ErrInvalid
	case len(n.names) > 0:
		err = syscall.ENOTEMPTY
	case m.askJournal() != nil:
		err = syscall.EROFS
	default:
		dir, _ := m.lookupDir(path.Dir(name))
		m.apply(&nameOp{dir: dir, set: []binding{{path.Base(name), nil}}})
	}
	return m.err("remove", name, err)
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	lockorder.IO("rename", to)
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(from)
	if err == nil {
		err = m.rename(n, from, to)
	}
	return m.err("rename", from, err)
}

func (m *Mem) rename(n *node, from, to string) error {
	if n == m.root || n.isDir() && path.Dir(from) != path.Dir(to) {
		return m.errTo(to, errIsDir)
	}
	fromDir, _ := m.lookupDir(path.Dir(from))
	replaced, err := m.lookup(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m.errTo(to, err)
	}
	toDir, err := m.lookupDir(path.Dir(to))
	switch {
	case err != nil:
		return m.errTo(to, err)
	case replaced != nil && (replaced.isDir() || n.isDir()):
		return m.errTo(to, syscall.EEXIST)
	case replaced == n: // two names of one file stay
		return nil
	}
	if err := m.askJournal(); err != nil {
		return err
	}
	unset, set := binding{path.Base(from), nil}, binding{path.Base(to), n}
	if fromDir == toDir {
		m.apply(&nameOp{dir: toDir, set: []binding{set, unset}})
		return nil
	}
	// The old name never goes without the new one.
	added := &nameOp{dir: toDir, set: []binding{set}}
	m.apply(added)
	m.apply(&nameOp{dir: fromDir, set: []binding{unset}, needs: added})
	return nil
}

func (m *Mem) errTo(to string, err error) error { return fmt.Errorf("to %s: %w", m.Path(to), err) }

// Link implements FS.
func (m *Mem) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupFile(from)
	if err == nil {
		var dir *node
		var base string
		if dir, base, err = m.vacant(to); err != nil {
			err = m.errTo(to, err)
		} else if err = m.askJournal(); err == nil {
			m.apply(&nameOp{dir: dir, set: []binding{{base, n}}})
		}
	}
	return m.err("link", from, err)
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d, err := m.lookupDir(dir)
	if err != nil {
		return nil, m.err("list", dir, err)
	}
	names := make([]string, 0, len(d.names))
	for name := range d.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookup(name)
	if err != nil {
		return Info{}, m.err("stat", name, err)
	}
	return n.info(), nil
}

// SyncDir implements FS. Of a rename from one directory to another, syncing the
// new one makes the new name durable and may leave the old one beside it;
// syncing the old one makes both halves durable.
func (m *Mem) SyncDir(dir string) error {
	d, err := m.OpenDir(dir)
	if err != nil {
		return err
	}
	return d.Sync()
}

// OpenDir implements FS.
func (m *Mem) OpenDir(dir string) (Dir, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookupDir(dir)
	if err != nil {
		return nil, m.err("open", dir, err)
	}
	return &memDir{m: m, node: n, name: dir}, nil
}

// memDir is an open directory.
type memDir struct {
	m      *Mem
	node   *node
	name   string
	closed bool // guarded by m.mu
}

func (d *memDir) Sync() error {
	lockorder.IO("sync", d.name)
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	var err error
	if d.closed {
		err = os.ErrClosed
	} else {
		err = d.m.askJournal()
	}
	if err != nil {
		return d.m.err("sync", d.name, err)
	}
	d.m.commit(func(op *nameOp) bool { return op.dir == d.node })
	return nil
}

func (d *memDir) Close() error {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.closed {
		return d.m.err("close", d.name, os.ErrClosed)
	}
	d.closed = true
	return nil
}

// Free implements FS.
func (m *Mem) Free() (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return uint64(m.available()), nil
}

// Lock implements FS.
func (m *Mem) Lock(name, note string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		n, err = m.add(name, false)
	}
	if err != nil {
		return nil, m.err("lock", name, err)
	}
	if n.locked {
		return nil, lockedError(m.Path(name), n.live.bytes()[:min(n.live.size, maxNoteBytes)])
	}
	n.locked = true
	_ = m.truncate(n, 0)
	_, _ = m.write(n, []byte(note), 0)
	return &memLock{memFile: m.handle(n, name, true)}, nil
}

// memLock is a held lock.
type memLock struct{ *memFile }

// Close gives the lock back.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	if !l.closed {
		l.node.locked = false
	}
	l.m.mu.Unlock()
	return l.memFile.Close()
}

// Names returns the names of all files, sorted; those of directories are left
// out.
func (m *Mem) Names() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var names []string
	var walk func(dir *node, prefix string)
	walk = func(dir *node, prefix string) {
		for base, n := range dir.names {
			if n.isDir() {
				walk(n, prefix+base+"/")
			} else {
				names = append(names, prefix+base)
			}
		}
	}
	walk(m.root, "")
	slices.Sort(names)
	return names
}

// ReadFile returns a copy of a file's bytes.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookupFile(name)
	if err != nil {
		return nil, m.err("read", name, err)
	}
	return n.live.bytes(), nil
}

// WriteFile replaces the bytes of a file, live and durable, as damage on the
// disk does. A file that does not exist is made; its name is not synced.
func (m *Mem) WriteFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		n, err = m.add(name, false)
	}
	if err != nil {
		return m.err("write", name, err)
	}
	m.used += int64(len(data)) - n.live.size
	n.live = newBlob(slices.Clone(data))
	n.durable, n.changes, n.lost, n.written = n.live.share(), nil, nil, nil
	for off := 0; off < len(data); off += sectorBytes {
		n.written.add(int64(off))
	}
	return nil
}
