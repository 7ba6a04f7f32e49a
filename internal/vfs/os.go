package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
)

var (
	errName    = errors.New("name is not a clean relative path")
	errSymlink = errors.New("symbolic link")
	errKind    = errors.New("not a regular file")

	errReplaced = errors.New("replaced while it was opened")
)

// What both file systems say of a directory where a file is wanted, and the
// reverse.
const (
	errIsDir  = syscall.EISDIR
	errNotDir = syscall.ENOTDIR
)

const (
	filePerm = 0o600
	dirPerm  = 0o700
)

// osFS is the operating system's file system below one directory. os.Root
// keeps every name below it, even against a symbolic link that appears between
// a check and the call; the checks here refuse links within the root too.
type osFS struct {
	root *os.Root
	path string
}

// OpenRoot returns the file system below path, which must be an existing
// directory. The FS is an io.Closer, which gives its descriptor back; files
// that are open stay open.
func OpenRoot(path string) (FS, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.IO("open", path, -1, err)
	}
	root, err := os.OpenRoot(full)
	if err != nil {
		return nil, fault.IO("open", full, -1, classify(err))
	}
	return &osFS{root: root, path: full}, nil
}

// CreateRoot is OpenRoot that makes the directory and its missing parents,
// mode 0700, and syncs each of them and its name. The name of a directory that
// exists is synced too, where permissions allow: an earlier call may have been
// cut short.
func CreateRoot(path string) (FS, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.IO("mkdir", path, -1, err)
	}
	if err := createDirs(full); err != nil {
		return nil, err
	}
	return OpenRoot(full)
}

func createDirs(dir string) error {
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fault.IO("mkdir", dir, -1, fmt.Errorf("exists and is no directory: %w", fs.ErrExist))
	case err == nil:
		err = syncOSDir(parent)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) {
			return nil // not ours to sync, or nothing that can be synced
		}
		return fault.IO("sync", parent, -1, err)
	case !errors.Is(err, fs.ErrNotExist):
		return fault.IO("stat", dir, -1, err)
	}
	if parent != dir {
		if err := createDirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.IO("mkdir", dir, -1, classify(err))
	}
	for _, d := range []string{dir, parent} {
		if err := syncOSDir(d); err != nil {
			return fault.IO("sync", d, -1, err)
		}
	}
	return nil
}

func syncOSDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return classify(syncDir(f))
}

// Close gives the descriptor of the root back.
func (o *osFS) Close() error { return fault.IO("close", o.path, -1, o.root.Close()) }

func (o *osFS) Path(name string) string { return filepath.Join(o.path, filepath.FromSlash(name)) }

// err wraps the result of op on name.
func (o *osFS) err(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return fault.IO(op, o.Path(name), -1, classify(cause(err)))
}

// cause takes off what repeats the operation and the names.
func cause(err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		err = link.Err
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err
}

// check refuses names that are malformed or lead through a symbolic link.
func (o *osFS) check(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := o.root.Lstat(name[:i])
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: %w", name[:i], errSymlink)
		}
	}
	return nil
}

func checkName(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return fmt.Errorf("%q: %w: %w", name, errName, fs.ErrInvalid)
	}
	return nil
}

// lstat is Lstat after check.
func (o *osFS) lstat(name string) (os.FileInfo, error) {
	if err := o.check(name); err != nil {
		return nil, err
	}
	return o.root.Lstat(name)
}

// regular fails unless name is a regular file.
func (o *osFS) regular(name string) (os.FileInfo, error) {
	info, err := o.lstat(name)
	if err != nil {
		return nil, err
	}
	return info, checkKind(info.Mode())
}

// directory fails unless name is a directory.
func (o *osFS) directory(name string) error {
	info, err := o.lstat(name)
	if err == nil && !info.IsDir() {
		err = errNotDir
	}
	return err
}

func checkKind(mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return errIsDir
	case mode&fs.ModeSymlink != 0:
		return errSymlink
	}
	return errKind
}

func (o *osFS) Create(name string) (File, error) {
	if err := o.check(name); err != nil {
		return nil, o.err("create", name, err)
	}
	f, err := o.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, filePerm)
	if err != nil {
		return nil, o.err("create", name, err)
	}
	return newOSFile(f, o.Path(name)), nil
}

func (o *osFS) Open(name string) (File, error)      { return o.open(name, os.O_RDONLY) }
func (o *osFS) OpenWrite(name string) (File, error) { return o.open(name, os.O_RDWR) }

func (o *osFS) open(name string, flag int) (File, error) {
	f, err := o.openRegular(name, flag)
	if err != nil {
		return nil, o.err("open", name, err)
	}
	file := newOSFile(f, o.Path(name))
	file.reads = flag == os.O_RDONLY
	return file, nil
}

// openAttempts bounds how often a name is opened that gets another file each time.
const openAttempts = 100

// openRegular opens a regular file. A writer may put another one in its place at any time: then it
// opens that.
func (o *osFS) openRegular(name string, flag int) (f *os.File, err error) {
	for range openAttempts {
		if f, err = o.openOnce(name, flag); err != errReplaced {
			break
		}
	}
	return f, err
}

// openOnce looks before it opens, since opening a device may act on it, and
// again after, since the name may have changed hands in between.
func (o *osFS) openOnce(name string, flag int) (*os.File, error) {
	before, err := o.regular(name)
	if err != nil {
		return nil, err
	}
	f, err := o.root.OpenFile(name, flag|openFlags, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil {
		err = checkKind(after.Mode())
	}
	if err == nil && !os.SameFile(before, after) {
		err = errReplaced
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (o *osFS) Mkdir(name string) error {
	err := o.check(name)
	if err == nil {
		err = o.root.Mkdir(name, dirPerm)
	}
	return o.err("mkdir", name, err)
}

func (o *osFS) Remove(name string) error {
	err := o.check(name)
	if err == nil && name == "." {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = o.root.Remove(name)
	}
	return o.err("remove", name, err)
}

func (o *osFS) Rename(from, to string) error {
	info, err := o.lstat(from)
	switch {
	case err != nil:
	case info.IsDir():
		err = o.errTo(to, o.renameDir(from, to))
	default:
		if err = checkKind(info.Mode()); err == nil {
			if err = o.check(to); err == nil {
				err = o.root.Rename(from, to)
			}
			err = o.errTo(to, err)
		}
	}
	return o.err("rename", from, err)
}

// renameDir looks first whether the name is free: some systems replace an empty
// directory.
func (o *osFS) renameDir(from, to string) error {
	if path.Dir(from) != path.Dir(to) {
		return errIsDir
	}
	if _, err := o.lstat(to); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.root.Rename(from, to)
}

func (o *osFS) Link(from, to string) error {
	_, err := o.regular(from)
	if err == nil {
		if err = o.check(to); err == nil {
			err = o.root.Link(from, to)
		}
		err = o.errTo(to, err)
	}
	return o.err("link", from, err)
}

// errTo adds the second name of a rename or link.
func (o *osFS) errTo(to string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("to %s: %w", o.Path(to), cause(err))
}

func (o *osFS) List(dir string) ([]string, error) {
	names, err := o.list(dir)
	return names, o.err("list", dir, err)
}

func (o *osFS) list(dir string) ([]string, error) {
	if err := o.directory(dir); err != nil {
		return nil, err
	}
	f, err := o.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (o *osFS) Stat(name string) (Info, error) {
	info, err := o.lstat(name)
	if err != nil {
		return Info{}, o.err("stat", name, err)
	}
	var f *os.File
	if describeNeedsFile && info.Mode().IsRegular() {
		if f, err = o.root.Open(name); err != nil {
			return Info{}, o.err("stat", name, err)
		}
		defer f.Close()
	}
	result, err := describe(info, f)
	return result, o.err("stat", name, err)
}

func (o *osFS) SyncDir(dir string) error {
	d, err := o.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (o *osFS) OpenDir(dir string) (Dir, error) {
	d, err := o.openDir(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (o *osFS) openDir(dir string) (*osDir, error) {
	if err := o.directory(dir); err != nil {
		return nil, o.err("open", dir, err)
	}
	f, err := o.root.Open(dir)
	if err != nil {
		return nil, o.err("open", dir, err)
	}
	return &osDir{file: f, name: o.Path(dir)}, nil
}

// osDir is an open directory.
type osDir struct {
	file *os.File
	name string
}

func (d *osDir) Sync() error {
	err := syncDir(d.file)
	if err == nil {
		err = askJournal(d.file)
	}
	return d.err("sync", err)
}

func (d *osDir) Close() error { return d.err("close", d.file.Close()) }

func (d *osDir) err(op string, err error) error {
	if err == nil {
		return nil
	}
	return fault.IO(op, d.name, -1, classify(err))
}

// maxNoteBytes bounds what is read of a holder's note.
const maxNoteBytes = 256

func (o *osFS) Lock(name, note string) (io.Closer, error) {
	if err := o.check(name); err != nil {
		return nil, o.err("lock", name, err)
	}
	if _, err := o.regular(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, o.err("lock", name, err)
	}
	f, err := o.root.OpenFile(name, os.O_RDWR|os.O_CREATE|openFlags, filePerm)
	if err != nil {
		return nil, o.err("lock", name, err)
	}
	if err := o.lock(f, name, note); err != nil {
		f.Close()
		return nil, err
	}
	return newOSFile(f, o.Path(name)), nil
}

func (o *osFS) lock(f *os.File, name, note string) error {
	info, err := f.Stat()
	if err == nil {
		err = checkKind(info.Mode())
	}
	if err != nil {
		return o.err("lock", name, err)
	}
	held, err := lockFile(f)
	if err != nil {
		return o.err("lock", name, err)
	}
	if held {
		text := make([]byte, maxNoteBytes)
		n, _ := f.ReadAt(text, 0)
		return lockedError(o.Path(name), text[:n])
	}
	// Only for the message: a full disk does not keep an owner out.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(note), 0)
	}
	return nil
}

// lockedError is the refusal of a lock whose holder left note.
func lockedError(file string, note []byte) error {
	return fmt.Errorf("%s: %w by %q", file, fault.ErrLocked, strings.TrimSpace(string(note)))
}

func (o *osFS) Free() (uint64, error) {
	dir, err := o.root.Open(".")
	if err != nil {
		return 0, o.err("free space", ".", err)
	}
	defer dir.Close()
	n, err := freeBytes(dir)
	return n, o.err("free space", ".", err)
}
