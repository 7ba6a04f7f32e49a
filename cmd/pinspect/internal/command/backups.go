package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/humanize"
)

// BackupError is damage of a backup, of which verify knows nothing.
type BackupError struct{ error }

// Unwrap returns the damage.
func (e BackupError) Unwrap() error { return e.error }

// BackupFailure says what a failure to read backups means for the exit status.
func BackupFailure(err error) error {
	switch {
	case errors.Is(err, engine.ErrCorrupt):
		return BackupError{err}
	case errors.Is(err, engine.ErrWrongParent), errors.Is(err, engine.ErrExists):
		return cli.Usage(err)
	}
	return err
}

// Concatenation reads files one after the other, and shows how far it is. It is for one
// goroutine.
type Concatenation struct {
	env   *Environment
	doing string
	input string   // all of it, for errors
	names []string // what is left
	name  string   // of the present one
	from  io.Reader
	shut  func() error
	begun int64 // of read, before the present one
	read  int64 // bytes of all
}

// NewConcatenation reads the files with these names; - is standard input. doing is what the
// command does with them.
func NewConcatenation(env *Environment, doing string, names []string) *Concatenation {
	return &Concatenation{env: env, doing: doing, input: strings.Join(names, " + "), names: names}
}

// Name tells errors where the input is.
func (c *Concatenation) Name() string { return c.input }

// Read implements io.Reader. An empty file is damage: without the error its backup would
// be left out unseen.
func (c *Concatenation) Read(p []byte) (int, error) {
	for {
		if c.from == nil {
			if len(c.names) == 0 {
				return 0, io.EOF
			}
			c.name, c.names, c.begun = c.names[0], c.names[1:], c.read
			if c.name == "-" {
				c.from, c.shut = c.env.Stdin, func() error { return nil }
			} else {
				f, err := os.Open(c.name)
				if err != nil {
					return 0, err
				}
				c.from, c.shut = f, f.Close
			}
		}
		n, err := c.from.Read(p)
		c.read += int64(n)
		c.env.Line.Show(time.Now(), func() string { return c.doing + " " + filepath.Base(c.name) + ": " + humanize.Bytes(c.read) + " read" })
		if err != io.EOF {
			return n, err
		}
		c.Close()
		if n > 0 {
			return n, nil
		}
		if c.read == c.begun {
			return 0, fault.Corrupt(c.name, 0, "it is empty")
		}
	}
}

// Close closes the present file.
func (c *Concatenation) Close() {
	c.env.Line.Clear()
	if c.from != nil {
		_ = c.shut() // it was only read
		c.from = nil
	}
}
