package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion is the command that prints a script which completes commands, flags and file
// names in a shell.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the long help text.
func (*Completion) Help() string {
	return `Prints a script for the shell to read.

Examples:
  source <(PROGRAM completion bash)
  PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
  PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish`
}

// Run runs the command.
func (c *Completion) Run(parsed *kong.Context) error {
	write := map[string]func(io.Writer, *kong.Node){"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	var text strings.Builder
	write(&text, parsed.Model.Node)
	_, err := io.WriteString(parsed.Stdout, text.String())
	return err
}

// visible returns the commands of a program that its help shows.
func visible(program *kong.Node) []*kong.Node {
	var list []*kong.Node
	for _, n := range program.Children {
		if n.Type == kong.CommandNode && !n.Hidden {
			list = append(list, n)
		}
	}
	return list
}

// flags returns the flags of a command that its help shows.
func flags(n *kong.Node) []*kong.Flag {
	var list []*kong.Flag
	for _, group := range n.AllFlags(true) {
		list = append(list, group...)
	}
	return list
}

func bashCompletion(w io.Writer, program *kong.Node) {
	var names []string
	for _, n := range visible(program) {
		names = append(names, n.Name)
	}
	fmt.Fprintf(w, `# bash completion of %[1]s
_%[1]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%[2]s"
  else
    case ${COMP_WORDS[1]} in
`, program.Name, strings.Join(names, " "))
	for _, n := range visible(program) {
		var words []string
		for _, f := range flags(n) {
			words = append(words, "--"+f.Name)
		}
		fmt.Fprintf(w, "    %s) words=\"%s\" ;;\n", n.Name, strings.Join(words, " "))
	}
	fmt.Fprintf(w, `    esac
  fi
  if [ "$COMP_CWORD" -eq 1 ] || [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}
complete -o bashdefault -o default -F _%[1]s %[1]s
`, program.Name)
}

// quoted returns a text in single quotes of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func zshCompletion(w io.Writer, program *kong.Node) {
	describe := func(name, help string) string {
		return quoted(strings.ReplaceAll(name, ":", `\:`) + ":" + help)
	}
	fmt.Fprintf(w, "#compdef %[1]s\n_%[1]s() {\n  local -a commands flags\n  commands=(\n", program.Name)
	for _, n := range visible(program) {
		fmt.Fprintf(w, "    %s\n", describe(n.Name, n.Help))
	}
	fmt.Fprint(w, "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  case $words[2] in\n")
	for _, n := range visible(program) {
		fmt.Fprintf(w, "  %s) flags=(\n", n.Name)
		for _, f := range flags(n) {
			fmt.Fprintf(w, "    %s\n", describe("--"+f.Name, f.Help))
		}
		fmt.Fprint(w, "  ) ;;\n")
	}
	// The file is the body of the function when zsh loads it for the first Tab.
	fmt.Fprintf(w, "  esac\n  if [[ $PREFIX == -* ]]; then\n    _describe flag flags\n  else\n    _files\n  fi\n}\nif [[ $funcstack[1] == _%[1]s ]]; then\n  _%[1]s \"$@\"\nelse\n  compdef _%[1]s %[1]s\nfi\n", program.Name)
}

func fishCompletion(w io.Writer, program *kong.Node) {
	fmt.Fprintf(w, "# fish completion of %s\n", program.Name)
	for _, n := range visible(program) {
		fmt.Fprintf(w, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", program.Name, n.Name, quoted(n.Help))
		for _, f := range flags(n) {
			value := ""
			if !f.IsBool() {
				value = " -r"
			}
			fmt.Fprintf(w, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s%s -d %s\n", program.Name, n.Name, f.Name, value, quoted(f.Help))
		}
	}
}
