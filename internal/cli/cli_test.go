package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

type fetchCommand struct {
	N    int  `default:"1"`
	Fail bool `help:"Fail."`
	Bad  bool `help:"Find the arguments wrong."`
}

// Run runs the command.
func (c *fetchCommand) Run(out *bytes.Buffer) error {
	switch {
	case c.Fail:
		return errors.Join(errors.New("first"), errors.New("second"))
	case c.Bad:
		return fmt.Errorf("here: %w", Usagef("n is %d", c.N))
	}
	fmt.Fprintf(out, "fetched %d", c.N)
	return nil
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ args, out, errs string }{
		{"fetch --n 7", "fetched 7", ""},
		{"other", "fetched 1", ""},
		{"", "fetched 1", ""},
		{"fetch --n x", "", "tool: --n: expected a valid 64 bit int but got \"x\"\nSee tool fetch --help.\n"},
		{"fetch --n -5", "", "tool: --n wants a value, and -5 looks like a flag: if it is the value, write --n=-5\nSee tool fetch --help.\n"},
		{"fetch --n --fail", "", "tool: --n wants a value, and --fail looks like a flag: if it is the value, write --n=--fail\nSee tool fetch --help.\n"},
		{"fetch --bad", "", "tool: here: n is 1\nSee tool fetch --help.\n"},
		{"--bad", "", "tool: here: n is 1\nSee tool --help.\n"},
		{"other --bad", "", "tool: here: n is 1\nSee tool --help.\n"},
		{"fetch --fail", "", "tool: first\ntool: second\n"},
		{"bogus", "", "tool: unexpected argument bogus\nSee tool --help.\n"},
	} {
		var grammar struct {
			Fetch fetchCommand `cmd:""`
			Other fetchCommand `cmd:"" default:"withargs"`
		}
		var out, errs bytes.Buffer
		err := Run("tool", &grammar, strings.Fields(c.args), kong.Writers(&out, &errs), kong.Bind(&out))
		if err != nil {
			PrintError(&errs, "tool", err)
		}
		if out.String() != c.out || errs.String() != c.errs {
			t.Errorf("%q printed %q and %q", c.args, &out, &errs)
		}
		if wrong := errors.As(err, new(*UsageError)); wrong != strings.Contains(c.errs, "See ") {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestRunHelp(t *testing.T) {
	var grammar struct {
		Fetch fetchCommand `cmd:"" help:"Fetch something."`
	}
	var out bytes.Buffer
	if err := Run("tool", &grammar, []string{"--help"}, kong.Writers(&out, &out)); err != nil || !strings.Contains(out.String(), "Fetch something.") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestUsage(t *testing.T) {
	cause := errors.New("cause")
	if err := Usage(cause); !errors.Is(err, cause) || err.Error() != "cause" {
		t.Error(err)
	}
	if err := Usage(nil); err != nil {
		t.Error(err)
	}
}

func TestLine(t *testing.T) {
	var b bytes.Buffer
	start := time.Unix(1000, 0)
	l := NewLine(&b, 10, start)
	show := func(after time.Duration, text, want string) {
		t.Helper()
		b.Reset()
		l.Show(start.Add(after), func() string { return text })
		if b.String() != want {
			t.Errorf("drawn %q, want %q", &b, want)
		}
	}
	show(RedrawEvery-1, "a", "")
	show(RedrawEvery, "größer als die Zeile", "\rgrößer al")
	show(2*RedrawEvery-1, "b", "")
	show(2*RedrawEvery, "bb", "\rbb       ")
	for range 2 {
		l.Clear()
	}
	if want := "\rbb       \r  \r"; b.String() != want {
		t.Errorf("drawn %q", &b)
	}
	l = NewLine(&b, 0, start)
	show(time.Hour, "c", "")
	l.Clear()
	if b.Len() > 0 {
		t.Errorf("drawn without a terminal: %q", &b)
	}
}

// TestLineOfNames: a name in a line does not steer the terminal.
func TestLineOfNames(t *testing.T) {
	var b bytes.Buffer
	start := time.Unix(1000, 0)
	NewLine(&b, 40, start).Show(start.Add(RedrawEvery), func() string { return "import a\x1b[2Jb\n\u009bc: 3" })
	if want := "\r" + `import a\x1b[2Jb\n\u009bc: 3`; b.String() != want {
		t.Errorf("drawn %q, want %q", &b, want)
	}
}

func TestTable(t *testing.T) {
	table := NewTable("<name", "n", "<note")
	table.Row("é", "1,000", "x")
	table.Row("a line that is longer than the columns")
	table.Row("long name", "7", "")
	var b bytes.Buffer
	table.Print(&b, "  ")
	const want = `  name           n  note
  é          1,000  x
  a line that is longer than the columns
  long name      7
`
	if b.String() != want {
		t.Errorf("got\n%s", &b)
	}
	b.Reset()
	table = NewTable("", "<")
	table.Row("1", "a")
	table.Row("10", "b")
	table.Print(&b, "")
	if b.String() != " 1  a\n10  b\n" {
		t.Errorf("without headings:\n%s", &b)
	}
}
