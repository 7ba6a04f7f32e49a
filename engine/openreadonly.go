package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
)

// openReadOnly reads a consistent past state without taking the lock: store
// manifest, partition manifests, files, log. Each step only ever finds a newer
// state than the one before, and what a newer state no longer needs may be
// gone: then it starts over, as long as a live writer changes the store.
func (db *DB) openReadOnly(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	var before []uint64
	var last string // the error that it was before
	for try := 1; ; try++ {
		err := db.readState(ctx)
		if err == nil && db.bearing && !db.asideStill() {
			err = errStale
		}
		if err == nil || !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errStale) {
			return err
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		now := db.generations()
		same := before != nil && slices.Equal(now, before)
		if same && (db.bearing || !unreadable(err)) {
			return err
		}
		if try == readTries {
			return fmt.Errorf("%w, at each of %d attempts; try again (the last one met: %v)", errStale, try, err)
		}
		// What is gone because a writer replaced it is found elsewhere the next time; what
		// is damaged is met again.
		db.bearing = !db.opts.RefuseDamaged && unreadable(err) && (same || err.Error() == last)
		if same && !db.bearing {
			return err
		}
		before, last = now, err.Error()
		for _, p := range db.partitions() {
			p.version.Load().release(db)
		}
		db.containers.Store(nil)
		select { // the writer has better use for the processor
		case <-time.After(time.Duration(min(try, 20)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readTries bounds the attempts to read a store that a writer changes.
const readTries = 50

// generations tells the generations of the manifests that were found: of the
// store and of each partition.
func (db *DB) generations() []uint64 {
	latest, _ := db.structure.dir.Latest() // what cannot be read is no change
	found := []uint64{latest}
	for _, p := range db.structure.state.Partitions {
		latest, _ := manifest.NewDir(db.fs, manifest.PartitionDir(p.ID), manifest.PartitionKind).Latest()
		found = append(found, latest)
	}
	return found
}

var errStale = errors.New("the store changed while it was read")

func (db *DB) readState(ctx context.Context) error {
	db.structure.dir = manifest.NewDir(db.fs, ".", manifest.StoreKind)
	db.structure.state = manifest.Store{}
	if err := db.structure.dir.Load(&db.structure.state); err != nil {
		return err
	}
	state := &db.structure.state
	db.id = state.StoreID
	if err := db.openPartitions(ctx, state); err != nil {
		return err
	}
	recovery, err := db.replay(ctx, state)
	if err != nil {
		return err
	}
	// Log files that a newer manifest let go were read before they went, or are
	// missing, or got another use, which their records and seals tell: but not
	// in the last one, which may end anywhere.
	last := state.LogFirst
	for _, f := range recovery.Files {
		if len(f.Streams) > 0 {
			last = max(last, f.Number)
		}
	}
	var now manifest.Store
	if err := manifest.NewDir(db.fs, ".", manifest.StoreKind).Load(&now); err != nil {
		return err
	}
	if now.LogFirst > last || !samePartitions(state, &now) {
		return errStale
	}
	db.tellDropped(recovery)
	return nil
}

// samePartitions says whether no partition of a container that is still there
// was replaced: what was read of the log then belongs to those that were read.
func samePartitions(read, now *manifest.Store) bool {
	for i := range read.Partitions {
		m := &read.Partitions[i]
		if now.Container(m.Container) != nil && now.Partition(m.ID) == nil {
			return false
		}
	}
	return true
}
