package reclaim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/fault"
)

// TestRetire: what is retired is released in order after the readers of then have left,
// and what is left when the context ends.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readers := epoch.New()
		r := New(readers, func(string, error) {}, false)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()

		var released []int
		early := readers.Enter()
		r.Retire(func() { released = append(released, 1) })
		r.Retire(func() { released = append(released, 2) })
		synctest.Wait()
		if len(released) > 0 {
			t.Error("released beside a reader")
		}
		early.Leave()
		if err := r.Wait(t.Context()); err != nil || !slices.Equal(released, []int{1, 2}) {
			t.Errorf("released %v, error %v", released, err)
		}

		early = readers.Enter()
		r.Retire(func() { released = append(released, 3) })
		gaveUp, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Wait(gaveUp); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait beside a reader: %v", err)
		}
		stop()
		early.Leave()
		<-ended
		if !slices.Equal(released, []int{1, 2, 3}) {
			t.Errorf("released at the end: %v", released)
		}
	})
}

// TestRemove: a removal that is held is tried again after a reader has released a file,
// other errors end it.
func TestRemove(t *testing.T) {
	var reported []string
	r := New(epoch.New(), func(what string, err error) { reported = append(reported, what+": "+err.Error()) }, true)
	held, calls := true, 0
	r.Remove("held", 100, func() error {
		if calls++; held {
			return ErrHeld
		}
		return nil
	})
	r.Remove("gone", 10, func() error { return fault.ErrMissing })
	r.Remove("refused", 1, func() error { return errors.New("no") })
	if n := r.WaitingBytes(); n != 100 || calls != 1 || !slices.Equal(reported, []string{"refused: no"}) {
		t.Fatalf("%d bytes wait, %d calls, reported %v", n, calls, reported)
	}
	r.Unpinned()
	r.NowIfManual()
	held = false
	if n := r.WaitingBytes(); n != 100 || calls != 2 {
		t.Fatalf("still held: %d bytes wait, %d calls", n, calls)
	}
	r.Unpinned()
	r.NowIfManual()
	if n := r.WaitingBytes(); n != 0 || calls != 3 {
		t.Fatalf("let go: %d bytes wait, %d calls", n, calls)
	}
	if r.Unpinned(); r.Now() {
		t.Error("nothing waits, and something was retired")
	}
}
