package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
)

// output is standard output, buffered.
type output struct {
	w *bufio.Writer
}

// outputError is a failure to write what a command puts out. It says nothing
// about the store.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// wroteOutput makes an error of a write that is not nil an outputError.
func wroteOutput(err error) error {
	if err == nil {
		return nil
	}
	return outputError{err}
}

// outputWriter marks what goes wrong in a writer.
type outputWriter struct{ io.Writer }

// Write implements io.Writer.
func (o outputWriter) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	return n, wroteOutput(err)
}

// object prints v as a line of JSON.
func (o *output) object(v any) error {
	enc := json.NewEncoder(o.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printf prints text. Errors are met when the output is flushed.
func (o *output) printf(format string, args ...any) {
	fmt.Fprintf(o.w, format, args...)
}

// jsonVersion rises when a field of the JSON output gets another name, kind, unit
// or meaning, or goes; fields may be added under the same one. docs/json.md lists
// them.
const jsonVersion = 2

// header begins every JSON object.
type header struct {
	V    int    `json:"v"`
	Type string `json:"type"` // what the object describes
}

func newHeader(kind string) header { return header{V: jsonVersion, Type: kind} }

// printable returns a name as it is if it cannot confuse a terminal, and
// quoted otherwise.
func printable(name string) string { return command.Printable(name) }
