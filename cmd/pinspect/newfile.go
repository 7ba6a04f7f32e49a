package main

import (
	"os"

	"github.com/cleavestore/cleave/internal/cli"
)

// newFileWriter is a file that gets its name when it is whole.
type newFileWriter struct {
	*os.File
	name string
	done bool
}

// newFile makes a file that publish names; one of the name must not exist.
func newFile(name string) (*newFileWriter, error) {
	if _, err := os.Lstat(name); err == nil {
		return nil, cli.Usagef("%s exists", name)
	}
	f, err := os.OpenFile(name+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return nil, cli.Usagef("%s.part exists: another command writes it, or left it when it was killed", name)
	}
	if err != nil {
		return nil, err
	}
	return &newFileWriter{File: f, name: name}, nil
}

// publish syncs the file and gives it its name.
func (f *newFileWriter) publish() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), f.name); err != nil {
		return err
	}
	f.done = true
	return nil
}

// discard removes the file unless it was published.
func (f *newFileWriter) discard() {
	if !f.done {
		_ = f.Close() // twice if publish failed
		_ = os.Remove(f.Name())
	}
}
