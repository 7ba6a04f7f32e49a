package vfs

import "github.com/cleavestore/cleave/internal/fault"

// faultyFile is an open file of a Faulty. Name, Close, Advise and NextData
// are those of the inner file.
type faultyFile struct {
	File
	fs   *Faulty
	name string // relative
}

// check counts a call and returns the error that it is to fail with.
func (f *faultyFile) check(c Call) error {
	c.Name = f.name
	_, _, err := f.fs.before(c)
	return f.err(c, err)
}

func (f *faultyFile) err(c Call, err error) error {
	off := int64(-1)
	if c.Op == OpRead || c.Op == OpWrite {
		off = c.Off
	}
	return fault.IO(c.Op.String(), f.Name(), off, err)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(Call{Op: OpRead, Off: off, Len: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	c := Call{Op: OpWrite, Name: f.name, Off: off, Len: int64(len(p))}
	stopped, short, err := f.fs.before(c)
	if err == nil {
		return f.File.WriteAt(p, off)
	}
	n := 0
	if short && !stopped {
		n, _ = f.File.WriteAt(p[:len(p)/2], off)
	}
	return n, f.err(c, err)
}

func (f *faultyFile) Stat() (Info, error) {
	if err := f.check(Call{Op: OpStat}); err != nil {
		return Info{}, err
	}
	return f.File.Stat()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.check(Call{Op: OpTruncate, Len: size}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Allocate(size int64) error {
	if err := f.check(Call{Op: OpAllocate, Len: size}); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f *faultyFile) Sync() error { return f.sync(f.File.Sync) }

func (f *faultyFile) SyncReserved() error { return f.sync(f.File.SyncReserved) }

func (f *faultyFile) sync(sync func() error) error {
	c := Call{Op: OpSync, Name: f.name}
	stopped, _, err := f.fs.before(c)
	if err == nil {
		return sync()
	}
	if loser, ok := f.File.(interface{ loseUnsynced() }); ok && !stopped {
		loser.loseUnsynced()
	}
	return f.err(c, err)
}

func (f *faultyFile) WriteBack(off, n int64) error {
	if err := f.check(Call{Op: OpSync}); err != nil {
		return err
	}
	return f.File.WriteBack(off, n)
}

func (f *faultyFile) Map() (*Mapping, error) {
	if err := f.check(Call{Op: OpMap}); err != nil {
		return nil, err
	}
	return f.File.Map()
}

// MapWrite maps a file of a Mem if that does: a write is a call then too, but one that
// fails is a memory fault. Else it returns nil, so that every write is a call.
func (f *faultyFile) MapWrite(size int64) (*WriteMapping, error) {
	inner, ok := f.File.(*memFile)
	if !ok {
		return nil, nil
	}
	m, err := inner.MapWrite(size)
	if m == nil || err != nil {
		return nil, err
	}
	if err := f.check(Call{Op: OpMap}); err != nil {
		return nil, err
	}
	write := m.write
	m.write = func(p []byte, off int64) error {
		if f.check(Call{Op: OpWrite, Off: off, Len: int64(len(p))}) != nil {
			return ErrFault
		}
		return write(p, off)
	}
	return m, nil
}
