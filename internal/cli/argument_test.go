package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

type openCommand struct {
	Dir  string `arg:""`
	Name string
}

var errOpen = errors.New("cannot be opened")

// Run runs the command.
func (c *openCommand) Run() error {
	return fmt.Errorf("%s: open %q: --name=%s: %w", c.Dir, c.Dir, c.Name, errOpen)
}

// TestArguments: errors show long arguments cut, and what cannot be printed in quotes, however
// often and in whichever way a command repeats them. Others stay as they are.
func TestArguments(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	short := `"` + strings.Repeat("ä", 32) + `"… (10000 bytes)`
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"open", "dir", "--name=x"}, `tool: dir: open "dir": --name=x: cannot be opened`},
		{[]string{"open", long, "--name=x"}, `tool: ` + short + `: open ` + short + `: --name=x: cannot be opened`},
		{[]string{"open", "a b ä", "--name=" + long}, `tool: a b ä: open "a b ä": --name=` + short + `: cannot be opened`},
		{[]string{"open", "a\x01b", "--name", "\x1b[2J"}, `tool: "a\x01b": open "a\x01b": --name="\x1b[2J": cannot be opened`},
		{[]string{"open", "one\ntwo"}, `tool: "one\ntwo": open "one\ntwo": --name=: cannot be opened`},
		{[]string{"open", "a\xffb", "--name=\xfe"}, `tool: "a\xffb": open "a\xffb": --name="\xfe": cannot be opened`},
		{[]string{"open", "dir", long}, `tool: unexpected argument ` + short},
		{[]string{"open", "dir", "\xff"}, `tool: unexpected argument "\xff"`},
	} {
		var grammar struct {
			Open openCommand `cmd:""`
		}
		var errs bytes.Buffer
		err := Run("tool", &grammar, c.args, kong.Writers(&errs, &errs))
		PrintError(&errs, "tool", err)
		if got, _, _ := strings.Cut(errs.String(), "\n"); got != c.want {
			t.Errorf("%.40q printed\n%s\nwant\n%s", c.args, got, c.want)
		}
		if errors.Is(err, errOpen) == errors.As(err, new(*UsageError)) {
			t.Errorf("%.40q: %v", c.args, err)
		}
	}
}

// TestPrintErrorPrintable: whatever an error says, a terminal can print it.
func TestPrintErrorPrintable(t *testing.T) {
	var b bytes.Buffer
	PrintError(&b, "tool", errors.New("a\x1b[2Jb\xff\ncolumn\tof \ufffd"))
	if want := "tool: a\\x1b[2Jb\\xff\ntool: column\tof \ufffd\n"; b.String() != want {
		t.Errorf("printed %q, want %q", &b, want)
	}
}
