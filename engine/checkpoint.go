package engine

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pins"
)

// CheckpointInfo says how long the phases of a checkpoint took. Reads and writes went on
// all the time. New sets of files, reshapes, and the making and dropping of containers
// were held back from the end of Wait to the end of LogSync and, on another file system, until
// the log was copied.
type CheckpointInfo struct {
	Wait    time.Duration // until running changes of the store's files had ended
	Link    time.Duration // the files were linked; on another file system: the log was copied
	LogSync time.Duration // the log went on to another file and was synced
	Store   time.Duration // the other files were copied, manifests and directories of the copy written and synced
}

// Duration returns the sum of the phases.
func (i CheckpointInfo) Duration() time.Duration { return i.Wait + i.Link + i.LogSync + i.Store }

// Checkpoint makes a copy of the store as it is at one moment, in dir, which must not
// exist or must be empty. The copy opens like any store. Files are linked, not copied, if
// dir is on the same file system. Then a checkpoint takes milliseconds, and no space
// until compactions of the store have replaced the files that it holds. Reads and writes go on
// meanwhile; flushes and compactions wait for the links, or the copy of the log, but not for
// copies of segment files.
//
// The checkpoint has everything that was acknowledged before the call, whatever its
// durability; of each logical partition it has a prefix of the writes. After an error dir
// is no store, and the files that were made in it are removed as far as possible.
//
// Errors: ErrExists if dir has something in it, also of a checkpoint under way; *IOError, ErrDiskFull.
func (db *DB) Checkpoint(ctx context.Context, dir string) (CheckpointInfo, error) {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return CheckpointInfo{}, err
	}
	defer call.Leave()
	if dir == "" {
		return CheckpointInfo{}, invalidf("Checkpoint: no directory is named")
	}
	// Like a backup it holds files, while it copies them.
	defer db.env.Pins.Release(db.env.Pins.Take(pins.Backup, func() uint64 { return lsm.MaxSequence }, db.opts.clock()))
	cp := checkpoint{at: time.Now()}
	to, err := db.opts.checkpointRoot(dir)
	if err != nil {
		return CheckpointInfo{}, err
	}
	if c, ok := to.(io.Closer); ok {
		defer c.Close()
	}
	names, err := to.List(".")
	if err != nil {
		return CheckpointInfo{}, err
	}
	if len(names) > 0 {
		return CheckpointInfo{}, fmt.Errorf("checkpoint into %s: %w: it has a file %q", dir, ErrExists, names[0])
	}
	cp.Checkpoint = backup.NewCheckpoint(db.env.FS, to)
	defer cp.Release()
	if err = cp.make(ctx, db); err != nil {
		if removing := cp.Remove(); removing != nil {
			db.backgroundError("remove an unfinished checkpoint", removing)
		}
		return CheckpointInfo{}, fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return cp.info, nil
}

// checkpoint is a checkpoint that is being made, and how long that has taken.
type checkpoint struct {
	*backup.Checkpoint
	info CheckpointInfo
	at   time.Time // end of the time that info has
}

// took adds the time since its last call to a phase.
func (cp *checkpoint) took(phase *time.Duration) {
	now := time.Now()
	*phase += now.Sub(cp.at)
	cp.at = now
}

// make makes the checkpoint; package backup numbers the steps.
func (cp *checkpoint) make(ctx context.Context, db *DB) error {
	if err := cp.Begin(); err != nil {
		return err
	}
	cp.took(&cp.info.Link)
	unlock, err := db.lockFiles(ctx)
	if err != nil {
		return err
	}
	cp.took(&cp.info.Wait)
	err = cp.link(ctx, db)
	unlock()
	if err != nil {
		return err
	}
	if err = cp.Copy(ctx); err == nil {
		err = cp.Commit()
	}
	cp.took(&cp.info.Store)
	return err
}

// link does steps 2 and 3. Everything is locked.
func (cp *checkpoint) link(ctx context.Context, db *DB) error {
	for _, p := range db.partitions() {
		if err := cp.LinkPartition(ctx, &p.Tree); err != nil {
			return err
		}
	}
	cp.took(&cp.info.Link)
	if err := db.log.Rotate(); err != nil {
		return db.uncertain(err)
	}
	newest := db.log.Newest()
	// If the log has gone on to a further file meanwhile, the file before the newest may
	// not be complete yet.
	if err := db.log.Sync(); err != nil {
		return db.uncertain(err)
	}
	cp.took(&cp.info.LogSync)
	defer cp.took(&cp.info.Link)
	state := db.storeManifest.state.Clone()
	state.LogClosed = db.log.Complete(newest) // a record that came while Rotate synced has no mark that vouches for it
	return cp.LinkLog(state, newest)
}

// lockFiles keeps containers, partitions and their files as they are until
// unlock is called. It waits for splits, merges and moves, and for others that wait for
// them, until ctx ends.
func (db *DB) lockFiles(ctx context.Context) (unlock func(), err error) {
	var held []interface{ Unlock() }
	hold := func(l sync.Locker) {
		l.Lock()
		held = append(held, l)
	}
	unlock = func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i].Unlock()
		}
	}
	if err = db.checkpoints.Lock(ctx); err != nil {
		return nil, err
	}
	held = append(held, &db.checkpoints)
	for {
		containers := db.containers.Load()
		for _, c := range byName(containers) {
			if err = c.reshapeMu.Lock(ctx); err != nil {
				unlock()
				return nil, err
			}
			held = append(held, &c.reshapeMu)
		}
		hold(&db.creating)
		if containers == db.containers.Load() {
			break
		}
		for _, l := range held[1:] {
			l.Unlock()
		}
		held = held[:1]
	}
	for _, p := range db.partitions() {
		hold(&p.Install)
	}
	hold(&db.storeManifest)
	return unlock, nil
}
