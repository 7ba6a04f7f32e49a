package vfs

import (
	"errors"
	"io"
	"syscall"
)

// sparing is an FS that makes room for the descriptors that its calls need.
type sparing struct {
	FS
	spare func() bool
}

// Sparing returns inner, but a call for which the process, or the system, has no
// descriptor left has spare close one that is not needed now, and is made again for as
// long as spare returns true.
func Sparing(inner FS, spare func() bool) FS { return &sparing{inner, spare} }

// bare returns the file system below a Sparing.
func bare(fsys FS) FS {
	if s, ok := fsys.(*sparing); ok {
		return s.FS
	}
	return fsys
}

// again says whether a call that ended with err is to be made again.
func (s *sparing) again(err error) bool {
	return err != nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && s.spare()
}

// try makes a call.
func (s *sparing) try(call func() error) (err error) {
	for err = call(); s.again(err); err = call() {
	}
	return err
}

// trying makes a call that returns something.
func trying[T any](s *sparing, call func() (T, error)) (result T, err error) {
	for result, err = call(); s.again(err); result, err = call() {
	}
	return result, err
}

func (s *sparing) Create(name string) (File, error) {
	return trying(s, func() (File, error) { return s.FS.Create(name) })
}

func (s *sparing) Open(name string) (File, error) {
	return trying(s, func() (File, error) { return s.FS.Open(name) })
}

func (s *sparing) OpenWrite(name string) (File, error) {
	return trying(s, func() (File, error) { return s.FS.OpenWrite(name) })
}

func (s *sparing) OpenDir(dir string) (Dir, error) {
	return trying(s, func() (Dir, error) { return s.FS.OpenDir(dir) })
}

func (s *sparing) List(dir string) ([]string, error) {
	return trying(s, func() ([]string, error) { return s.FS.List(dir) })
}

func (s *sparing) Stat(name string) (Info, error) {
	return trying(s, func() (Info, error) { return s.FS.Stat(name) })
}

func (s *sparing) Lock(name, note string) (io.Closer, error) {
	return trying(s, func() (io.Closer, error) { return s.FS.Lock(name, note) })
}

func (s *sparing) Free() (uint64, error) { return trying(s, s.FS.Free) }

func (s *sparing) Mkdir(name string) error {
	return s.try(func() error { return s.FS.Mkdir(name) })
}

func (s *sparing) Remove(name string) error {
	return s.try(func() error { return s.FS.Remove(name) })
}

func (s *sparing) Rename(from, to string) error {
	return s.try(func() error { return s.FS.Rename(from, to) })
}

func (s *sparing) Link(from, to string) error {
	return s.try(func() error { return s.FS.Link(from, to) })
}

func (s *sparing) SyncDir(dir string) error {
	return s.try(func() error { return s.FS.SyncDir(dir) })
}

// Close closes the inner FS, if that can be closed.
func (s *sparing) Close() error {
	if c, ok := s.FS.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
