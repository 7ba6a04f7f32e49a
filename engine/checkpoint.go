package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// A checkpoint is made in these steps:
//
//  1. Until step 4 no container is made or dropped, no partition is replaced, no set of
//     files changes and no log file is released. Reads and writes go on.
//  2. The files of each partition are linked, and its manifest is noted.
//  3. The log goes on to its next file and is synced. The files before that are linked. They
//     hold all that is not in the files of step 2, so files and log together are the store
//     at one sequence.
//  4. The operations that step 1 held back go on.
//  5. The manifests of partitions are written and all directories synced.
//  6. Commit point: the store manifest of the checkpoint.
//
// A crash before step 6 leaves a directory without a store manifest, which Open refuses.
// Nothing changes in the store itself, except that its log has begun another file.

// CheckpointInfo says how long the phases of a checkpoint took. Reads and writes went on
// all the time. New sets of files, reshapes, and the making and dropping of containers
// were held back from the end of Wait to the end of LogSync.
type CheckpointInfo struct {
	Wait    time.Duration // until running changes of the store's files had ended
	Link    time.Duration // the files were linked
	LogSync time.Duration // the log went on to another file and was synced
	Store   time.Duration // manifests and directories of the copy were written and synced
}

// Duration returns the sum of the phases.
func (i CheckpointInfo) Duration() time.Duration { return i.Wait + i.Link + i.LogSync + i.Store }

// Checkpoint makes a copy of the store as it is at one moment, in dir, which must not
// exist or must be empty. The copy opens like any store. Files are linked, not copied, if
// dir is on the same file system. Then a checkpoint takes milliseconds, and no space
// until merges of the store have replaced the files that it holds. Reads and writes go on
// meanwhile; flushes and merges wait for the links.
//
// The checkpoint has everything that was acknowledged before the call, whatever its
// durability; of each logical partition it has a prefix of the writes. After an error dir
// is no store, and the files that were made in it are removed as far as possible.
//
// Errors: ErrExists if dir has something in it; *IOError, ErrDiskFull.
func (db *DB) Checkpoint(ctx context.Context, dir string) (CheckpointInfo, error) {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return CheckpointInfo{}, err
	}
	defer call.Leave()
	if dir == "" {
		return CheckpointInfo{}, invalidf("Checkpoint: no directory is named")
	}
	cp := checkpoint{db: db, at: time.Now()}
	if cp.to, err = db.opts.checkpointRoot(dir); err != nil {
		return CheckpointInfo{}, err
	}
	if c, ok := cp.to.(io.Closer); ok {
		defer c.Close()
	}
	names, err := cp.to.List(".")
	if err != nil {
		return CheckpointInfo{}, err
	}
	if len(names) > 0 {
		return CheckpointInfo{}, fmt.Errorf("checkpoint into %s: %w: it has a file %q", dir, ErrExists, names[0])
	}
	if err := cp.make(ctx); err != nil {
		cp.remove()
		return CheckpointInfo{}, fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return cp.info, nil
}

// checkpoint is a checkpoint that is being made.
type checkpoint struct {
	db    *DB
	to    vfs.FS
	made  []string // names of files and directories, in the order in which they were made
	state manifest.Store
	parts map[string]*manifest.Files // by directory
	info  CheckpointInfo
	at    time.Time // end of the time that info has
}

// took adds the time since its last call to a phase.
func (cp *checkpoint) took(phase *time.Duration) {
	now := time.Now()
	*phase += now.Sub(cp.at)
	cp.at = now
}

func (cp *checkpoint) make(ctx context.Context) error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		if err := cp.mkdir(dir); err != nil {
			return err
		}
	}
	cp.took(&cp.info.Link)
	unlock := cp.db.lockFiles()
	cp.took(&cp.info.Wait)
	err := cp.link(ctx)
	unlock()
	if err != nil {
		return err
	}
	if err = cp.writeManifests(); err != nil {
		return err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir, "."} {
		if err = cp.to.SyncDir(dir); err != nil {
			return err
		}
	}
	err = manifest.NewDir(cp.to, ".", manifest.StoreKind).Store(&cp.state)
	cp.took(&cp.info.Store)
	return err
}

// manifestsAtOnce bounds the manifests that are written at one time: the file system
// makes files durable together that are synced at the same time.
const manifestsAtOnce = 16

// writeManifests writes the manifests of partitions.
func (cp *checkpoint) writeManifests() error {
	var work sync.WaitGroup
	places := make(chan struct{}, manifestsAtOnce)
	failures := make([]error, 0, len(cp.parts))
	var mu sync.Mutex
	for dir, files := range cp.parts {
		cp.made = append(cp.made, path.Join(dir, manifest.Name(1))) // also if Store fails half-way
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if err := manifest.NewDir(cp.to, dir, manifest.PartitionKind).Store(files); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	work.Wait()
	return errors.Join(failures...)
}

// lockFiles keeps containers, partitions and their files as they are until
// unlock is called.
func (db *DB) lockFiles() (unlock func()) {
	var held []sync.Locker
	hold := func(l sync.Locker) {
		l.Lock()
		held = append(held, l)
	}
	unlock = func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i].Unlock()
		}
	}
	hold(&db.checkpoints)
	for {
		containers := db.containers.Load()
		for _, c := range containers.byName() {
			hold(&c.reshapeMu)
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
	return unlock
}

// link does steps 2 and 3. Everything is locked.
func (cp *checkpoint) link(ctx context.Context) error {
	db := cp.db
	cp.parts = make(map[string]*manifest.Files)
	for _, p := range db.partitions() {
		if err := cp.linkPartition(ctx, p); err != nil {
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
	cp.state = db.storeManifest.state.Clone()
	cp.state.Clean, cp.state.Intents = false, nil
	names, err := db.env.FS.List(manifest.LogDir)
	if err != nil {
		return err
	}
	if cp.state.LogFirst == newest {
		// No log file is needed: the log of the checkpoint begins anew.
		cp.state.LogFirst, cp.state.LogClosed = 0, nil
	}
	for _, name := range names {
		if number, ok := wal.ParseFileName(name); !ok || number < db.storeManifest.state.LogFirst || number >= newest {
			continue
		}
		if err := cp.linkFile(path.Join(manifest.LogDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// linkPartition links the files of a partition and notes its manifest.
func (cp *checkpoint) linkPartition(ctx context.Context, p *partition) error {
	if p.Lost != nil {
		return p.Lost
	}
	if err := cp.mkdir(p.Dir); err != nil {
		return err
	}
	runs := p.Version.Load().Runs
	linked := make(map[uint64]bool)
	for _, r := range runs {
		for _, f := range r.Files {
			if linked[f.Ref.Number] {
				continue
			}
			linked[f.Ref.Number] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := cp.linkFile(path.Join(p.Dir, manifest.SegmentName(f.Ref.Number))); err != nil && !f.Missing(err) {
				return err
			}
		}
	}
	cp.parts[p.Dir] = p.Manifest(runs, p.Install.FlushedSeq.Load(), p.Install.Applied, p.Inherited())
	return nil
}

func (cp *checkpoint) linkFile(name string) error {
	_, err := vfs.LinkOrCopyTo(cp.db.env.FS, name, cp.to, name)
	if err == nil {
		cp.made = append(cp.made, name)
	}
	return err
}

func (cp *checkpoint) mkdir(name string) error {
	err := cp.to.Mkdir(name)
	if err == nil {
		cp.made = append(cp.made, name)
	}
	return err
}

// remove removes everything that was made in the directory, but not the directory itself.
func (cp *checkpoint) remove() {
	for _, name := range []string{manifest.Name(1), manifest.Name(1) + manifest.TempSuffix} {
		if err := cp.to.Remove(name); err != nil && !errors.Is(err, ErrMissing) {
			cp.db.backgroundError("remove an unfinished checkpoint", err)
			return // with its manifest it may still be a store
		}
	}
	for dir := range cp.parts {
		_ = cp.to.Remove(path.Join(dir, manifest.Name(1)+manifest.TempSuffix))
	}
	for _, name := range slices.Backward(cp.made) {
		_ = cp.to.Remove(name) // files that stay are no store
	}
}
