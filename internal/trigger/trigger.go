// Package trigger has the triggers of a container: functions that are registered under a
// name and called in the transaction of a write that gives the name. The transaction itself
// is the caller's; C is what a call gets of it.
//
// Invariants:
//
//  1. A name stands for one function as long as the registry exists.
//  2. A trigger runs only at its time, and only for operations that it is registered for:
//     whatever else is asked for is refused before anything runs.
//  3. Run returns. The error of a function, and its panic, come back as an *Error with the
//     name of the trigger, so no function ends the process or passes as another's error.
//
// A registry is safe for concurrent use. It has no lock that is held while a function runs.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
)

// ErrUnknown: no trigger is registered under the name.
var ErrUnknown = errors.New("trigger is not registered")

// ErrPanic: a trigger has panicked.
var ErrPanic = errors.New("trigger panicked")

// Type says when a trigger runs.
type Type uint8

// Types of triggers.
const (
	Pre  Type = iota // before the write
	Post             // after the write
)

// String returns pre-trigger or post-trigger.
func (t Type) String() string {
	switch t {
	case Pre:
		return "pre-trigger"
	case Post:
		return "post-trigger"
	}
	return fmt.Sprintf("trigger of type %d", uint8(t))
}

// Operations is a set of what writes do.
type Operations uint8

// What writes do.
const (
	Create  Operations = 1 << iota // write an item that did not exist
	Replace                        // change an item that exists
	Delete

	all = Create | Replace | Delete
)

var operationNames = [...]string{"create", "replace", "delete"}

// String returns the names of the operations: create or replace.
func (o Operations) String() string {
	var names []string
	for i, name := range operationNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// Trigger is a function with what it is for.
type Trigger[C any] struct {
	Type Type
	On   Operations // 0: all
	Run  func(context.Context, C) error
}

// check returns why the trigger cannot be registered, or nil.
func (t *Trigger[C]) check() error {
	switch {
	case t.Run == nil:
		return errors.New("Run is nil")
	case t.Type > Post:
		return fmt.Errorf("type %d", t.Type)
	case t.On&^all != 0:
		return fmt.Errorf("operations %#x", uint8(t.On))
	}
	return nil
}

// Registry has the triggers of a container by name. The zero Registry is empty.
type Registry[C any] struct{ named sync.Map }

// Register adds a trigger. It returns fault.ErrInvalid for one that can never run, and
// fault.ErrExists if the name is taken.
func (r *Registry[C]) Register(name string, t Trigger[C]) error {
	if name == "" {
		return fmt.Errorf("%w: trigger without a name", fault.ErrInvalid)
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("%w: trigger %q: %w", fault.ErrInvalid, name, err)
	}
	if t.On == 0 {
		t.On = all
	}
	if _, taken := r.named.LoadOrStore(name, t); taken {
		return fmt.Errorf("trigger %q: %w", name, fault.ErrExists)
	}
	return nil
}

// Find returns the triggers that a write names, which may do these operations. An empty
// name is no trigger. It returns fault.ErrInvalid, with ErrUnknown for a name that is not
// registered.
func (r *Registry[C]) Find(pre, post string, may Operations) (before, after Named[C], err error) {
	if before, err = r.find(pre, Pre, may); err == nil {
		after, err = r.find(post, Post, may)
	}
	return before, after, err
}

func (r *Registry[C]) find(name string, as Type, may Operations) (Named[C], error) {
	if name == "" {
		return Named[C]{}, nil
	}
	found, ok := r.named.Load(name)
	if !ok {
		return Named[C]{}, fmt.Errorf("%w: %s %q: %w: functions are not stored, register them after each open", fault.ErrInvalid, as, name, ErrUnknown)
	}
	t := found.(Trigger[C])
	switch {
	case t.Type != as:
		return Named[C]{}, fmt.Errorf("%w: %s %q: it is registered as a %s", fault.ErrInvalid, as, name, t.Type)
	case may&^t.On != 0:
		return Named[C]{}, fmt.Errorf("%w: %s %q: it is registered for %s; the write can be a %s", fault.ErrInvalid, as, name, t.On, may)
	}
	return Named[C]{name, t}, nil
}

// Named is a trigger that a write has named. The zero Named stands for none.
type Named[C any] struct {
	name string
	of   Trigger[C]
}

// Run calls the trigger, if there is one.
func (n *Named[C]) Run(ctx context.Context, call C) (err error) {
	if n.of.Run == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Name: n.name, Type: n.of.Type, Err: panicked(p), Stack: debug.Stack()}
		}
	}()
	return n.Failed(n.of.Run(ctx, call))
}

// Failed returns err as the error of the trigger; nil for nil. Without a trigger it is err.
func (n *Named[C]) Failed(err error) error {
	if err == nil || n.of.Run == nil {
		return err
	}
	return &Error{Name: n.name, Type: n.of.Type, Err: err}
}

// panicked returns the error for the value of a panic, which it matches if that is an error.
func panicked(value any) error {
	if err, ok := value.(error); ok {
		return fmt.Errorf("%w: %w", ErrPanic, err)
	}
	return fmt.Errorf("%w: %v", ErrPanic, value)
}

// Error says which trigger has failed, and why.
type Error struct {
	Name  string
	Type  Type
	Err   error  // what the function returned; ErrPanic, and the value if that is an error
	Stack []byte // of the goroutine, if the function panicked
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Type, e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
