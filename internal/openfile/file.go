package openfile

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Options are the options of a File.
type Options struct {
	// Map says that the file is to be mapped.
	Map bool
	// Budget bounds what files hold of the system. Nil: one of its own, without bounds.
	Budget *Budget
	// Cold bounds the reads of bytes that may have to come from the device. Nil:
	// no bound.
	Cold *ColdReads
	// Same returns an error unless f, which has the name and the size of the file and is
	// another one, is a copy of it.
	Same func(f vfs.File) error
}

// File is an immutable file. Use it after Init, until Close.
type File struct {
	fs      vfs.FS
	name    string // full path, for messages
	o       Options
	budget  *Budget // nil: the file is broken
	broken  error   // of Break
	size    int64   // of SetSize
	names   names
	handle  handle
	mapping mapping
	pins    atomic.Int64
	kept    bool // its descriptor is never given up
}

// errEnded is the error for bytes behind the end of a file.
var errEnded = errors.New("file is shorter than it was")

// Init sets the file of a name up. Nothing is opened yet.
func (f *File) Init(fsys vfs.FS, name string, o Options) {
	if o.Budget == nil {
		o.Budget = NewBudget(BudgetOptions{})
	}
	f.fs, f.name, f.o, f.budget = fsys, fsys.Path(name), o, o.Budget
	f.names.list = []string{name}
	f.handle.of, f.mapping.of = f, f
	f.handle.users.Store(closedHandle)
}

// Break sets up, instead of Init, a file that cannot be opened: each read returns why.
func (f *File) Break(name string, why error) { f.name, f.broken = name, why }

// Broken returns the error of Break, nil if there is a file.
func (f *File) Broken() error { return f.broken }

// SetSize says how many bytes the file has. Mappings show them alone, and no file of
// another size is taken for it. It is called before the first View.
func (f *File) SetSize(n int64) { f.size = n }

// Stat returns how many bytes the open file has now.
func (f *File) Stat() (int64, error) {
	open, err := f.take()
	if err != nil {
		return 0, err
	}
	info, err := open.Stat()
	f.give()
	if err != nil {
		return 0, fault.IO("stat", f.name, -1, err)
	}
	return info.Size, nil
}

// ReadAt fills b with the bytes at off.
func (f *File) ReadAt(b []byte, off int64) error { return f.read(b, off, false) }

// read is ReadAt; park: the goroutine is to be parked meanwhile, if that is possible.
func (f *File) read(b []byte, off int64, park bool) error {
	if f.broken != nil {
		return f.broken
	}
	open, err := f.take()
	if v := f.mapping.now.Load(); v != nil && errors.Is(err, fault.ErrMissing) {
		return f.copyMapped(b, v, off)
	}
	if err != nil {
		return err
	}
	if d, ok := open.(vfs.Descriptor); ok && park && f.o.Cold.rings.ReadAt(d.OSFile(), b, off) {
		f.give()
		return nil
	}
	n, err := open.ReadAt(b, off)
	f.give()
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return fault.Corrupt(f.name, off+int64(n), "%w", errEnded)
	}
	return fault.IO("read", f.name, off, err)
}

// copyMapped is ReadAt for a file that has no name any more.
func (f *File) copyMapped(b []byte, v *View, off int64) (err error) {
	defer f.Unguard(Guard(), &err)
	if n := copy(b, v.Data[min(off, int64(len(v.Data))):]); n < len(b) {
		return fault.Corrupt(f.name, off+int64(n), "%w", errEnded)
	}
	return nil
}

// WillNeed tells the system that n bytes at off are read soon.
func (f *File) WillNeed(off, n int64) {
	if open, err := f.take(); err == nil {
		open.Advise(off, n, vfs.WillNeed)
		f.give()
	}
}

// Pin keeps the mapping for a caller that uses the file outside of the stays that the
// Retire of its Budget waits for. Pin is called in such a stay. Unpin ends it.
func (f *File) Pin() { f.pins.Add(1) }

// Unpin ends what Pin began.
func (f *File) Unpin() { f.pins.Add(-1) }

// Keep makes sure that the file can be read when its names are gone: it stays mapped or,
// if it cannot be mapped, open. If there is room for neither, the file needs the name.
func (f *File) Keep() error {
	f.pins.Add(1) // for good
	if f.View() != nil {
		return nil
	}
	b := f.budget
	b.mu.Lock()
	if f.kept = b.kept+1 < b.o.MaxFiles; f.kept {
		b.kept++
	}
	b.mu.Unlock()
	if !f.kept {
		return nil
	}
	_, err := f.take() // for good
	return err
}

// Close releases the descriptor and the mapping. Nobody may use the file any more.
func (f *File) Close() {
	if f.budget != nil {
		f.budget.drop(f)
	}
}

// names are the names by which a file may be opened. It needs one of them for as long as
// it may be used. Copies of a file that could not be linked count as names of it.
type names struct {
	sync.Mutex
	list []string
}

// AddName says that the file has another name.
func (f *File) AddName(name string) {
	f.names.Lock()
	defer f.names.Unlock()
	if !slices.Contains(f.names.list, name) {
		f.names.list = append(f.names.list, name)
	}
}

// LetGo says that the file is about to lose a name. It returns false if that is the last
// name and the file is pinned: then the name must stay, and LetGo is to be called again
// later.
func (f *File) LetGo(name string) bool {
	f.names.Lock()
	defer f.names.Unlock()
	at := slices.Index(f.names.list, name)
	if at >= 0 && len(f.names.list) > 1 {
		f.names.list = slices.Delete(f.names.list, at, at+1)
		return true
	}
	return at < 0 || f.pins.Load() == 0
}
