package engine

import (
	"slices"
	"sync/atomic"
)

// followers are the feeds that wait for changes of a container. Whoever makes a
// write visible looks at the list, which is empty as a rule, and wakes those that
// sleep: a feed that is at work costs a writer one load.
type followers struct{ list atomic.Pointer[[]*follower] }

type follower struct {
	sleeping atomic.Bool
	wake     chan struct{}
}

func (f *followers) add() *follower {
	w := &follower{wake: make(chan struct{}, 1)}
	f.change(func(list []*follower) []*follower { return append(slices.Clone(list), w) })
	return w
}

func (f *followers) remove(w *follower) {
	f.change(func(list []*follower) []*follower {
		return slices.DeleteFunc(slices.Clone(list), func(o *follower) bool { return o == w })
	})
}

// change replaces the list; change makes a copy.
func (f *followers) change(change func([]*follower) []*follower) {
	for {
		old := f.list.Load()
		var list []*follower
		if old != nil {
			list = *old
		}
		next := change(list)
		to := &next
		if len(next) == 0 {
			to = nil
		}
		if f.list.CompareAndSwap(old, to) {
			return
		}
	}
}

// signal wakes the feeds that sleep. What they are to see was stored before.
func (f *followers) signal() {
	list := f.list.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if w.sleeping.Load() && w.sleeping.CompareAndSwap(true, false) {
			signal(w.wake)
		}
	}
}
