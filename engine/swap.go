package engine

import (
	"errors"

	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/wal"
)

// swap is step 4 of a reshape, and its only pause. install of the parents is locked.
func (r *reshape) swap() (err error) {
	db := r.db
	defer func() {
		if err != nil {
			r.db.discard(r.children, true) // the store has failed: the parents serve its readers
		}
	}()
	// Write the log's buffer now, so that nothing is left to write while the locks are
	// held. Where the disk is full it stays in the buffer: the children then wait for
	// room, as the parents did.
	if err = db.log.Wait(db.log.Appended(), false); err != nil && !errors.Is(err, wal.ErrStalled) {
		return db.uncertain(err)
	}
	heirs := r.succession()
	if len(r.parents) > 1 {
		if err = heirs.SyncParents(); err != nil {
			db.fail(err) // the manifest names the children: there is no way back
			return err
		}
	}
	heirs.Lock()
	start := db.opts.clock()
	err = r.swapLocked(heirs)
	swapped := db.opts.clock()
	heirs.Unlock()
	if err != nil {
		return err
	}
	db.times.pauses[r.plan.Kind].Record(swapped.Sub(start), 1)
	r.job.update(func(p *ReshapeProgress) { p.Pause, p.Swapped = swapped.Sub(start), swapped })
	return nil
}

// succession returns the parents and children as package physical sees them.
func (r *reshape) succession() *physical.Succession {
	return &physical.Succession{Env: &r.db.env, Parents: physicals(r.parents), Children: physicals(r.children)}
}

// swapLocked lets the children take the place of the parents. The commit locks
// of the parents are held.
func (r *reshape) swapLocked(heirs *physical.Succession) error {
	if err := heirs.TakeOverLocked(); err != nil {
		return err
	}
	r.inheritMeters()
	r.c.routing.Store(r.routing)
	for _, p := range r.parents {
		p.EndLocked()
	}
	return nil
}
