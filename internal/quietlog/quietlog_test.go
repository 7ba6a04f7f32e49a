package quietlog

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// panics is a handler that panics.
type panics struct{ slog.Handler }

func (panics) Handle(context.Context, slog.Record) error { panic("no disk") }

// TestHandler: a record reaches the handler, and a panic of the handler is an error.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	text := slog.NewTextHandler(&out, nil)
	slog.New(Handler{text}).Info("hello")
	if !strings.Contains(out.String(), "hello") {
		t.Errorf("logged %q", out.String())
	}
	if err := (Handler{panics{text}}).Handle(t.Context(), slog.NewRecord(time.Time{}, 0, "x", 0)); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("a panic: %v", err)
	}
}
