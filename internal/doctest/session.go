package doctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Step is a command of a block, with what it prints.
type Step struct {
	Line    int // of the page
	Command string
	Output  string
	Shown   bool // the page shows the output
}

var heredoc = regexp.MustCompile(`<<-?\s*['"]?([A-Za-z_]+)['"]?`)

// Steps gives the commands of a block: of a block in the language console those behind
// "$ ", of one in sh every line. A command goes on in the next line behind a backslash,
// inside of quotes, and up to the end of its here-document. Lines in sh that are empty or
// begin with # are no commands.
func (b Block) Steps() []Step {
	var steps []Step
	rest := strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")
	for i := 0; i < len(rest); i++ {
		line := rest[i]
		command, isCommand := strings.CutPrefix(line, "$ ")
		if b.Lang == "sh" {
			command, isCommand = line, line != "" && line[0] != '#'
		}
		if !isCommand {
			if n := len(steps); n > 0 && b.Lang != "sh" {
				steps[n-1].Output += line + "\n"
				steps[n-1].Shown = steps[n-1].Shown || strings.TrimSpace(line) != ""
			}
			continue
		}
		at := b.Line + 1 + i
		for i+1 < len(rest) && goesOn(command) {
			i++
			command += "\n" + rest[i]
		}
		steps = append(steps, Step{Line: at, Command: command})
	}
	return steps
}

// goesOn tells whether a command needs the next line.
func goesOn(command string) bool {
	if m := heredoc.FindStringSubmatch(command); m != nil {
		_, body, _ := strings.Cut(command, "\n")
		return !strings.HasSuffix("\n"+body, "\n"+m[1])
	}
	var quote byte
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\\' && quote != '\'':
			if i == len(command)-1 {
				return true
			}
			i++
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == c:
			quote = 0
		case quote == 0 && c == '#' && i > 0 && command[i-1] == ' ':
			return false
		}
	}
	return quote != 0
}

// A Shell runs the blocks of a page.
type Shell struct {
	Dir string   // the working directory; a block may change it
	Env []string // as for exec.Cmd
}

// end ends what a command printed; a status, and the working directory follow.
const end = "\x01end "

// Run runs a block and compares what its commands print with what the page shows.
func (s *Shell) Run(ctx context.Context, page string, b Block) error {
	if name := strings.TrimSpace(b.Notes["file"]); name != "" {
		return os.WriteFile(filepath.Join(s.Dir, name), []byte(b.Text), 0o666)
	}
	if setup := b.Notes["setup"]; setup != "" {
		text, status, err := s.command(ctx, setup)
		if err != nil || status != 0 {
			return fmt.Errorf("%s:%d: the setup ends with status %d: %w\n%s", page, b.Line, status, err, text)
		}
	}
	steps := b.Steps()
	for i, step := range steps {
		want := 0
		if note := strings.TrimSpace(b.Notes["exit"]); note != "" && i == len(steps)-1 {
			var err error
			if want, err = strconv.Atoi(note); err != nil {
				return fmt.Errorf("%s:%d: %w", page, b.Line, err)
			}
		}
		text, status, err := s.command(ctx, step.Command)
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w\n%s", page, step.Line, step.Command, err, text)
		}
		if status != want {
			return fmt.Errorf("%s:%d: %s\nends with status %d and not %d, and prints:\n%s", page, step.Line, step.Command, status, want, text)
		}
		if vary := strings.TrimSpace(b.Notes["figures"]) == "vary"; step.Shown && !Match(step.Output, text, vary) {
			return fmt.Errorf("%s:%d: %s\nprints:\n%s\nand not what the page shows:\n%s", page, step.Line, step.Command, text, step.Output)
		}
	}
	return nil
}

// command runs one command, and keeps the directory that it ends in.
func (s *Shell) command(ctx context.Context, command string) (text string, status int, err error) {
	script := command + "\nprintf '" + `\001end %d %s` + "' $? \"$PWD\"\n"
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = s.Dir, append(s.Env, "PWD="+s.Dir)
	out, err := cmd.CombinedOutput()
	text = string(out)
	at := strings.LastIndex(text, end)
	if at < 0 {
		if err == nil {
			err = fmt.Errorf("the shell ended early")
		}
		return text, 0, err
	}
	number, dir, _ := strings.Cut(text[at+len(end):], " ")
	if status, err = strconv.Atoi(number); err != nil {
		return text, 0, err
	}
	s.Dir = dir
	return text[:at], status, nil
}
