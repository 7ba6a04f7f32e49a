// Package testenv is what package cleavetest puts in the place of the system under a
// store: a file system, clocks, and somebody who is told what the store has open.
package testenv

import (
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Env is in the place of the system. Its functions are called by many goroutines.
type Env struct {
	// FS returns the file system on which a store that is being opened works.
	FS func() vfs.FS
	// Clock returns the present time. Steady is a clock that does not jump; its origin may
	// be any.
	Clock  func() time.Time
	Steady func() time.Duration
	// Pause waits for a throttled partition. Nil: by a timer.
	Pause func(time.Duration)
	// Manual switches background work off.
	Manual bool
	// Opened is told of a store that was opened. The function that it returns is called
	// when the store is closed.
	Opened func(Store) (closed func())
	// Watch is told of a thing, on the goroutine of the call that makes it. The thing is
	// open from the call of begin to the call of what that returns.
	Watch func(s Store, what string) (begin func() (end func()))
}

// Store is a store that was opened with an Env.
type Store interface {
	// Public returns the *engine.DB.
	Public() any
	// On returns what Env.FS has returned.
	On() vfs.FS
	// Close closes the store.
	Close() error
	// UseUpLog fills the space that the log has taken ahead, on a disk that is full, with
	// records that say nothing.
	UseUpLog() error
	// ListenerPanics returns how many calls of event listeners have panicked.
	ListenerPanics() int64
}

// Put puts an Env into the *engine.Options that it is given. Package engine sets it.
var Put func(options any, e *Env)
