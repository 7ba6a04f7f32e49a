package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/readopen"
	"github.com/cleavestore/cleave/internal/reshaping"
)

// openReadOnly reads a consistent past state without taking the lock, beside a writer that
// may change the store meanwhile.
func (db *DB) openReadOnly(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	return readopen.Read(ctx, unlocked{db}, !db.opts.RefuseDamaged)
}

// unlocked is a DB that is opened without the lock.
type unlocked struct{ db *DB }

// Read implements readopen.Store, as do the methods below.
func (u unlocked) Read(ctx context.Context, aside bool) error {
	db := u.db
	db.bearing = aside
	db.storeManifest.dir = manifest.NewDir(db.env.FS, ".", manifest.StoreKind)
	db.storeManifest.state = manifest.Store{}
	if err := db.storeManifest.dir.Load(&db.storeManifest.state); err != nil {
		return err
	}
	state := &db.storeManifest.state
	db.env.StoreID = state.StoreID
	db.marks.Open(state.Marks, db.steadyMillis())
	if err := db.openPartitions(ctx, state); err != nil {
		return err
	}
	recovery, err := db.replay(ctx, state)
	if err != nil {
		return err
	}
	if err = readopen.CheckLog(db.env.FS, state, recovery); err != nil {
		return err
	}
	state.LastSeq = max(state.LastSeq, recovery.Given)
	db.tellDropped(recovery)
	if aside && !readopen.AsideStill(db.env.FS, reshaping.Trees(physicals(db.partitions()))) {
		return readopen.ErrStale
	}
	return nil
}

func (u unlocked) Generations() []uint64 {
	return readopen.Generations(u.db.env.FS, u.db.storeManifest.dir, &u.db.storeManifest.state)
}

func (u unlocked) Forget() {
	for _, p := range u.db.partitions() {
		p.Version.Load().Release(&u.db.env.Env)
	}
	u.db.containers.Store(nil)
}
