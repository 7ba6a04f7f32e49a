package cli

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// programCommand is a small program.
type programCommand struct {
	Show       showCommand `cmd:"" help:"Show it; don't change it."`
	Completion Completion  `cmd:"" help:"Print a script."`
	Man        Man         `cmd:"" help:"Print the manual page."`
}

type showCommand struct {
	Dir  string `arg:"" help:"Directory."`
	Deep bool   `help:"All of it: 'quoted', too."`
	Max  int    `placeholder:"N" help:"At most so many."`
}

func (*showCommand) Help() string { return "Shows.\n\nExamples:\n  tool show DIR --deep" }

func (*showCommand) Run() error { return nil }

func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if err := Run("tool", new(programCommand), args, kong.Writers(&out, &errs), kong.Description("Do things. And more.")); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestBashCompletion asks bash what the script completes.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script := output(t, "completion", "bash")
	for line, want := range map[string][]string{
		"tool s":          {"show"},
		"tool ":           {"show", "completion", "man"},
		"tool show --d":   {"--deep"},
		"tool show DIR -": {"--deep", "--max"},
		"tool show D":     nil,
	} {
		words := strings.Split(line, " ")
		ask := script + "\nCOMP_WORDS=(" + strings.Join(words[:len(words)-1], " ") + " '" + words[len(words)-1] + "')\nCOMP_CWORD=" + string(rune('0'+len(words)-1)) + "\n_tool\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
		text, err := exec.Command(bash, "-c", ask).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		got := strings.Fields(string(text))
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q completes to %q, without %q", line, got, w)
			}
		}
		if want == nil && len(got) > 0 {
			t.Errorf("%q completes to %q", line, got)
		}
	}
}

// TestOtherCompletions: each command and flag is in the scripts of the other shells, and
// texts are quoted.
func TestOtherCompletions(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		text := output(t, "completion", shell)
		for _, want := range []string{"show", "deep", "max", "completion", `don'\''t`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", shell, want, text)
			}
		}
		if path, err := exec.LookPath(shell); err == nil {
			if out, err := exec.Command(path, "-n", "-c", text).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	if text := output(t, "completion", "zsh"); !strings.HasSuffix(text, "\n  _tool \"$@\"\nelse\n  compdef _tool tool\nfi\n") {
		t.Errorf("zsh: the first Tab, which loads the file, completes nothing:\n%s", text)
	}
	if text := output(t, "completion", "--help"); strings.Contains(text, "PROGRAM") || !strings.Contains(text, "tool completion bash") {
		t.Errorf("help: %s", text)
	}
}

func TestManual(t *testing.T) {
	text := output(t, "man")
	for _, want := range []string{".TH TOOL 1", "tool \\- Do things\n", ".SS show", "\\fB\\-\\-max=N\\fR\nAt most so many.", "\n.nf\ntool show DIR \\-\\-deep\n.fi\n", `don\(aqt`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if mandoc, err := exec.LookPath("mandoc"); err == nil {
		cmd := exec.Command(mandoc, "-T", "lint", "-W", "error")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
