// Package command is what the commands of pinspect share that live in packages of their
// own.
package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/partmap"
)

// Environment is what a command uses of the outside. It serves one command.
type Environment struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer // for what is to be read at once
	Line   *cli.Line // shows progress
	V      int       // the version of the JSON output
}

// Header begins every JSON object.
type Header struct {
	V    int    `json:"v"`
	Type string `json:"type"` // what the object describes
}

// Header returns the header of an object.
func (e *Environment) Header(kind string) Header { return Header{e.V, kind} }

// Object prints v as a line of JSON.
func (e *Environment) Object(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Printf prints text.
func (e *Environment) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Stdout, format, args...)
	return err
}

// ParseKey reads the partition key that an argument gives.
func ParseKey(text string) (partmap.Key, error) {
	key, err := partmap.Parse(text)
	if err != nil {
		return key, cli.Usagef("key %s: %w; a string wants quotes: '\"text\"'", text, err)
	}
	return key, nil
}

// DiffersError says that a comparison has found a difference, which is printed already.
type DiffersError struct{}

// Error implements error.
func (DiffersError) Error() string { return "the stores differ" }

// Printable returns a name for a line of text: quoted if it has something in it that a
// terminal would not print as it is.
func Printable(name string) string {
	for _, r := range name {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}
