package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// longArgument is the length in bytes above which an error does not repeat an argument
	// as it is, and shownOfArgument how much of it the error shows then.
	longArgument    = 200
	shownOfArgument = 64
)

// argumentError is an error whose text shows arguments as showArgument does.
type argumentError struct {
	err  error
	text string
}

// Error returns the text.
func (e *argumentError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *argumentError) Unwrap() error { return e.err }

// showArguments replaces the arguments that the text of an error repeats, where they are too
// long or cannot be printed. So no command has to do it for each of its errors.
func showArguments(err error, args []string) error {
	var awkward []string
	for _, arg := range args {
		parts := []string{arg}
		if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			parts = []string{name, value}
		}
		for _, part := range parts {
			if showArgument(part) != part {
				awkward = append(awkward, part)
			}
		}
	}
	if err == nil || len(awkward) == 0 {
		return err
	}
	slices.SortFunc(awkward, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // a shorter one may lie in a longer one
	text := err.Error()
	for _, arg := range awkward {
		text = strings.ReplaceAll(text, strconv.Quote(arg), showArgument(arg))
		text = strings.ReplaceAll(text, arg, showArgument(arg))
	}
	return &argumentError{err, text}
}

// showArgument returns an argument for the text of an error: as it is, or in quotes where it
// cannot be printed, and the beginning of a long one.
func showArgument(arg string) string {
	if len(arg) <= longArgument {
		if Printable(arg) == arg {
			return arg
		}
		return strconv.Quote(arg)
	}
	n := shownOfArgument
	for n > shownOfArgument-utf8.UTFMax && !utf8.RuneStart(arg[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(arg[:n]), len(arg))
}

// Printable returns a line with what a terminal would not print as it is written as in a
// constant of Go: control characters, and bytes that are no UTF-8.
func Printable(line string) string {
	var b strings.Builder
	for i, r := range line {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, line[i])
		case strconv.IsPrint(r) || r == '\t':
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}
