package feed

import "testing"

// TestFollowers: a signal wakes those who sleep, once, and nobody else.
func TestFollowers(t *testing.T) {
	var f Followers
	f.Signal()
	one, two := f.add(), f.add()
	woken := func(w *follower) bool {
		select {
		case <-w.wake:
			return true
		default:
			return false
		}
	}
	one.sleeping.Store(true)
	f.Signal()
	f.Signal()
	if !woken(one) || woken(one) || woken(two) {
		t.Error("one of two slept, and was not the one to be woken once")
	}
	one.sleeping.Store(true)
	two.sleeping.Store(true)
	f.remove(one)
	f.Signal()
	if woken(one) || !woken(two) {
		t.Error("the one that stays was not the one to be woken")
	}
	if f.remove(two); f.list.Load() != nil {
		t.Error("the empty list is not nil: each write looks at it")
	}
}
