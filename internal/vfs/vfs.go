// Package vfs is the interface between the engine and the file system.
//
// OS is the real file system below one root directory. Mem is a file system in memory that
// tracks which bytes and names were synced, so that tests can stop
// it at any call and see what a power cut could have left. Faulty wraps either
// and fails chosen calls.
//
// Names are slash-separated and relative to the root of the FS ("p/000001/7.seg",
// "." for the root itself). They never leave it: an absolute name, a ".."
// element or a symbolic link is refused. Errors are *fault.IOError naming the
// full path. All methods are safe for concurrent use, those of one File too
// (ReadAt and WriteAt at disjoint offsets may run in parallel).
//
// What is durable after which call:
//
//	File.Sync     the bytes and the length of that file, not its name
//	FS.SyncDir    names created, renamed, linked and removed in that directory
//	everything else: nothing
package vfs

import (
	"io"
	"os"
)

// FS is a file system below one root.
type FS interface {
	// Path returns the full path of name, for messages only.
	Path(name string) string
	// Create makes a new regular file, mode 0600, open for reading and writing.
	// It fails with fs.ErrExist if the name is taken.
	Create(name string) (File, error)
	// Open opens an existing regular file for reading; it refuses directories,
	// devices, fifos and symbolic links. If a Rename puts another file in its place
	// meanwhile, it opens one of the two.
	Open(name string) (File, error)
	// OpenWrite opens an existing regular file for reading and writing.
	OpenWrite(name string) (File, error)
	// Mkdir makes a directory, mode 0700; fs.ErrExist if the name is taken.
	Mkdir(name string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename gives a file another name, replacing the file that had it. A
	// directory gets another name in the directory in which it is, which must be
	// free: fs.ErrExist if it is not.
	Rename(from, to string) error
	// Link gives a file a second name; fs.ErrExist if the name is taken.
	Link(from, to string) error
	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a name without following symbolic links.
	Stat(name string) (Info, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// OpenDir opens a directory for a SyncDir that takes no descriptor when it comes.
	OpenDir(dir string) (Dir, error)
	// Lock takes an exclusive lock on a file, creating it if absent, and holds
	// it until the Closer is closed. The file is never removed. It does not
	// wait: a lock held elsewhere, in this process too, is fault.ErrLocked
	// with the holder's note in the text. note is written into the file for
	// the message of the one who is refused.
	Lock(name, note string) (io.Closer, error)
	// Free returns the bytes that an unprivileged caller can still write.
	Free() (uint64, error)
}

// Info describes a file or directory.
type Info struct {
	Size  int64  // bytes
	Dir   bool   // a directory
	Links int    // names that the file has
	ID    uint64 // inode number: equal for two names of one file
}

// Dir is an open directory.
type Dir interface {
	io.Closer
	// Sync is FS.SyncDir of it.
	Sync() error
}

// File is an open regular file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the full path that it was opened by, for messages.
	Name() string
	// Stat describes the file.
	Stat() (Info, error)
	// Truncate sets the length.
	Truncate(size int64) error
	// Allocate makes the file at least size bytes long, backed by storage, so
	// that writing below size does not fail for lack of space. New bytes read
	// as zeros.
	Allocate(size int64) error
	// Sync makes bytes and length durable, those that other files or processes wrote
	// too. After an error the
	// outcome is unknown and another call proves nothing; each other File that is open
	// is told of it by its next Sync. Of a file open for reading it is
	// errors.ErrUnsupported where the system cannot do that.
	Sync() error
	// SyncReserved is Sync for bytes some of which were written for the first time, to
	// space that was reserved: that it was written is metadata. Where the journal that
	// metadata go to has failed meanwhile, because of somebody else's call, Sync may
	// answer nil without them; SyncReserved fails. SyncDir does, too.
	SyncReserved() error
	// Map maps the whole file for reading. Length is that of Stat at the call.
	Map() (*Mapping, error)
	// MapWrite maps the first size bytes of the file, which it must have, for
	// writing. It returns nil where that is no gain, or where ReadAt and WriteAt may
	// not see the same bytes.
	MapWrite(size int64) (*WriteMapping, error)
	// WriteBack begins to bring [off, off+n), which is written and final, to the
	// device, after it has waited for what earlier calls began below off: one
	// piece of the file is on its way at a time, for a sync of another one not
	// to wait behind more. It makes nothing durable. After an error the outcome
	// of the writes is unknown. It does nothing where the system offers no such
	// call.
	WriteBack(off, n int64) error
	// Advise tells how [off, off+n) will be read through ReadAt; n 0 is the
	// rest of the file. It is a hint: errors are not reported.
	Advise(off, n int64, advice Advice)
	// NextData returns the offset, not below off, up to which the file is
	// known to read as zeros because nothing was ever written there: off itself
	// where the system does not tell, at most the length of the file.
	NextData(off int64) int64
}

// Advice is a hint about the use of a range of a file or mapping.
type Advice int

// Advice values.
const (
	Random     Advice = iota // single pages in no order: no read-ahead
	Sequential               // front to back, once
	WillNeed                 // soon: start reading
	DontNeed                 // not again soon: drop what is cached
)

// Descriptor is a File of the operating system.
type Descriptor interface {
	// OSFile returns the file, for reading while the File is open.
	OSFile() *os.File
}
