package budget

import (
	"context"
	"testing"
)

// TestBudget: bodies wait in line for memory, and who gives up waiting leaves the line.
func TestBudget(t *testing.T) {
	b := New(10)
	if err := b.Take(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- b.Take(t.Context(), 10) }()
	for waits := false; !waits; {
		b.mu.Lock()
		waits = len(b.queue) == 1
		b.mu.Unlock()
	}
	b.Give(8)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Take(ended, 1); err == nil {
		t.Error("memory was given that is not there")
	}
	b.Give(10)
	if b.free != 10 || len(b.queue) != 0 {
		t.Errorf("%d free, %d wait", b.free, len(b.queue))
	}
}
