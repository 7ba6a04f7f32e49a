package engine

import (
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Containers keep changes for a time, but versions have only sequences. A mark says
// which sequence was the newest at a time. The store manifest has the marks. They are
// made while the store is open and a container keeps changes. Their clock does not
// move when the system's clock jumps. The older marks are, the farther they lie
// apart: a floor is late by about a sixteenth of the retention.
//
// A crash loses at most the newest marks. Then versions are kept longer for a while.
//
// Only the time between marks counts. If the newest mark is ahead of the clock at an
// opening, one of the two is wrong. Then the time of marks goes on from the newest
// mark, so that recent writes do not look old.
type marks struct {
	ahead int64 // of the clock, milliseconds; set at open
	mu    lockorder.Mutex[locks.Marks]
	list  []manifest.Mark // rising
}

const (
	markParts = 32 // of a retention
	leastMark = time.Second
	mostMark  = time.Hour
)

// markMillis returns the time by the clock of marks. At the opening, this was the
// system's time, or that of the newest mark if that was later.
func (db *DB) markMillis() int64 {
	return db.opened.Add(db.opts.elapsed()).UnixMilli() + db.marks.ahead
}

// open takes the marks of an earlier run.
func (m *marks) open(list []manifest.Mark, now int64) {
	m.list = slices.Clone(list)
	if n := len(list); n > 0 {
		m.ahead = max(0, list[n-1].Time-now)
	}
}

// since returns the newest sequence known to have been given out by a time of the
// system's clock.
func (m *marks) since(clock int64) uint64 { return m.at(clock + m.ahead) }

// floor returns the newest sequence known to be at least as old as ago, 0 if none is
// known.
func (db *DB) floor(ago time.Duration) uint64 {
	return db.marks.at(db.markMillis() - ago.Milliseconds())
}

// at returns the newest sequence known to have been given out by a time of the clock
// of marks.
func (m *marks) at(time int64) (seq uint64) {
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

// add makes a mark, if the newest one is older than every and something was written
// since. Otherwise it returns false. most is the longest time for which marks are
// needed.
func (m *marks) add(now int64, seq uint64, every, most time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.list); n > 0 && (now < m.list[n-1].Time+every.Milliseconds() || seq <= m.list[n-1].Seq) {
		return false
	}
	list := append(m.list, manifest.Mark{Time: now, Seq: seq})
	kept := list[:0:0]
	for i, mark := range list {
		if i+1 < len(list) && list[i+1].Time <= now-most.Milliseconds() {
			continue // a newer one is old enough
		}
		if n := len(kept); n > 0 && i+1 < len(list) && list[i+1].Time-kept[n-1].Time < (now-mark.Time)/markParts {
			continue // its neighbours are near enough
		}
		kept = append(kept, mark)
	}
	m.list = kept
	return true
}

func (m *marks) all() []manifest.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// keepMarks makes a mark if a container keeps changes, and wakes the merger, which
// may have fewer versions to keep.
func (db *DB) keepMarks() error {
	var least, most time.Duration
	for c := range db.containers.Load().all() {
		if r := c.def.ChangeRetention; r > 0 {
			if least == 0 || r < least {
				least = r
			}
			most = max(most, r)
		}
	}
	if least == 0 {
		return nil
	}
	every := min(max(least/markParts, leastMark), mostMark)
	if !db.marks.add(db.markMillis(), db.log.LastSeq(), every, most) {
		return nil
	}
	signal(db.work.compactionWanted)
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	e := db.storeManifest.state.Edit()
	e.Marks = db.marks.all()
	return db.storeManifestLocked(e)
}

// changeFloor returns the sequence above which the container keeps all
// versions; maxSequence: it keeps no changes.
func (c *Container) changeFloor() uint64 {
	if c.def.ChangeRetention == 0 {
		return lsm.MaxSequence
	}
	return c.db.floor(c.def.ChangeRetention)
}
