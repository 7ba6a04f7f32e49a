package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/measure"
)

// Environment is what commands use of the outside.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Width          int // columns of the terminal that stderr is; 0: it is none
	Open           func(ctx context.Context, dir string, o StoreOptions) (Store, error)
	Name           string // of the program
	Args           []string
	Trial          TrialTimes
}

// TrialTimes say how long to try something out before it is measured.
type TrialTimes struct {
	Calibration time.Duration // of the clock
	Maximum     time.Duration // the closed loop that finds a rate
}

var trialsOfUsers = TrialTimes{Calibration: time.Second, Maximum: 4 * time.Second}

// Exit statuses beside those of package cli.
const (
	ExitFailed = 1
	ExitFull   = 3 // there is no space for the store
)

// ErrInterrupted says that the user ended the command; what was measured until
// then is printed.
var ErrInterrupted = errors.New("interrupted")

// Usagef returns an error of usage.
func Usagef(format string, args ...any) error { return cli.Usagef(format, args...) }

// Main runs the command line of the process and returns the status to exit with.
func Main(name, description string, commands any) int {
	// Nobody reads the output any more at SIGPIPE: what was made is removed.
	ctx := cli.Interruptible(syscall.SIGPIPE)
	e := &Environment{
		Stdin: cli.Input(ctx, os.Stdin), Stdout: os.Stdout, Stderr: os.Stderr, Width: cli.TerminalWidth(os.Stderr), Open: OpenStore, Trial: trialsOfUsers,
	}
	return e.Execute(ctx, name, description, commands, os.Args[1:])
}

// Execute runs one command line of a program, whose commands kong knows by a struct, and
// returns the exit status.
func (e *Environment) Execute(ctx context.Context, name, description string, commands any, args []string) int {
	e.Name, e.Args = name, args
	out := &watchedOutput{w: e.Stdout}
	e.Stdout = out
	defer func() { e.Stdout = out.w }()
	err := cli.Run(name, commands, args,
		kong.Description(description),
		kong.Writers(e.Stdout, e.Stderr),
		kong.NamedMapper("directory", kong.MapperFunc(decodeDirectory)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(e),
	)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return cli.ExitOK
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, ErrInterrupted) {
		err = ErrInterrupted // before anything was measured
	}
	cli.PrintError(e.Stderr, name, err)
	switch {
	case errors.Is(err, ErrInterrupted):
		return cli.ExitInterrupted
	case errors.As(err, new(*cli.UsageError)):
		return cli.ExitUsage
	case errors.Is(err, ErrDiskFull):
		return ExitFull
	}
	return ExitFailed
}

// watchedOutput remembers the first failure of a writer.
type watchedOutput struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (o *watchedOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// decodeDirectory reads a flag that names a directory.
func decodeDirectory(ctx *kong.DecodeContext, target reflect.Value) error {
	var name string
	if err := ctx.Scan.PopValueInto("directory", &name); err != nil {
		return err
	}
	if name == "" {
		return errors.New("the name of the directory is empty")
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a file: want the directory of a store", name)
	}
	target.SetString(name)
	return nil
}

// Notef prints a message for people.
func (e *Environment) Notef(format string, args ...any) {
	fmt.Fprintf(e.Stderr, e.Name+": "+format+"\n", args...)
}

// logger returns where the engine logs to: nowhere, unless asked for.
func (e *Environment) logger(on bool) *slog.Logger {
	if !on {
		return nil
	}
	return slog.New(slog.NewTextHandler(e.Stderr, nil))
}

// PrintMachine writes the command line and what it runs on, as two lines.
func (e *Environment) PrintMachine(w io.Writer, m measure.Machine) {
	fmt.Fprintln(w, "$ "+CommandLine(e.Name, e.Args))
	fmt.Fprintln(w, m)
}

// Quoted writes an argument as a shell reads it.
func Quoted(text string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./,:=%+@", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// CommandLine writes a command line as a shell reads it.
func CommandLine(name string, args []string) string {
	words := []string{name}
	for _, arg := range args {
		words = append(words, Quoted(arg))
	}
	return strings.Join(words, " ")
}
