package client

import (
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
)

// TestPastTTL: a time to live that is over is refused before anything is sent, as a command
// has one value for all below zero, that of ever.
func TestPastTTL(t *testing.T) {
	for _, ttl := range []time.Duration{-2, -5 * time.Second} {
		_, err := new(Client).Batch(t.Context(), "c", engine.StringKey("a"), command.Operation{Kind: command.Upsert}, command.Operation{Kind: command.Upsert, TTL: ttl})
		if !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}
