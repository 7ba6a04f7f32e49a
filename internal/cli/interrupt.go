package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible returns a context that ends when the user interrupts the
// program, closes its terminal, or the system asks it to end, and at the signals
// that are given. A second time ends the program at once. A hangup that the
// caller has the program ignore, as nohup does, stays ignored.
func Interruptible(more ...os.Signal) context.Context {
	signals := append([]os.Signal{os.Interrupt, syscall.SIGTERM}, more...)
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}
