package layout

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cleavestore/cleave/engine"
)

// Finding is something wrong in a file of a store.
type Finding struct {
	File   string `json:"file"`   // below the directory of the store, with slashes
	Offset int64  `json:"offset"` // -1: the file as a whole
	What   string `json:"what"`

	root string // full name of the directory of the store
}

// String tells the finding with the full name of the file.
func (f Finding) String() string {
	name := f.File
	if f.root != "" {
		name = filepath.Join(f.root, filepath.FromSlash(name))
	}
	if f.Offset < 0 {
		return name + ": " + f.What
	}
	return fmt.Sprintf("%s: offset %d: %s", name, f.Offset, f.What)
}

// Finding returns a finding about a file of the store, at offset or, if that
// is negative, about the file as a whole.
func (f *Files) Finding(name string, offset int64, format string, args ...any) Finding {
	return Finding{File: name, Offset: offset, What: fmt.Sprintf(format, args...), root: f.FS.Path(".")}
}

// FindingOf turns an error into a finding, at the place that the error names
// or else in a file of the store.
func (f *Files) FindingOf(name string, err error) Finding {
	var corrupt *engine.CorruptionError
	if errors.As(err, &corrupt) {
		return f.findingAt(corrupt.File, corrupt.Offset, corrupt.Err.Error())
	}
	var io *engine.IOError
	if errors.As(err, &io) {
		return f.findingAt(io.File, io.Offset, fmt.Sprintf("%s: %v", io.Op, io.Err))
	}
	return f.Finding(name, -1, "%v", err)
}

// findingAt returns a finding about a file with its full name.
func (f *Files) findingAt(full string, offset int64, what string) Finding {
	root := f.FS.Path(".")
	name, err := filepath.Rel(root, full)
	if err != nil || !filepath.IsLocal(name) {
		return Finding{File: full, Offset: offset, What: what}
	}
	return Finding{filepath.ToSlash(name), offset, what, root}
}
