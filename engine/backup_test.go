package engine

import (
	"io"
	"path"

	"github.com/cleavestore/cleave/internal/vfs"
)

// below is a directory of a file system as a file system.
type below struct {
	vfs.FS
	dir string
}

func (b below) at(name string) string                     { return path.Join(b.dir, name) }
func (b below) Path(name string) string                   { return b.FS.Path(b.at(name)) }
func (b below) Create(name string) (vfs.File, error)      { return b.FS.Create(b.at(name)) }
func (b below) Open(name string) (vfs.File, error)        { return b.FS.Open(b.at(name)) }
func (b below) OpenWrite(name string) (vfs.File, error)   { return b.FS.OpenWrite(b.at(name)) }
func (b below) Mkdir(name string) error                   { return b.FS.Mkdir(b.at(name)) }
func (b below) Remove(name string) error                  { return b.FS.Remove(b.at(name)) }
func (b below) Rename(from, to string) error              { return b.FS.Rename(b.at(from), b.at(to)) }
func (b below) Link(from, to string) error                { return b.FS.Link(b.at(from), b.at(to)) }
func (b below) List(dir string) ([]string, error)         { return b.FS.List(b.at(dir)) }
func (b below) Stat(name string) (vfs.Info, error)        { return b.FS.Stat(b.at(name)) }
func (b below) SyncDir(dir string) error                  { return b.FS.SyncDir(b.at(dir)) }
func (b below) Lock(name, note string) (io.Closer, error) { return b.FS.Lock(b.at(name), note) }
