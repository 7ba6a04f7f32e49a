// Package program runs the commands in bench that check the repository, and sets their exit
// status.
package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// Main runs a command, whose context an interrupt ends. The exit status is 1 if the
// command found something that fails, and 2 if it met an error.
func Main(name string, run func(ctx context.Context) (fails int, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fails, err := run(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	if fails > 0 {
		os.Exit(1)
	}
}
