// Package readopen reads one state of a store without its lock, beside a writer that may
// change the store meanwhile.
//
// A read of a state takes several steps: store manifest, manifests of partitions, files, log.
// Each step may find a newer state than the step before, and files that the newer state no
// longer needs may be gone. Then the read starts over, as long as the writer changes the store.
//
// # Invariants
//
//  1. What an attempt has read is one state: every file and record in it belongs to the
//     manifests that were read.
//  2. What the writer has done is not taken for damage. Damage is an error only if it was met
//     in a state that has not changed since the attempt before, and a file is set aside only
//     after it was met twice.
//  3. A read ends: with its context, when the store stays as it is, or after 50 attempts.
//
// Nothing is written. The package has no locks; a read is for one goroutine.
package readopen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// ErrStale says that a writer has changed the store while a state of it was read.
var ErrStale = errors.New("the store changed while it was read")

// attempts bounds how often a store that a writer changes is read.
const attempts = 50

// Store is a store that is being opened.
type Store interface {
	// Read reads a state. With aside it sets aside what cannot be read, instead of failing.
	// It returns ErrStale if it has read parts of several states.
	Read(ctx context.Context, aside bool) error
	// Generations identifies the state that there is now: see the function Generations.
	Generations() []uint64
	// Forget releases what a Read that failed has opened.
	Forget()
}

// Read reads a state of a store. With bears it sets aside what is damaged.
func Read(ctx context.Context, s Store, bears bool) error {
	var before []uint64
	var last string // the error of the attempt before
	aside := false
	for attempt := 1; ; attempt++ {
		err := s.Read(ctx, aside)
		if err == nil || !lsm.Unreadable(err) && !errors.Is(err, ErrStale) {
			return err
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		now := s.Generations()
		same := before != nil && slices.Equal(now, before)
		if same && (aside || !lsm.Unreadable(err)) {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("%w, at each of %d attempts; try again (the last one met: %v)", ErrStale, attempt, err)
		}
		// If a writer has replaced a file, the next attempt reads another one. Damage is
		// met again.
		aside = bears && lsm.Unreadable(err) && (same || err.Error() == last)
		if same && !aside {
			return err
		}
		before, last = now, err.Error()
		s.Forget()
		select { // leaves the processor to the writer
		case <-time.After(time.Duration(min(attempt, 20)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Generations returns the newest generations of the store manifest in dir and of the manifest
// of each partition that a state has. One that cannot be read is 0, which is no change.
func Generations(fs vfs.FS, dir *manifest.Dir, state *manifest.Store) []uint64 {
	latest, _ := dir.Latest()
	found := []uint64{latest}
	for _, p := range state.Partitions {
		latest, _ = manifest.NewDir(fs, manifest.PartitionDir(p.ID), manifest.PartitionKind).Latest()
		found = append(found, latest)
	}
	return found
}

// CheckLog returns ErrStale if the log that was read may not belong to the state that was
// read: the newest manifest has released a file of it, or has replaced a partition.
//
// A log file that a newer manifest released was read before it was removed, or is missing, or
// was reused. Records and seals show that a file was reused, except for the last file, which
// may end anywhere.
func CheckLog(fs vfs.FS, read *manifest.Store, log *wal.Recovery) error {
	var now manifest.Store
	if err := manifest.NewDir(fs, ".", manifest.StoreKind).Load(&now); err != nil {
		return err
	}
	last := read.LogFirst
	for _, f := range log.Files {
		if len(f.Streams) > 0 {
			last = max(last, f.Number)
		}
	}
	if now.LogFirst > last || !samePartitions(read, &now) {
		return ErrStale
	}
	return nil
}

// samePartitions says whether no partition was replaced, in the containers that still exist.
// Then the log that was read belongs to the partitions that were read.
func samePartitions(read, now *manifest.Store) bool {
	for i := range read.Partitions {
		m := &read.Partitions[i]
		if now.Container(m.Container) != nil && now.Partition(m.ID) == nil {
			return false
		}
	}
	return true
}

// AsideStill says whether the newest manifests still name everything that was set aside in
// the trees of a state.
func AsideStill(fs vfs.FS, trees []*lsm.Tree) bool {
	now, err := manifest.LoadNewest[manifest.Store](fs, ".", manifest.StoreKind)
	if err != nil {
		return false
	}
	for _, t := range trees {
		if t.Version.Load().FilesAside() > 0 && (now.Partition(uint32(t.ID)) == nil || !t.AsideStill()) {
			return false
		}
	}
	return true
}
