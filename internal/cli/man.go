package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Man is the command that prints the manual page of a program, made of its help.
type Man struct{}

// Help returns the long help text.
func (*Man) Help() string {
	return `Prints a manual page for man(1): all commands with their flags and examples.

Examples:
  PROGRAM man | man -l -
  PROGRAM man > /usr/local/share/man/man1/PROGRAM.1`
}

// Run runs the command.
func (*Man) Run(parsed *kong.Context) error {
	var text strings.Builder
	manual(&text, parsed.Model.Node)
	_, err := io.WriteString(parsed.Stdout, text.String())
	return err
}

// roff escapes a text for a line of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// manual writes the page.
func manual(w io.Writer, program *kong.Node) {
	name := program.Name
	first, _, _ := strings.Cut(program.Help, ". ")
	fmt.Fprintf(w, ".TH %s 1 \"\" \"Cleave\" \"Cleave\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I command\n[\\fIarguments\\fR] [\\fIflags\\fR]\n.SH DESCRIPTION\n",
		strings.ToUpper(name), roff(name), roff(strings.TrimSuffix(first, ".")), roff(name))
	paragraphs(w, program.Help)
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, n := range visible(program) {
		fmt.Fprintf(w, ".SS %s\n%s\n", roff(strings.TrimPrefix(n.Summary(), name+" ")), roff(n.Help))
		if n.Detail != "" {
			fmt.Fprint(w, ".PP\n")
			paragraphs(w, n.Detail)
		}
		for _, arg := range n.Positional {
			fmt.Fprintf(w, ".TP\n\\fI%s\\fR\n%s\n", roff(arg.Name), roff(arg.Help))
		}
		for _, f := range flags(n) {
			fmt.Fprintf(w, ".TP\n\\fB%s\\fR\n%s\n", roff("--"+f.Name+placeholder(f)), roff(f.Help))
		}
	}
}

// placeholder returns the value of a flag as the help shows it, "" if it takes none.
func placeholder(f *kong.Flag) string {
	if f.IsBool() {
		return ""
	}
	return "=" + strings.TrimPrefix(f.FormatPlaceHolder(), "=")
}

// paragraphs writes a text; lines that are indented stay as they are.
func paragraphs(w io.Writer, text string) {
	literal := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != literal {
			literal = indented
			fmt.Fprintln(w, map[bool]string{true: ".RS 2\n.nf", false: ".fi\n.RE"}[literal])
		}
		if strings.TrimSpace(line) == "" {
			fmt.Fprint(w, ".PP\n")
			continue
		}
		fmt.Fprintln(w, roff(strings.TrimPrefix(line, "  ")))
	}
	if literal {
		fmt.Fprint(w, ".fi\n.RE\n")
	}
}
