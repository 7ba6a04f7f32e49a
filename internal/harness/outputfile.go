package harness

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cleavestore/cleave/internal/outputfile"
)

// OutputFile is a flag that says where a command writes results: to a file, or with "-" to
// standard output. The zero value writes nothing.
type OutputFile struct {
	name string
	file *os.File
	made bool // the file was not there before
}

// UnmarshalText reads a flag.
func (o *OutputFile) UnmarshalText(text []byte) error {
	if o.name = string(text); o.name == "" {
		return errors.New("the name of the file is empty")
	}
	return nil
}

// String returns the value of the flag; "" if it was not given.
func (o *OutputFile) String() string { return o.name }

// Open opens the file, so that a command does not fail at its end for want of
// it. What is in it stays there until Write. After Open, Discard must be called.
// A file in a store is refused, also in one that the command makes: dirs.
func (o *OutputFile) Open(flag string, dirs ...string) (err error) {
	if o.name == "" || o.name == "-" {
		return nil
	}
	if err = OutsideStores(flag, o.name, dirs...); err != nil {
		return err
	}
	o.file, err = os.OpenFile(o.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	o.made = err == nil
	if errors.Is(err, fs.ErrExist) {
		o.file, err = os.OpenFile(o.name, os.O_WRONLY, 0)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// OutsideStores refuses a file or directory in a store as the value of a flag, also
// in one that the command makes: dirs. Nothing and standard output are in none.
func OutsideStores(flag, name string, dirs ...string) error {
	if name == "" || name == "-" {
		return nil
	}
	if err := outputfile.OutsideStores(name, dirs...); err != nil {
		return Usagef("%s: %w", flag, err)
	}
	return nil
}

// Write has write write the results, and closes the file.
func (o *OutputFile) Write(stdout io.Writer, write func(io.Writer) error) error {
	if o.name == "-" {
		return write(stdout)
	}
	if o.file == nil {
		return nil
	}
	if info, err := o.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := o.file.Truncate(0); err != nil {
			return err
		}
	}
	err := errors.Join(write(o.file), o.file.Close())
	o.file = nil
	return err
}

// Discard closes the file if nothing was written to it, and removes it if it
// was not there before.
func (o *OutputFile) Discard() {
	if o.file == nil {
		return
	}
	o.file.Close()
	o.file = nil
	if o.made {
		os.Remove(o.name)
	}
}
