// Package ctxlock has a lock for which a goroutine waits until it gets the lock or until a
// context ends. It is for locks that are held for as long as a compaction takes. All other
// locks are a lockorder.Mutex, which is faster.
package ctxlock

import (
	"context"

	"github.com/cleavestore/cleave/internal/lockorder"
)

// Mutex is a lock that can be waited for until a context ends. New makes one. All methods
// are safe for concurrent use.
type Mutex struct {
	slot chan struct{} // full while the lock is held
	kind lockorder.Kind
}

// New returns a lock that nobody holds. kind is its place in the order of locks.
func New(kind lockorder.Kind) Mutex { return Mutex{make(chan struct{}, 1), kind} }

// TryLock takes the lock if it is free, and says whether it did.
func (m *Mutex) TryLock() bool {
	select {
	case m.slot <- struct{}{}:
		lockorder.Took(m.kind.Order(), m.slot)
		return true
	default:
		return false
	}
}

// Lock waits for the lock. It returns the error of the context if that ends first.
func (m *Mutex) Lock(ctx context.Context) error {
	lockorder.Take(m.kind.Order(), m.slot)
	select {
	case m.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		lockorder.Left(m.slot)
		return ctx.Err()
	}
}

// Unlock gives the lock back. Any goroutine may call it.
func (m *Mutex) Unlock() {
	lockorder.Left(m.slot)
	<-m.slot
}

// Locked says whether the lock is held at this moment.
func (m *Mutex) Locked() bool { return len(m.slot) > 0 }
