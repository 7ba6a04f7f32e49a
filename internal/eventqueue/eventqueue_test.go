package eventqueue

import (
	"runtime"
	"slices"
	"testing"
)

// TestOrder: functions are called in order, also those added before Start, and after one
// that ended its goroutine and one that panicked.
func TestOrder(t *testing.T) {
	var q Queue
	var called []int
	add := func(n int) bool { return q.Add(func() { called = append(called, n) }) }
	add(0)
	q.Add(runtime.Goexit)
	q.Add(func() { panic("x") })
	var panics []any
	q.Start(func(value any) { panics = append(panics, value) })
	for n := range 100 {
		add(n + 1)
	}
	q.Stop()
	if len(called) != 101 || !slices.IsSorted(called) {
		t.Errorf("called %v", called)
	}
	if !slices.Equal(panics, []any{"x"}) {
		t.Errorf("panics %v", panics)
	}
	if add(0) {
		t.Error("added after Stop")
	}
	q.Stop()
}

// TestFull: a full queue takes nothing until one function was called.
func TestFull(t *testing.T) {
	var q Queue
	called, held := 0, make(chan bool)
	wait := func() { <-held; called++ }
	for n := range most {
		if !q.Add(wait) {
			t.Fatalf("full with %d", n)
		}
	}
	if q.Add(wait) {
		t.Error("no bound")
	}
	q.Start(func(value any) { t.Error(value) })
	held <- true
	held <- true // the second one has left the queue
	if !q.Add(wait) {
		t.Error("there is room")
	}
	close(held)
	q.Stop()
	if called != most+1 {
		t.Errorf("%d calls", called)
	}
}
