package feed

import (
	"slices"
	"sync/atomic"
)

// Followers are the feeds that follow the changes of a container. A write that
// becomes visible wakes the feeds that sleep. The list is empty as a rule. A feed
// that is awake costs a write one atomic load.
type Followers struct{ list atomic.Pointer[[]*follower] }

type follower struct {
	sleeping atomic.Bool
	wake     chan struct{}
}

func (f *Followers) add() *follower {
	w := &follower{wake: make(chan struct{}, 1)}
	f.change(func(list []*follower) []*follower { return append(slices.Clone(list), w) })
	return w
}

func (f *Followers) remove(w *follower) {
	f.change(func(list []*follower) []*follower {
		return slices.DeleteFunc(slices.Clone(list), func(o *follower) bool { return o == w })
	})
}

// change replaces the list by the one that the function returns. The function must
// return a copy.
func (f *Followers) change(change func([]*follower) []*follower) {
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

// Signal wakes the feeds that sleep. The caller makes the write visible before.
func (f *Followers) Signal() {
	list := f.list.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if w.sleeping.Load() && w.sleeping.CompareAndSwap(true, false) {
			select {
			case w.wake <- struct{}{}:
			default: // it is awake
			}
		}
	}
}
