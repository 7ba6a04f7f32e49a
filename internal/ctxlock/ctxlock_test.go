package ctxlock

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/lockorder"
)

type kind struct{}

func (kind) Order() lockorder.Order { return lockorder.Order{Name: "test", Rank: 1} }

// TestMutex: one holder at a time, and a wait ends with its context.
func TestMutex(t *testing.T) {
	m := New(kind{})
	if m.Locked() || !m.TryLock() || !m.Locked() || m.TryLock() {
		t.Fatal("it is free at first, and held then")
	}
	waited := make(chan error)
	wait := func(ctx context.Context) { waited <- m.Lock(ctx) }
	ended, cancel := context.WithCancel(t.Context())
	go wait(ended)
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait whose context ended: %v", err)
	}
	go wait(t.Context())
	m.Unlock()
	if err := <-waited; err != nil || !m.Locked() {
		t.Errorf("the next holder: %v", err)
	}
	m.Unlock() // for the goroutine that has it
	if m.Locked() {
		t.Error("it was given back")
	}
}
