package backup

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// A checkpoint is made in these steps:
//
//  1. Until step 4 no container is made or dropped, no partition is replaced, no set of
//     files changes and no log file is released. Reads and writes go on.
//  2. The files of each partition are linked, and its manifest is noted. Those that cannot be
//     linked, since the directory lies on another file system, are pinned.
//  3. The log is synced, goes on to its next file and is synced again, so that the last seal
//     vouches for the records before it. The files before that are linked. They hold
//     all that is not in the files of step 2, so files and log together are the store at one
//     sequence.
//  4. The operations that step 1 held back go on. The pinned files are copied.
//  5. The manifests of partitions are written and all directories synced.
//  6. Commit point: the store manifest of the checkpoint.
//
// A crash before step 6 leaves a directory without a store manifest, which Open refuses.
// Nothing changes in the store itself, except that its log has begun another file.

// Checkpoint is a checkpoint that is being made. It is for one goroutine.
type Checkpoint struct {
	from, to vfs.FS
	made     []string // names of files and directories, in the order in which they were made
	storing  bool     // there may be a store manifest
	state    manifest.Store
	parts    map[string]*manifest.Files // by directory
	copies   []copying                  // what could not be linked
	releases []func()                   // let go of the files that are to be copied
}

// copying is a file that is to be copied.
type copying struct {
	*lsm.File
	name string
}

// NewCheckpoint returns a checkpoint of the store in from, of which to has nothing yet.
func NewCheckpoint(from, to vfs.FS) *Checkpoint {
	return &Checkpoint{from: from, to: to, parts: make(map[string]*manifest.Files)}
}

// Begin makes the directories. It returns fault.ErrExists if another checkpoint has made them, since
// the directory was found empty.
func (c *Checkpoint) Begin() error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		if err := c.mkdir(dir); errors.Is(err, fs.ErrExist) {
			return fault.Of(fault.ErrExists, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// LinkPartition does step 2 for a partition.
func (c *Checkpoint) LinkPartition(ctx context.Context, t *lsm.Tree) error {
	if t.Lost != nil {
		return t.Lost
	}
	if err := c.mkdir(t.Dir); err != nil {
		return err
	}
	runs := t.Version.Load().Runs
	done := make(map[uint64]bool)
	pinned := false
	for _, r := range runs {
		for _, f := range r.Files {
			if done[f.Ref.Number] {
				continue
			}
			done[f.Ref.Number] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			name := path.Join(t.Dir, manifest.SegmentName(f.Ref.Number))
			linked, err := vfs.LinkTo(c.from, name, c.to, name)
			switch {
			case linked:
				c.made = append(c.made, name)
			case err == nil && f.Broken() != nil:
				err = c.link(name) // it has no reader
			case err == nil:
				c.copies = append(c.copies, copying{f, name})
				if !pinned {
					pinned = true
					_, release := t.PinVersion()
					c.releases = append(c.releases, release)
				}
			}
			if err != nil && !f.Missing(err) {
				return err
			}
		}
	}
	c.parts[t.Dir] = t.Manifest(runs, t.Install.FlushedSeq.Load(), t.Install.Applied, t.Inherited())
	return nil
}

// Copy is the end of step 4. Nothing is locked.
func (c *Checkpoint) Copy(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for _, f := range c.copies {
		if err := c.copy(ctx, f, buf); err != nil {
			return err
		}
	}
	return nil
}

// copy copies a file, and syncs it, but not its name.
func (c *Checkpoint) copy(ctx context.Context, f copying, buf []byte) error {
	to, err := c.to.Create(f.name)
	if err != nil {
		return err
	}
	c.made = append(c.made, f.name)
	for off := int64(0); off < f.Ref.Size && err == nil; off += int64(len(buf)) {
		piece := buf[:min(int64(len(buf)), f.Ref.Size-off)]
		if err = ctx.Err(); err == nil {
			err = f.Renamed(f.ReadAt(piece, off))
		}
		if err == nil {
			_, err = to.WriteAt(piece, off)
		}
	}
	if err == nil {
		err = to.Sync()
	}
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Release lets go of the files that were to be copied.
func (c *Checkpoint) Release() {
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
}

// LinkLog links the files of the log before the newest, which the checkpoint does not
// need. state is what the store manifest says, with the lengths of these files.
func (c *Checkpoint) LinkLog(state manifest.Store, newest uint64) error {
	first := state.LogFirst
	state.Clean, state.Intents, state.LogClosed = false, nil, state.NeededLog()
	if first == newest {
		// No log file is needed: the log of the checkpoint begins anew.
		state.LogFirst, state.LogClosed = 0, nil
	}
	c.state = state
	names, err := c.from.List(manifest.LogDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if number, ok := wal.ParseFileName(name); !ok || number < first || number >= newest {
			continue
		}
		if err := c.link(path.Join(manifest.LogDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Commit does steps 5 and 6.
func (c *Checkpoint) Commit() error {
	if err := c.writeManifests(); err != nil {
		return err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir, "."} {
		if err := c.to.SyncDir(dir); err != nil {
			return err
		}
	}
	c.storing = true
	return manifest.NewDir(c.to, ".", manifest.StoreKind).Store(&c.state)
}

// manifestsAtOnce bounds the manifests that are written at one time: the file system
// makes files durable together that are synced at the same time.
const manifestsAtOnce = 16

// writeManifests writes the manifests of partitions.
func (c *Checkpoint) writeManifests() error {
	var work sync.WaitGroup
	places := make(chan struct{}, manifestsAtOnce)
	failures := make([]error, 0, len(c.parts))
	var mu sync.Mutex
	for dir, files := range c.parts {
		c.made = append(c.made, path.Join(dir, manifest.Name(1))) // also if Store fails half-way
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if err := manifest.NewDir(c.to, dir, manifest.PartitionKind).Store(files); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	work.Wait()
	return errors.Join(failures...)
}

func (c *Checkpoint) link(name string) error {
	_, err := vfs.LinkOrCopyTo(c.from, name, c.to, name)
	if err == nil {
		c.made = append(c.made, name)
	}
	return err
}

func (c *Checkpoint) mkdir(name string) error {
	err := c.to.Mkdir(name)
	if err == nil {
		c.made = append(c.made, name)
	}
	return err
}

// Remove removes everything that this checkpoint has made in the directory, as far as possible, but
// not the directory itself. After an error it may still be a store.
func (c *Checkpoint) Remove() error {
	if c.storing { // else a manifest that is there is that of another one
		for _, name := range []string{manifest.Name(1), manifest.Name(1) + manifest.TempSuffix} {
			if err := c.to.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
				return err
			}
		}
	}
	for dir := range c.parts {
		_ = c.to.Remove(path.Join(dir, manifest.Name(1)+manifest.TempSuffix))
	}
	for _, name := range slices.Backward(c.made) {
		_ = c.to.Remove(name) // files that stay are no store
	}
	return nil
}
