// Package quietlog keeps the panics of a program's log handler away from what is logged.
//
// Invariant: Handle returns. A panic of the handler below is its error.
package quietlog

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler is a handler whose panics are errors.
type Handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler of the logger panicked: %v", p)
		}
	}()
	return h.Handler.Handle(ctx, r)
}
