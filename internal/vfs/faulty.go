package vfs

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
)

// Op is a kind of call that Faulty counts. Close and Advise are not counted and
// never fail.
type Op int

// Op values. Stat is FS.Stat and File.Stat, Sync is File.Sync, SyncDir is FS.SyncDir and
// Dir.Sync.
const (
	OpCreate Op = iota
	OpOpen
	OpOpenWrite
	OpRead
	OpWrite
	OpSync
	OpSyncDir
	OpRename
	OpLink
	OpRemove
	OpMkdir
	OpList
	OpStat
	OpTruncate
	OpAllocate
	OpMap
	OpOpenDir
	OpLock
	OpFree
	opCount
)

var opNames = [opCount]string{"create", "open", "open for writing", "read", "write", "sync", "sync directory",
	"rename", "link", "remove", "mkdir", "list", "stat", "truncate", "allocate", "map", "open directory", "lock", "free space"}

// String returns the name of the call.
func (op Op) String() string {
	if op < 0 || op >= opCount {
		return fmt.Sprintf("Op(%d)", int(op))
	}
	return opNames[op]
}

// Call describes a call before it happens.
type Call struct {
	N    int64 // 1 for the first
	Op   Op
	Name string // relative; a file's is that it was opened by
	To   string // second name of OpRename and OpLink
	Off  int64  // OpRead, OpWrite: first byte; else 0
	Len  int64  // OpRead, OpWrite: bytes; OpTruncate, OpAllocate: size; else 0
}

// ErrStopped is what every call returns from the one that StopAt names on.
var ErrStopped = errors.New("file system stopped")

// Faulty wraps an FS, counts the calls and makes chosen ones fail. A failing
// call does not reach the inner FS, with two exceptions: a write with
// SetShortWrite, and a failing Sync on a Mem, after which the unsynced bytes
// are never written, as the system does it: later syncs succeed without them.
// Reads of a Mapping are not seen.
//
// Calls are numbered and hooks run one at a time; the calls themselves run in
// parallel. With a caller of one goroutine all is repeatable.
type Faulty struct {
	inner FS

	mu     sync.Mutex
	calls  int64
	byOp   [opCount]int64
	hook   func(Call) error
	failAt int64 // 0: never
	sticky bool
	failed error
	stopAt int64 // 0: never
	stop   func()
	short  bool
}

// NewFaulty returns inner with no fault set.
func NewFaulty(inner FS) *Faulty { return &Faulty{inner: inner} }

// SetHook has hook called before each call; an error that it returns is the
// call's, and the call does not happen. The hook must not use the Faulty; it
// may use the inner FS. Nil removes it.
func (f *Faulty) SetHook(hook func(Call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// FailAt makes call number n fail with err, and if sticky all after it. n 0
// removes it.
func (f *Faulty) FailAt(n int64, err error, sticky bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt, f.failed, f.sticky = n, err, sticky
}

// StopAt calls fn before call number n, while later calls wait, and makes that
// call and all after it fail with ErrStopped: fn sees the state that a crash at
// that point leaves, but for calls that other goroutines are in. n 0 removes it; a file system that has stopped stays so
// until then.
func (f *Faulty) StopAt(n int64, fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt, f.stop = n, fn
}

// SetShortWrite makes failing writes write the first half of their bytes,
// rounded down, before they fail.
func (f *Faulty) SetShortWrite(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = on
}

// Calls returns the number of calls so far, failed ones included.
func (f *Faulty) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// CallsOf returns the number of calls of one kind so far.
func (f *Faulty) CallsOf(op Op) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byOp[op]
}

// Close closes the inner FS, if that can be closed.
func (f *Faulty) Close() error {
	if c, ok := f.inner.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// before counts a call and returns the error that it is to fail with. stopped
// says that nothing at all may happen any more, short that a write writes a
// part.
func (f *Faulty) before(c Call) (stopped, short bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.byOp[c.Op]++
	c.N = f.calls
	if f.stopAt > 0 && c.N >= f.stopAt {
		if f.stop != nil {
			stop := f.stop
			f.stop = nil
			stop()
		}
		return true, false, ErrStopped
	}
	if f.failAt > 0 && (c.N == f.failAt || f.sticky && c.N > f.failAt) {
		return false, f.short, f.failed
	}
	if f.hook != nil {
		err = f.hook(c)
	}
	return false, f.short, err
}

// check is before for calls that fail whole.
func (f *Faulty) check(c Call) error {
	_, _, err := f.before(c)
	return fault.IO(c.Op.String(), f.inner.Path(c.Name), -1, err)
}

// Path implements FS.
func (f *Faulty) Path(name string) string { return f.inner.Path(name) }

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) { return f.open(OpCreate, name, f.inner.Create) }

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) { return f.open(OpOpen, name, f.inner.Open) }

// OpenWrite implements FS.
func (f *Faulty) OpenWrite(name string) (File, error) {
	return f.open(OpOpenWrite, name, f.inner.OpenWrite)
}

func (f *Faulty) open(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := f.check(Call{Op: op, Name: name}); err != nil {
		return nil, err
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: inner, fs: f, name: name}, nil
}

// Mkdir implements FS.
func (f *Faulty) Mkdir(name string) error {
	if err := f.check(Call{Op: OpMkdir, Name: name}); err != nil {
		return err
	}
	return f.inner.Mkdir(name)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.check(Call{Op: OpRemove, Name: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if err := f.check(Call{Op: OpRename, Name: from, To: to}); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Link implements FS.
func (f *Faulty) Link(from, to string) error {
	if err := f.check(Call{Op: OpLink, Name: from, To: to}); err != nil {
		return err
	}
	return f.inner.Link(from, to)
}

// List implements FS.
func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.check(Call{Op: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (Info, error) {
	if err := f.check(Call{Op: OpStat, Name: name}); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.check(Call{Op: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// OpenDir implements FS.
func (f *Faulty) OpenDir(dir string) (Dir, error) {
	if err := f.check(Call{Op: OpOpenDir, Name: dir}); err != nil {
		return nil, err
	}
	inner, err := f.inner.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &faultyDir{Dir: inner, fs: f, name: dir}, nil
}

// faultyDir is an open directory of a Faulty.
type faultyDir struct {
	Dir
	fs   *Faulty
	name string
}

func (d *faultyDir) Sync() error {
	if err := d.fs.check(Call{Op: OpSyncDir, Name: d.name}); err != nil {
		return err
	}
	return d.Dir.Sync()
}

// Lock implements FS.
func (f *Faulty) Lock(name, note string) (io.Closer, error) {
	if err := f.check(Call{Op: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.Lock(name, note)
}

// Free implements FS.
func (f *Faulty) Free() (uint64, error) {
	if err := f.check(Call{Op: OpFree, Name: "."}); err != nil {
		return 0, err
	}
	return f.inner.Free()
}
