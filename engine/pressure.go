package engine

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pressure"
)

// admit lets a write of size bytes go on, slows it or makes it wait, and returns how
// long that took. Without an error, the memory is promised to the write until the gate is
// told that the write is done.
func (db *DB) admit(ctx context.Context, p *partition, size int64) (time.Duration, error) {
	if p.Lost != nil {
		return 0, p.Lost
	}
	waited, err := db.gate.Admit(ctx, &p.Tree, size)
	if waited == 0 && err == nil {
		return 0, nil
	}
	if err == nil && waited < pressure.SmallestPause {
		return waited, nil
	}
	db.counters.stalled(waited)
	if err == lsm.ErrMoved {
		err = p.gone()
	}
	if err == nil {
		notify(db, db.opts.Events.Stalled, StallEvent{Partition: p.ID, Waited: waited})
	}
	return waited, err
}
