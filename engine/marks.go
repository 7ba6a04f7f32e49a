package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
)

// steadyMillis returns the system's time at the opening plus the time since: it does not
// jump. It is bounded, since a manifest has no later times, and marks may be ahead of it.
func (db *DB) steadyMillis() int64 {
	return min(db.opened.Add(db.opts.elapsed()-db.begun).UnixMilli(), item.MaxTime/2)
}

// floor returns the newest sequence known to be at least as old as ago, 0 if none is
// known.
func (db *DB) floor(ago time.Duration) uint64 {
	return db.marks.At(db.steadyMillis() - ago.Milliseconds())
}

// keepMarks makes a mark if a container keeps changes, and wakes the compactors, which
// may have fewer versions to keep.
func (db *DB) keepMarks() error {
	var least, most time.Duration
	for c := range db.containers.Load().Values() {
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
	if !db.marks.Add(db.steadyMillis(), db.log.LastSeq(), least, most) {
		return nil
	}
	db.work.RewriteSoon()
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	e := db.storeManifest.state.Edit()
	e.Marks = db.marks.All()
	return db.storeManifestLocked(e)
}

// changeFloor returns the sequence above which the container keeps all
// versions; lsm.MaxSequence: it keeps no changes.
func (c *Container) changeFloor() uint64 {
	if c.def.ChangeRetention == 0 {
		return lsm.MaxSequence
	}
	if c.db.env.Replaying { // the log may bring again what a flush would drop: see package replay
		return 0
	}
	return c.db.floor(c.def.ChangeRetention)
}
