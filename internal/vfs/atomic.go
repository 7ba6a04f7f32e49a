package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
)

// WriteFileAtomic gives name the content data: it writes and syncs a new file
// tmp, renames it to name and syncs their directory, which must be the same. A
// file left at tmp is removed first. After nil the content is durable. After an
// error that matches fault.ErrOutcomeUnknown name has the old content or the
// new one; after another error it is as it was, tmp is removed, if that can be
// done, and the call may be repeated.
func WriteFileAtomic(fsys FS, tmp, name string, data []byte) error {
	dir := path.Dir(name)
	if path.Dir(tmp) != dir {
		return fault.IO("write", fsys.Path(name), -1, fmt.Errorf("%s is in another directory: %w", tmp, fs.ErrInvalid))
	}
	err := writeSynced(fsys, tmp, data)
	if errors.Is(err, fs.ErrExist) { // rare, so nobody looks before
		if err = fsys.Remove(tmp); err != nil {
			return err
		}
		err = writeSynced(fsys, tmp, data)
	}
	if err != nil {
		// An orphan at worst, which the next call removes.
		_ = fsys.Remove(tmp)
		return err
	}
	// A lack of descriptors shows before the rename.
	d, err := fsys.OpenDir(dir)
	if err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	defer d.Close()
	err = fsys.Rename(tmp, name)
	if errors.Is(err, fault.ErrResource) || errors.Is(err, fault.ErrDiskFull) || InUse(err) {
		_ = fsys.Remove(tmp)
		return err // it was not renamed
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		return fault.Outcome(fault.ErrOutcomeUnknown, err)
	}
	return nil
}

// writeSynced makes a new file and syncs it, but not its name.
func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// ErrTooLarge says that a file is larger than ReadFile's caller allows.
var ErrTooLarge = errors.New("file too large")

// ReadFile returns the content of a file of at most limit bytes; a larger one
// is ErrTooLarge, before anything is allocated.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, fault.IO("read", f.Name(), -1, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, info.Size, limit))
	}
	data := make([]byte, info.Size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fault.IO("read", f.Name(), int64(n), err)
	}
	return data, nil
}

// MkdirSync makes a directory, unless it exists, and syncs it and its name.
func MkdirSync(fsys FS, name string) error {
	if err := fsys.Mkdir(name); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, statErr := fsys.Stat(name)
		if statErr != nil {
			return statErr
		}
		if !info.Dir {
			return err
		}
	}
	if err := fsys.SyncDir(name); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}
