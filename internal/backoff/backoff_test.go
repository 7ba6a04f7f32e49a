package backoff

import (
	"testing"
	"time"
)

// TestRetry: waits double up to the longest, and end with a success.
func TestRetry(t *testing.T) {
	var r Retry
	if r.Left() > 0 {
		t.Error("waits before the first failure")
	}
	want := first
	for range 12 {
		r.Failed()
		if r.wait != want || r.Left() > want {
			t.Errorf("waits %v, %v is left, want %v", r.wait, r.Left(), want)
		}
		want = min(2*want, last)
	}
	r.Succeeded()
	if r.Left() > 0 {
		t.Error("waits after a success")
	}
	if r.Failed(); r.wait != first {
		t.Errorf("waits %v after the next failure", r.wait)
	}
}

// TestClockSetBack: a clock that is set back makes no wait longer.
func TestClockSetBack(t *testing.T) {
	var r Retry
	r.Failed()
	r.next.Store(time.Now().Add(time.Hour).UnixNano())
	if left := r.Left(); left > last {
		t.Errorf("waits %v", left)
	}
}
