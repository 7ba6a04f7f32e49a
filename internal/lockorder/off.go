//go:build !race

package lockorder

import "sync"

// Mutex is a sync.Mutex of a kind.
type Mutex[K Kind] struct{ sync.Mutex }

// Take notes, before it is waited for, that the goroutine takes a lock that is no
// Mutex. key is what tells it from others.
func Take(Order, any) {}

// Took is Take for a lock that was got without waiting.
func Took(Order, any) {}

// Left notes that the lock was given back.
func Left(any) {}

// IO notes that a file or directory is written, synced or renamed.
func IO(what, name string) {}
