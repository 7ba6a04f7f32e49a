package harness

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cleavestore/cleave/internal/outputfile"
)

// JSONOutput is a flag that says where a command writes its results as JSON:
// to a file, or with "-" to standard output in place of text. The zero value
// writes nothing.
type JSONOutput struct {
	name string
	file *os.File
	made bool // the file was not there before
}

// UnmarshalText reads a flag.
func (j *JSONOutput) UnmarshalText(text []byte) error {
	if j.name = string(text); j.name == "" {
		return errors.New("the name of the file is empty")
	}
	return nil
}

// ReplacesText reports whether standard output is for JSON alone.
func (j *JSONOutput) ReplacesText() bool { return j.name == "-" }

// Open opens the file, so that a command does not fail at its end for want of
// it. What is in it stays there until write. After open, discard must be called.
// A file in a store is refused, also in one that the command makes: dirs.
func (j *JSONOutput) Open(dirs ...string) (err error) {
	if j.name == "" || j.name == "-" {
		return nil
	}
	if err = OutsideStores("--json", j.name, dirs...); err != nil {
		return err
	}
	j.file, err = os.OpenFile(j.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	j.made = err == nil
	if errors.Is(err, fs.ErrExist) {
		j.file, err = os.OpenFile(j.name, os.O_WRONLY, 0)
	}
	return err
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

// Write writes v and closes the file.
func (j *JSONOutput) Write(env *Environment, v any) error {
	if j.name == "-" {
		return WriteJSON(env.Stdout, v)
	}
	if j.file == nil {
		return nil
	}
	if info, err := j.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := j.file.Truncate(0); err != nil {
			return err
		}
	}
	err := errors.Join(WriteJSON(j.file, v), j.file.Close())
	j.file = nil
	return err
}

// Discard closes the file if nothing was written to it, and removes it if it
// was not there before.
func (j *JSONOutput) Discard() {
	if j.file == nil {
		return
	}
	j.file.Close()
	j.file = nil
	if j.made {
		os.Remove(j.name)
	}
}

// WriteJSON writes v with indents.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
