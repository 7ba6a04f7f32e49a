package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/words"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type shellCommand struct {
	Dir       string `arg:"" help:"Directory of the store."`
	Container string `arg:"" optional:"" help:"Container for queries; default the only one."`
}

// Help returns the long help text.
func (*shellCommand) Help() string {
	return `Reads lines and answers them. A line that begins with SELECT is a query in the container that "use NAME" has chosen; EXPLAIN before it shows the plan. Any other line is a command of pinspect without the directory: "top", "map", "get cities '\"PT\"' porto". Each line sees the store as it is then, also beside a process that writes. Arrows recall lines, Tab completes, Ctrl-D ends. Input that is not a terminal is read line by line; then the first line that fails ends it, with its exit status, and put without a document takes all lines behind its own.

Example:
  pinspect shell DIR cities`
}

// errQuit ends a shell.
var errQuit = errors.New("quit")

// endedError is the exit status of a line that has failed and said why.
type endedError int

// Error implements error.
func (e endedError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// shell is a dialogue about one store.
type shell struct {
	dir, container string
	ctx            context.Context
	env            *environment
}

// Run runs the command.
func (c *shellCommand) Run(ctx context.Context, env *environment) error {
	db, err := openStore(ctx, c.Dir)
	if err != nil {
		return err
	}
	var names []string
	for info := range db.Containers() {
		names = append(names, info.Name)
	}
	if err := db.Close(); err != nil {
		return err
	}
	if c.Container != "" && !slices.Contains(names, c.Container) {
		return cli.Usagef("no such container: %q", c.Container)
	}
	s := &shell{dir: c.Dir, container: c.Container, ctx: ctx, env: env}
	if strings.HasPrefix(s.dir, "-") {
		s.dir = "./" + s.dir // no flag to the commands of lines
	}
	if s.container == "" && len(names) == 1 {
		s.container = names[0]
	}
	if in, ok := env.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return s.talk(in, names)
	}
	return s.read(bufio.NewReaderSize(cli.Input(ctx, env.stdin), maxShellLine))
}

// maxShellLine is the longest line that is read where the input is no terminal.
const maxShellLine = 1 << 20

// read answers lines that are not typed. Commands that read their input read on behind their line.
func (s *shell) read(lines *bufio.Reader) error {
	piped := *s.env
	piped.stdin, s.env = lines, &piped
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return cli.Usagef("a line is longer than %s", humanize.Bytes(maxShellLine))
		}
		if err != nil && err != io.EOF {
			return err
		}
		switch status := s.answer(string(line)); {
		case errors.Is(status, errQuit):
			return nil
		case status != nil:
			return status
		case err == io.EOF:
			return nil
		}
	}
}

// talk reads lines from a terminal.
func (s *shell) talk(in *os.File, names []string) error {
	fmt.Fprintf(s.env.stdout, "%s: %s. help lists the commands.\n", printable(s.dir), cli.Printable(strings.Join(names, ", ")))
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{cli.Input(s.ctx, in), s.env.stdout}, "")
	screen.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return words.Complete(line, pos, append(commandNames(), names...))
	}
	for {
		screen.SetPrompt(cli.Printable(s.container) + "> ")
		line, err := s.readLine(in, screen)
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(s.env.stdout)
			return nil
		}
		if err != nil {
			return err
		}
		if err = s.answer(line); errors.Is(err, errQuit) {
			return nil
		}
		if s.ctx.Err() != nil {
			return cmp.Or(err, s.ctx.Err())
		}
	}
}

// readLine reads a line in the raw mode of the terminal, which commands must not meet: an
// interrupt would not reach them.
func (s *shell) readLine(in *os.File, screen *term.Terminal) (string, error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	if width, height, sizeErr := term.GetSize(int(in.Fd())); sizeErr == nil && width > 0 {
		_ = screen.SetSize(width, height) // which may have changed; nothing is drawn yet
	}
	line, err := screen.ReadLine()
	return line, errors.Join(err, term.Restore(int(in.Fd()), state))
}

// answer answers a line. The error says how a command ended; it is told already.
func (s *shell) answer(line string) error {
	line = strings.TrimSuffix(strings.TrimSpace(line), ";")
	word, rest, _ := strings.Cut(line, " ")
	switch strings.ToLower(word) {
	case "":
		return nil
	case "quit", "exit":
		return errQuit
	case "use":
		s.container = strings.TrimSpace(rest)
		return nil
	case "help":
		fmt.Fprintf(s.env.stdout, "SELECT … FROM c …, EXPLAIN SELECT …, use CONTAINER, quit, or a command:\n  %s\nCOMMAND --help says more.\n", strings.Join(commandNames(), " "))
		return nil
	case "select":
		return s.run("query", "--", s.dir, s.container, line)
	case "explain":
		return s.run("query", "--explain", "--", s.dir, s.container, rest)
	}
	args, err := words.Split(line)
	if err == nil && !slices.Contains(commandNames(), args[0]) {
		err = cli.Usagef("unknown command %q; help lists them", args[0])
	}
	if err != nil {
		return s.ended(s.env.fail(err))
	}
	return s.run(slices.Insert(args, 1, s.dir)...)
}

// run runs a command.
func (s *shell) run(args ...string) error { return s.ended(execute(s.ctx, args, s.env)) }

// ended returns how a line has ended; nil: well.
func (s *shell) ended(status int) error {
	if status == cli.ExitOK {
		return nil
	}
	return endedError(status)
}

// commandNames are the commands about one store.
func commandNames() []string {
	return []string{"info", "tree", "partitions", "top", "hot", "map", "history", "segments", "index", "wal", "get", "export", "query", "verify", "space",
		"put", "delete", "create", "drop", "alter", "compact"}
}
