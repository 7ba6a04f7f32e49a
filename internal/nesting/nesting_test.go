package nesting

import "testing"

// called is a Function of a test.
type called func() error

func (c called) Call() error { return c() }

// run is a call with a function.
func run(fn func()) (nested bool) {
	defer End()
	if !Begin() {
		return true
	}
	_ = Run(called(func() error {
		fn()
		return nil
	}))
	return false
}

// below calls fn some calls deeper.
//
//go:noinline
func below(calls int, fn func()) {
	if calls == 0 {
		fn()
		return
	}
	below(calls-1, fn)
}

// TestNested: a call in the function of another one is found, also some calls deeper and
// after others; one behind it, or on another goroutine, is none.
func TestNested(t *testing.T) {
	for _, calls := range []int{0, 1, 30, 55} {
		if run(func() {
			for range 2 {
				below(calls, func() {
					if !run(func() { t.Error("a nested function ran") }) {
						t.Errorf("%d calls deeper: not nested", calls)
					}
				})
			}
			done := make(chan bool)
			go func() { done <- run(func() {}) }()
			if <-done {
				t.Error("nested on another goroutine")
			}
		}) {
			t.Error("the outer call is nested")
		}
	}
	if run(func() {}) || under.Load() != 0 {
		t.Errorf("behind all: %d calls under way", under.Load())
	}
}

// TestPanic: a panic in a function leaves nothing behind.
func TestPanic(t *testing.T) {
	func() {
		defer func() { _ = recover() }()
		run(func() { panic("x") })
	}()
	if run(func() {}) || under.Load() != 0 {
		t.Errorf("%d calls under way", under.Load())
	}
}
