// Package nesting finds out that a function calls, on its own goroutine, what has called it.
//
// Invariants:
//
//  1. A call that finds itself nested is nested: it runs below a function that Run has
//     called and that has not returned.
//  2. A nested call on the same goroutine is found if at most 64 calls lie between.
//
// There are no locks. While one call is under way, Begin costs one atomic addition.
package nesting

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// Function is what Run calls.
type Function interface{ Call() error }

// under is how many calls are under way. A single one is not nested.
var under atomic.Int32

// Begin begins a call. It returns false if the call is nested. End must follow in either
// case.
func Begin() bool { return under.Add(1) == 1 || !nested() }

// End ends a call.
func End() { under.Add(-1) }

// Run is the one place from which functions are called.
//
//go:noinline
func Run(fn Function) error {
	err := fn.Call()
	return err
}

// probe finds the return address of functions in Run.
type probe struct{ at [1]uintptr }

// Call implements Function.
func (p *probe) Call() error {
	runtime.Callers(2, p.at[:])
	return nil
}

// runCall is the return address of functions in Run.
var runCall = func() uintptr {
	var p probe
	_ = Run(&p)
	return p.at[0]
}()

// depth is how many calls nested looks back.
const depth = 64

func nested() bool {
	var calls [depth]uintptr
	n := runtime.Callers(3, calls[:])
	return slices.Contains(calls[:n], runCall)
}
