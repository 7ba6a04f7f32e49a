package vfs

import (
	"errors"
	"io"
	"os"

	"github.com/cleavestore/cleave/internal/fault"
)

// osFile is an open regular file. The os package repeats calls that a signal
// interrupted.
type osFile struct {
	file  *os.File
	name  string
	reads bool // open for reading only
}

func newOSFile(f *os.File, name string) *osFile { return &osFile{file: f, name: name} }

func (f *osFile) Name() string { return f.name }

func (f *osFile) err(op string, off int64, err error) error {
	if err == nil {
		return nil
	}
	return fault.IO(op, f.name, off, classify(err))
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	if err != nil && err != io.EOF {
		err = f.err("read", off, err)
	}
	return n, err
}

// OSFile is that of Descriptor.
func (f *osFile) OSFile() *os.File { return f.file }

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	if len(p) >= largeWrite {
		n, err := processLargeWrites.write(p, off, f.file.WriteAt)
		return n, f.err("write", off, err)
	}
	n, err := f.file.WriteAt(p, off)
	return n, f.err("write", off, err)
}

func (f *osFile) Close() error { return f.err("close", -1, f.file.Close()) }

func (f *osFile) Stat() (Info, error) {
	info, err := f.file.Stat()
	if err != nil {
		return Info{}, f.err("stat", -1, err)
	}
	result, err := describe(info, f.file)
	return result, f.err("stat", -1, err)
}

func (f *osFile) Truncate(size int64) error {
	return f.err("truncate", size, f.file.Truncate(size))
}

func (f *osFile) Sync() error {
	sync := syncFile
	if f.reads {
		sync = syncRead
	}
	return f.err("sync", -1, sync(f.file))
}

func (f *osFile) SyncReserved() error {
	if err := f.Sync(); err != nil {
		return err
	}
	return f.err("sync", -1, askJournal(f.file))
}

func (f *osFile) Allocate(size int64) error {
	info, err := f.file.Stat()
	if err != nil {
		return f.err("allocate", size, err)
	}
	if size <= 0 {
		return nil
	}
	err = allocate(f.file, size)
	if errors.Is(err, errors.ErrUnsupported) {
		err = writeZeros(f.file, info.Size(), size)
	}
	if err != nil {
		// Give back what was taken; the first error is the one that counts.
		_ = f.file.Truncate(info.Size())
	}
	return f.err("allocate", size, err)
}

// writeZeros fills w from offset from up to offset to.
func writeZeros(w io.WriterAt, from, to int64) error {
	if from >= to {
		return nil
	}
	zeros := make([]byte, min(to-from, 1<<20))
	for from < to {
		n, err := w.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

func (f *osFile) Map() (*Mapping, error) {
	m, err := f.mapFile()
	return m, f.err("map", -1, err)
}

func (f *osFile) NextData(off int64) int64 {
	info, err := f.file.Stat()
	if err != nil || off < 0 || off >= info.Size() {
		return off
	}
	return min(max(nextData(f.file, off, info.Size()), off), info.Size())
}

func (f *osFile) WriteBack(off, n int64) error {
	return f.err("write back", off, writeBack(f.file, off, n))
}

func (f *osFile) Advise(off, n int64, advice Advice) {
	if off >= 0 && n >= 0 {
		adviseFile(f.file, off, n, advice)
	}
}
