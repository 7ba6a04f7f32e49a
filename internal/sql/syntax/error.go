package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error says where a text is no query, or why one cannot be answered.
type Error struct {
	Offset       int // byte of the text
	Line, Column int // from 1, in characters
	Msg          string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("column %d: %s", e.Column, e.Msg)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// Errorf returns an *Error at an offset of a text.
func Errorf(text string, offset int, format string, args ...any) error {
	before := text[:min(offset, len(text))]
	line := strings.Count(before, "\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return &Error{Offset: offset, Line: line + 1, Column: utf8.RuneCountInString(before) + 1, Msg: fmt.Sprintf(format, args...)}
}
