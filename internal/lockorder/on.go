//go:build race

package lockorder

import (
	"fmt"
	"strings"
	"sync"
)

// Mutex is a sync.Mutex of a kind, whose order is checked.
type Mutex[K Kind] struct{ mu sync.Mutex }

// Lock locks m. It panics if the goroutine holds a lock that belongs behind it.
func (m *Mutex[K]) Lock() {
	var kind K
	Take(kind.Order(), m)
	m.mu.Lock()
}

// TryLock locks m if that is free: in no order, since it does not wait.
func (m *Mutex[K]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	var kind K
	Took(kind.Order(), m)
	return true
}

// Unlock unlocks m.
func (m *Mutex[K]) Unlock() {
	Left(m)
	m.mu.Unlock()
}

type held struct {
	Order
	key any
}

// stripes hold what goroutines hold. There are many, so that two goroutines
// seldom meet in one: that would hide a race between them.
var stripes [4096]stripe

type stripe struct {
	sync.Mutex
	of map[uintptr][]held
}

func stripeOf(g uintptr) *stripe {
	return &stripes[(g>>6*0x9e3779b97f4a7c15>>20)%uintptr(len(stripes))]
}

// Take notes, before it is waited for, that the goroutine takes a lock that is no
// Mutex. key is what tells it from others.
func Take(o Order, key any) {
	g := goroutine()
	s := stripeOf(g)
	s.Lock()
	for _, h := range s.of[g] {
		if h.Rank > o.Rank || h.Rank == o.Rank && !(o.Many && h.Name == o.Name) || h.key == key {
			s.Unlock()
			panic(fmt.Sprintf("lock order: %s (rank %d) is taken under %s (rank %d)", o.Name, o.Rank, h.Name, h.Rank))
		}
	}
	s.addLocked(g, held{o, key})
	s.Unlock()
}

// Took is Take for a lock that was got without waiting.
func Took(o Order, key any) {
	g := goroutine()
	s := stripeOf(g)
	s.Lock()
	s.addLocked(g, held{o, key})
	s.Unlock()
}

func (s *stripe) addLocked(g uintptr, h held) {
	if s.of == nil {
		s.of = make(map[uintptr][]held)
	}
	s.of[g] = append(s.of[g], h)
}

// Left notes that the lock was given back, by whichever goroutine.
func Left(key any) {
	g := goroutine()
	if stripeOf(g).remove(g, key) {
		return
	}
	for i := range stripes {
		if stripes[i].removeAny(key) {
			return
		}
	}
}

func (s *stripe) remove(g uintptr, key any) bool {
	s.Lock()
	defer s.Unlock()
	return s.removeLocked(g, key)
}

func (s *stripe) removeAny(key any) bool {
	s.Lock()
	defer s.Unlock()
	for g := range s.of {
		if s.removeLocked(g, key) {
			return true
		}
	}
	return false
}

func (s *stripe) removeLocked(g uintptr, key any) bool {
	list := s.of[g]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].key != key {
			continue
		}
		if len(list) == 1 {
			delete(s.of, g) // another goroutine may get this name
		} else {
			s.of[g] = append(list[:i:i], list[i+1:]...)
		}
		return true
	}
	return false
}

// IO notes that a file or directory is written, synced or renamed. It panics if
// the goroutine holds a lock under which that must not be.
func IO(what, name string) {
	g := goroutine()
	s := stripeOf(g)
	s.Lock()
	defer s.Unlock()
	for _, h := range s.of[g] {
		if h.NoIO && !(what == "write" && h.But != "" && strings.HasPrefix(name, h.But)) {
			panic(fmt.Sprintf("lock order: %s of %s under %s", what, name, h.Name))
		}
	}
}
