package harness

import (
	"encoding/json"
	"io"
)

// JSONOutput is a flag that says where a command writes its results as JSON:
// to a file, or with "-" to standard output in place of text.
type JSONOutput struct{ OutputFile }

// ReplacesText reports whether standard output is for JSON alone.
func (j *JSONOutput) ReplacesText() bool { return j.name == "-" }

// Open opens the file, as OutputFile does.
func (j *JSONOutput) Open(dirs ...string) error { return j.OutputFile.Open("--json", dirs...) }

// Write writes v and closes the file.
func (j *JSONOutput) Write(env *Environment, v any) error {
	return j.OutputFile.Write(env.Stdout, func(w io.Writer) error { return WriteJSON(w, v) })
}

// WriteJSON writes v with indents.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
