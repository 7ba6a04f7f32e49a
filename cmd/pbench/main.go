// Command pbench loads and measures Cleave stores.
//
// Without arguments it demonstrates the engine in at most half a minute: it loads generated
// documents into a temporary directory, runs a read-mostly workload on them, splits a
// partition meanwhile, prints the figures and removes everything.
//
// Exit status: 0 success, 1 something failed, an operation returned an error or
// a bound was not kept, 2 wrong usage, 3 the disk is full, 130 interrupted (what was
// measured until then is printed; a second interrupt ends the program at once). Data
// goes to standard output, messages and progress to standard error.
package main

import (
	"os"

	"github.com/cleavestore/cleave/internal/harness"
)

func main() { os.Exit(harness.Main("pbench", description, new(commands))) }
