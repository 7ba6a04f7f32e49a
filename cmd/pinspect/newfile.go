package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/internal/vfs"
)

// checkNew says whether writeNew refuses a name, for a command that has much to do before.
func checkNew(name string) error {
	if name == "" || os.IsPathSeparator(name[len(name)-1]) {
		return cli.Usagef("%q names no file", name)
	}
	if _, err := os.Lstat(name); err == nil {
		return cli.Usagef("%s exists", name)
	}
	return outputfile.OutsideStores(name)
}

// writeNew has write make a file. One of the name must not exist. The file gets
// its name when it is whole: write returned nil, and the content is on disk.
// After an error there is no file, unless it is the last one possible: that the
// name may not be durable.
func writeNew(name string, write func(to io.Writer) error) error {
	if err := checkNew(name); err != nil {
		return err
	}
	dir, err := vfs.OpenRoot(filepath.Dir(name))
	if err != nil {
		return outputError{err}
	}
	defer layout.CloseRoot(dir)
	base := filepath.Base(name)
	part := base + ".part"
	f, err := dir.Create(part)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("%s.part exists: another command writes it, or left it when it was killed", name)
	}
	if err != nil {
		return outputError{err}
	}
	defer dir.Remove(part) // it has another name if it is whole
	err = write(outputWriter{io.NewOffsetWriter(f, 0)})
	if err == nil {
		err = wroteOutput(f.Sync())
	}
	if closeErr := f.Close(); err == nil {
		err = wroteOutput(closeErr)
	}
	if err != nil {
		return err
	}
	names, err := dir.OpenDir(".")
	if err != nil {
		return wroteOutput(err)
	}
	defer names.Close()
	err = dir.Link(part, base)
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.Usagef("%s appeared meanwhile, and stays as it is", name)
	case err != nil: // not every file system knows links
		err = dir.Rename(part, base)
	}
	if err == nil {
		err = names.Sync()
	}
	return wroteOutput(err)
}
