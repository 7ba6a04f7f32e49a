// Package timestamp gives out the time stamps of writes, in milliseconds, by a clock that
// may be wrong and may jump.
package timestamp

import "sync/atomic"

// Highest is the highest of the time stamps that it was given. The zero Highest is 0. Its
// methods are safe for concurrent use.
type Highest struct{ n atomic.Int64 }

// Load returns it.
func (h *Highest) Load() int64 { return h.n.Load() }

// Raise makes it at least to.
func (h *Highest) Raise(to int64) {
	for {
		old := h.n.Load()
		if to <= old || h.n.CompareAndSwap(old, to) {
			return
		}
	}
}

// Source gives out stamps. A stamp is max(clock, newest stamp), as long as the newest
// stamp is at most a tolerance ahead of the clock: if the clock is set back by less, stamps
// stand still. A clock that is set back by more was wrong before. Then stamps are set back
// too. The zero Source has given out none. Its methods are safe for concurrent use.
type Source struct {
	newest  Highest // since the clock was last set back
	highest Highest // of all
}

// Found notes a stamp that was given out by an earlier Source of the store.
func (s *Source) Found(stamp int64) {
	s.newest.Raise(stamp)
	s.highest.Raise(stamp)
}

// Next returns the next stamp, where the clock shows now. If the clock was set back by more
// than the tolerance, before is the newest stamp until then; otherwise it is 0.
func (s *Source) Next(now, tolerance int64) (stamp, before int64) {
	for {
		newest := s.newest.Load()
		back := newest - now
		if back >= 0 && back <= tolerance {
			return newest, 0
		}
		if !s.newest.n.CompareAndSwap(newest, now) {
			continue
		}
		s.highest.Raise(now)
		if back > 0 {
			return now, newest
		}
		return now, 0
	}
}

// Newest returns the newest stamp.
func (s *Source) Newest() int64 { return s.newest.Load() }

// Highest returns the highest stamp of all: it is above the newest one if the clock was
// set back.
func (s *Source) Highest() int64 { return s.highest.Load() }
