// Package seqtime knows approximately which sequences of a store were given out by which
// time. Containers keep changes for a time, but versions have only sequences.
//
// A mark is a time with the sequence that was the newest then. The store manifest has the
// marks. They are made while the store is open and a container keeps changes. Their clock
// starts at the system's time of the opening, and then does not move when the system's clock
// jumps. The older marks are, the farther they lie apart: the sequence that At
// returns is late by about a sixteenth of the age of the time.
//
// A crash loses at most the newest marks. Then versions are kept longer for a while.
//
// Only the time between marks counts. If the newest mark is ahead of the clock at an
// opening, one of the two is wrong. Then the time of marks goes on from the newest
// mark, so that recent writes do not look old. Marks that are more than a century ahead are
// wrong themselves: they are set back to the present, so that their time does not come to an end.
package seqtime

import (
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/manifest"
)

const (
	parts = 32 // of the shortest retention, in which a mark is made
	least = time.Second
	most  = time.Hour

	century = 100 * 365 * 24 * time.Hour
)

// Marks are the marks of a store. The zero Marks has none. Callers give times in
// milliseconds. All methods but Open are safe for concurrent use; the lock is locks.Marks.
type Marks struct {
	ahead int64 // how far the clock of marks is ahead of that of callers; set by Open
	mu    lockorder.Mutex[locks.Marks]
	list  []manifest.Mark // rising
}

// Open takes the marks of an earlier run. now is the present time.
func (m *Marks) Open(list []manifest.Mark, now int64) {
	m.list = slices.Clone(list)
	if n := len(list); n > 0 {
		m.ahead = max(0, list[n-1].Time-now)
	}
	if m.ahead <= century.Milliseconds() {
		return
	}
	for i := range m.list {
		m.list[i].Time -= m.ahead
	}
	m.ahead = 0
}

// At returns the newest sequence known to have been given out by a time, 0 if none is
// known.
func (m *Marks) At(time int64) (seq uint64) {
	time += m.ahead
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mark := range m.list {
		if mark.Time > time {
			break
		}
		seq = mark.Seq
	}
	return seq
}

// Add makes a mark of the newest sequence, if the newest mark is old enough and something
// was written since. It says whether it did. shortest and longest are the retentions for
// which marks are needed.
func (m *Marks) Add(now int64, seq uint64, shortest, longest time.Duration) bool {
	now += m.ahead
	every := min(max(shortest/parts, least), most)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.list); n > 0 && (now < m.list[n-1].Time+every.Milliseconds() || seq <= m.list[n-1].Seq) {
		return false
	}
	list := append(m.list, manifest.Mark{Time: now, Seq: seq})
	kept := list[:0:0]
	for i, mark := range list {
		if i+1 < len(list) && list[i+1].Time <= now-longest.Milliseconds() {
			continue // a newer one is old enough
		}
		if n := len(kept); n > 0 && i+1 < len(list) && list[i+1].Time-kept[n-1].Time < (now-mark.Time)/parts {
			continue // its neighbours are near enough
		}
		kept = append(kept, mark)
	}
	m.list = kept
	return true
}

// All returns the marks.
func (m *Marks) All() []manifest.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}
