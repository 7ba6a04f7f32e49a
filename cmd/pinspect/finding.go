package main

import (
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/engine"
)

// finding is something wrong in a file.
type finding struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // -1: the file as a whole
	What   string `json:"what"`
}

func (f finding) String() string {
	if f.Offset < 0 {
		return f.File + ": " + f.What
	}
	return fmt.Sprintf("%s: offset %d: %s", f.File, f.Offset, f.What)
}

// findingOf turns an error into a finding, at the place that the error names
// or else in file.
func findingOf(file string, err error) finding {
	var corrupt *engine.CorruptionError
	if errors.As(err, &corrupt) {
		return finding{corrupt.File, corrupt.Offset, corrupt.Err.Error()}
	}
	var io *engine.IOError
	if errors.As(err, &io) {
		return finding{io.File, io.Offset, fmt.Sprintf("%s: %v", io.Op, io.Err)}
	}
	return finding{file, -1, err.Error()}
}
