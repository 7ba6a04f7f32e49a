// Package verify checks the files of a store: its manifests, the files of each physical
// partition against the newest manifest that names them, and the log.
//
// # Invariants
//
//  1. A check changes nothing, and may run beside a writer, also one in another process. It
//     reports damage in the files that the store has when the check reaches them. It does
//     not report damage in a file that a writer has replaced since.
//  2. Damage is reported and does not end the check. A check ends early with its context.
//
// No type has a lock; one goroutine uses a Checker. A check of a partition pins its files.
package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// Checker checks a store.
type Checker struct {
	ctx      context.Context
	fs       vfs.FS
	readOnly bool
	report   lsm.FileReport
	trees    *lsm.TreeChecker
}

// New returns a checker of the store in fs. If the store is open read-only, the manifests
// on disk, which a writer may change, say which partitions there still are.
func New(ctx context.Context, fs vfs.FS, readOnly bool, report lsm.FileReport) *Checker {
	return &Checker{ctx: ctx, fs: fs, readOnly: readOnly, report: report, trees: lsm.NewTreeChecker(ctx, report)}
}

func (c *Checker) done() bool { return c.ctx.Err() != nil }

// store loads the store manifest.
func (c *Checker) store() (manifest.Store, error) {
	return manifest.LoadNewest[manifest.Store](c.fs, ".", manifest.StoreKind)
}

// Manifests reads the store manifest, and reports unknown names among the partition
// directories.
func (c *Checker) Manifests() {
	if _, err := c.store(); err != nil {
		c.report.Failed(c.fs.Path("."), err)
		return
	}
	bases, err := c.fs.List(manifest.PartitionsDir)
	if err != nil {
		c.report.Failed(c.fs.Path(manifest.PartitionsDir), err)
		return
	}
	for _, base := range bases {
		// Directories that no manifest names are left by a crash, or belong to
		// a container that is being made.
		if _, ok := manifest.ParsePartitionDir(base); !ok {
			c.report(c.fs.Path(path.Join(manifest.PartitionsDir, base)), -1, "not a partition of this store")
		}
	}
}

// Partition checks the files of a physical partition. A finding in a file names those of
// siblings, the partitions of the container, that share the file.
func (c *Checker) Partition(t *lsm.Tree, siblings iter.Seq[*lsm.Tree]) {
	c.trees.Check(t, func(f *lsm.File) string { return sharers(t, siblings, f) })
	if c.done() || c.dropped(t) {
		return
	}
	unknown, err := t.UnknownFiles()
	if err == nil {
		err = c.listed(t)
	}
	if err != nil {
		if !c.dropped(t) {
			c.report.Failed(c.fs.Path(t.Dir), err)
		}
		return
	}
	for _, name := range unknown {
		c.report(c.fs.Path(name), -1, "no manifest names this file")
	}
}

// listed reports files that the newest manifest of a partition names and that are not there,
// or not as long as it says: the check of the open ones reads them through their descriptors,
// whatever became of their names. It passes over those that were not there at the open, which
// that check reports.
func (c *Checker) listed(t *lsm.Tree) error {
	m, err := manifest.LoadNewest[manifest.Files](c.fs, t.Dir, manifest.PartitionKind)
	if err != nil {
		return err
	}
	wrong := make(map[uint64]string)
	for _, r := range m.Runs {
		for _, f := range r.Files {
			switch info, none := c.fs.Stat(segmentName(t, f.Number)); {
			case errors.Is(none, fault.ErrMissing):
				wrong[f.Number] = "the manifest names this file, and it is not there"
			case none != nil:
				return none
			case info.Size != f.Size:
				wrong[f.Number] = fmt.Sprintf("it has %d bytes, the manifest says %d", info.Size, f.Size)
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	// A writer may have let files go since the manifest was read.
	if m, err = manifest.LoadNewest[manifest.Files](c.fs, t.Dir, manifest.PartitionKind); err != nil {
		return err
	}
	present, release := t.PinVersion()
	defer release()
	for _, r := range present.Runs {
		for _, f := range r.Files {
			if f.Broken() != nil {
				delete(wrong, f.Ref.Number)
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(wrong)) {
		if m.Lists(number) && !c.dropped(t) {
			c.report(c.fs.Path(segmentName(t, number)), -1, wrong[number])
		}
	}
	return nil
}

func segmentName(t *lsm.Tree, number uint64) string {
	return path.Join(t.Dir, manifest.SegmentName(number))
}

// sharers names the other partitions that share a damaged file.
func sharers(t *lsm.Tree, siblings iter.Seq[*lsm.Tree], f *lsm.File) (text string) {
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	for other := range siblings {
		if other != t && other.Version.Load().Shares(f) {
			text += fmt.Sprintf("; shared with partition %d", other.ID)
		}
	}
	return text
}

// dropped reports whether the store has dropped a partition.
func (c *Checker) dropped(t *lsm.Tree) bool {
	if !c.readOnly {
		return t.Dropped.Load()
	}
	store, err := c.store()
	return err == nil && store.Partition(uint32(t.ID)) == nil
}

// Log reads the log with these options. It reads again if log files were released
// meanwhile, and reports what it has met twice: a writer may have given a file without
// records another name since it was listed.
func (c *Checker) Log(o wal.Options) {
	for met := ""; !c.done(); {
		read, err := c.readLog(o)
		if err != nil {
			if now, _ := c.logState(); now.First != read.First || !slices.Equal(now.Closed, read.Closed) {
				continue
			}
			if err.Error() != met {
				met = err.Error()
				continue
			}
		}
		c.report.Failed(c.fs.Path(manifest.LogDir), err)
		return
	}
}

// logState returns what the newest manifest says of the log.
func (c *Checker) logState() (wal.State, error) {
	store, err := c.store()
	return wal.State{First: store.LogFirst, Closed: store.LogClosed}, err
}

// readLog decodes every record of the log that the newest manifest describes.
func (c *Checker) readLog(o wal.Options) (state wal.State, err error) {
	state, err = c.logState()
	if err != nil {
		return state, nil // Manifests reports it
	}
	var op logrecord.Operation
	_, err = wal.Recover(c.ctx, c.fs, manifest.LogDir, state, o, func(rec *wal.Record) error {
		if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
			return nil
		}
		for rest := rec.Payload; len(rest) > 0; {
			var wrong error
			if rest, wrong = logrecord.Decode(rest, rec.Type == wal.TypeCarried, &op); wrong != nil {
				return fault.Corrupt(c.fs.Path(path.Join(manifest.LogDir, wal.FileName(rec.File))), rec.Offset, "%w", wrong)
			}
		}
		return nil
	})
	return state, err
}
