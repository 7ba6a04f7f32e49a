package cli

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// Exit statuses that all commands share. The others are those of each command.
const (
	ExitOK          = 0
	ExitUsage       = 2   // wrong usage
	ExitInterrupted = 130 // by the user, as shells have it
)

// UsageError is a mistake in the arguments.
type UsageError struct {
	Err  error
	hint string // where to read on, set by Run
}

// Error returns the text of the mistake.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage makes an error that is not nil a UsageError.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{Err: err}
}

// Usagef returns a UsageError with a text, as fmt.Errorf does.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Run parses args into grammar, a pointer to a struct as kong wants it, and
// runs the command that they select. Help goes to the first writer of
// kong.Writers. Arguments that do not parse are a UsageError; that and a
// UsageError of the command itself are told by PrintError with a hint. The text
// of an error shows only the beginning of long arguments.
func Run(name string, grammar any, args []string, options ...kong.Option) error {
	helped := false // the parser has printed help, and would have ended the program
	options = append([]kong.Option{
		kong.Name(name),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.KindMapper(reflect.String, kong.MapperFunc(exactText)),
	}, options...)
	parser, err := kong.New(grammar, options...)
	if err != nil {
		return err
	}
	for _, n := range parser.Model.Children { // help that several programs share
		n.Detail = strings.ReplaceAll(n.Detail, "PROGRAM", name)
	}
	out := &helpWriter{Writer: parser.Stdout}
	parser.Stdout = out
	parsed, err := parser.Parse(args)
	parser.Stdout = out.Writer
	if out.err != nil {
		return out.err
	}
	if helped {
		return nil
	}
	if err == nil {
		err = parsed.Run()
	} else {
		var bad *kong.ParseError
		if errors.As(err, &bad) {
			parsed = bad.Context
		}
		err = Usage(clearer(err))
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		usage.hint = "See " + commandName(parser, parsed) + " --help."
	}
	return showArguments(err, args)
}

// exactText takes an argument byte for byte. The parser's own mapper puts U+FFFD in the place of
// bytes that are no UTF-8, which the name of a file may have.
func exactText(c *kong.DecodeContext, target reflect.Value) error {
	token, err := c.Scan.PopValue("string")
	if err == nil {
		target.SetString(fmt.Sprint(token.Value))
	}
	return err
}

// helpWriter remembers that help could not be written, which is no wrong usage.
type helpWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (h *helpWriter) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.err = errors.Join(h.err, err)
	return n, err
}

// noValue is how the parser says that what follows a flag, without a =, looks
// like another flag.
var noValue = regexp.MustCompile(`^(--[^:]+): expected .*value but got "(-[^"]*)" `)

// clearer puts in words what the parser says in its own.
func clearer(err error) error {
	if m := noValue.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s wants a value, and %s looks like a flag: if it is the value, write %s=%s", m[1], m[2], m[1], m[2])
	}
	return err
}

// commandName returns how a command is called that was selected; the default
// one by the name of the program alone.
func commandName(parser *kong.Kong, parsed *kong.Context) string {
	name := parser.Model.Name
	if parsed == nil {
		return name
	}
	if node := parsed.Selected(); node != nil && node != parser.Model.DefaultCmd {
		name += " " + node.Name
	}
	return name
}

// PrintError prints an error for people, each of its lines after the name of
// the program, and behind wrong usage where to read on. What a terminal would not
// print as it is, is escaped.
func PrintError(w io.Writer, name string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", name, Printable(strings.TrimSuffix(line, "\n")))
	}
	var usage *UsageError
	if errors.As(err, &usage) && usage.hint != "" {
		fmt.Fprintln(w, usage.hint)
	}
}
