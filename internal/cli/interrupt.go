package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible returns a context that ends when the user interrupts the
// program, closes its terminal, or the system asks it to end, and at the signals
// that are given. A second time ends the program at once, except for the signals that are
// given: at SIGPIPE a program would end at its next write, before it has cleared up. A hangup
// that the caller has the program ignore, as nohup does, stays ignored.
func Interruptible(more ...os.Signal) context.Context {
	signals := append([]os.Signal{os.Interrupt, syscall.SIGTERM}, more...)
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	if len(more) > 0 {
		signal.Notify(make(chan os.Signal, 1), more...) // for good
	}
	return ctx
}
