package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
)

// openReadOnly reads a consistent past state without taking the lock: store
// manifest, partition manifests, files, log. Beside a live writer each step may find a
// newer state than the step before, and files that the newer state no longer needs
// may be gone: then it starts over, as long as the writer changes the store.
func (db *DB) openReadOnly(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	var before []uint64
	var last string // the error of the attempt before
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
		if same && (db.bearing || !lsm.Unreadable(err)) {
			return err
		}
		if try == readTries {
			return fmt.Errorf("%w, at each of %d attempts; try again (the last one met: %v)", errStale, try, err)
		}
		// If a writer has replaced a file, the next attempt reads another one. Damage is
		// met again.
		db.bearing = !db.opts.RefuseDamaged && lsm.Unreadable(err) && (same || err.Error() == last)
		if same && !db.bearing {
			return err
		}
		before, last = now, err.Error()
		for _, p := range db.partitions() {
			p.Version.Load().Release(&db.env.Env)
		}
		db.containers.Store(nil)
		select { // leaves the processor to the writer
		case <-time.After(time.Duration(min(try, 20)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readTries bounds the attempts to read a store that a writer changes.
const readTries = 50

// generations returns the newest generations of the store manifest and of the
// manifest of each partition.
func (db *DB) generations() []uint64 {
	latest, _ := db.storeManifest.dir.Latest() // 0 if it cannot be read: no change
	found := []uint64{latest}
	for _, p := range db.storeManifest.state.Partitions {
		latest, _ := manifest.NewDir(db.env.FS, manifest.PartitionDir(p.ID), manifest.PartitionKind).Latest()
		found = append(found, latest)
	}
	return found
}

var errStale = errors.New("the store changed while it was read")

func (db *DB) readState(ctx context.Context) error {
	db.storeManifest.dir = manifest.NewDir(db.env.FS, ".", manifest.StoreKind)
	db.storeManifest.state = manifest.Store{}
	if err := db.storeManifest.dir.Load(&db.storeManifest.state); err != nil {
		return err
	}
	state := &db.storeManifest.state
	db.env.StoreID = state.StoreID
	if err := db.openPartitions(ctx, state); err != nil {
		return err
	}
	recovery, err := db.replay(ctx, state)
	if err != nil {
		return err
	}
	// A log file that a newer manifest released was read before it was removed, or is
	// missing, or was reused. Records and seals show that a file was reused, except
	// for the last file, which may end anywhere.
	last := state.LogFirst
	for _, f := range recovery.Files {
		if len(f.Streams) > 0 {
			last = max(last, f.Number)
		}
	}
	var now manifest.Store
	if err := manifest.NewDir(db.env.FS, ".", manifest.StoreKind).Load(&now); err != nil {
		return err
	}
	if now.LogFirst > last || !samePartitions(state, &now) {
		return errStale
	}
	db.tellDropped(recovery)
	return nil
}

// samePartitions says whether no partition was replaced, in the containers that still
// exist. Then the log that was read belongs to the partitions that were read.
func samePartitions(read, now *manifest.Store) bool {
	for i := range read.Partitions {
		m := &read.Partitions[i]
		if now.Container(m.Container) != nil && now.Partition(m.ID) == nil {
			return false
		}
	}
	return true
}
