// Command pinspect shows what is in a Cleave store and checks it.
//
// It also works on a store that another process has open: it takes no lock, changes
// nothing in the store, and starts over if the writer has replaced a file that it was reading.
// Its output is the state of one moment.
//
// Exit status: 0 clean, 1 something is damaged or a document is not found, 2
// wrong usage or no such container or partition, 3 the store cannot be opened or
// the output cannot be written, 130 interrupted (what was found until then is printed; a
// second interrupt ends the program at once). Data goes to standard output, messages and
// progress to standard error.
//
// JSON output is for programs: every object has "v" and "type", and docs/json.md
// lists the fields. Commands that list print one object a line.
package main

import (
	"os"

	"github.com/cleavestore/cleave/internal/cli"
)

func main() {
	os.Exit(execute(cli.Interruptible(), os.Args[1:], &environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, width: cli.TerminalWidth(os.Stderr),
	}))
}
