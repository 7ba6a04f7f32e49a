// Package reshaping has the steps by which physical partitions are replaced by others: a
// split, a merge, a move of a boundary, and an installation.
//
// A reshape replaces one or two partitions by one or two new ones. docs/splits.md draws
// the steps; package engine carries them out one after the other, stores the store
// manifest, and routes calls to the children:
//
//  1. Intent: the store manifest takes up the ids of the children (Steps.Intend).
//  2. Prepare: the reshape holds the parents' flushing turns (Steps.Still) and their
//     install locks, so that their files and the records that they need of the log do not
//     change. The children get directories with links to the files, and manifests with
//     bounds and the inherited streams (Steps.Prepare).
//  3. Commit point: the store manifest names the children (Steps.Commit).
//  4. Swap: fences, inherited memtables (physical.Succession), the routing table.
//  5. The parents' directories are removed when the last reader has left them.
//  6. The children flush the memtables that they inherited.
//
// A crash before 3 leaves directories that no manifest names. A crash after it leaves
// children that replay the parents' streams. docs/crash-safety.md has the argument.
//
// Invariants:
//
//  1. The children cover the part of the key space of the parents, without gaps or
//     overlaps, and a boundary never divides a logical partition.
//  2. Before the commit point every file that a child's manifest names has a name in the
//     child's directory, and all of these names are durable.
//  3. A child's manifest names, for each parent that it overlaps, the stream and how far
//     the parent has flushed it: what the parent had in memory is replayed into the child.
//  4. The content of a child has the ChangeFloor of each parent, the entry and the install
//     epoch of the parents. A child of an absent partition is absent.
//
// A Steps serves one goroutine. The package has no locks of its own.
package reshaping

import (
	"context"
	"iter"
	"slices"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// Steps are the steps of one reshape. Parents and Plan are set before the first step.
type Steps struct {
	physical.Succession
	Container uint32 // id
	Plan      splitter.Plan
	IDs       []manifest.Partition // the children, as the store manifest lists them

	names map[uint64]string // of the parents' files
}

// Intend is step 1: it changes an edit of the store manifest. It returns the ids of the
// children.
func (s *Steps) Intend(e *manifest.Edit) (children []partmap.PartitionID) {
	intent := manifest.Intent{Container: s.Container, Kind: s.Plan.Kind.String(), Parents: s.parentIDs()}
	for _, rng := range s.Plan.Children {
		intent.Children = append(intent.Children, manifest.Partition{
			ID: e.NextPartition, Container: s.Container, Parents: intent.Parents, Absent: s.Parents[0].Absent,
			Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
		})
		children = append(children, partmap.PartitionID(e.NextPartition))
		e.NextPartition++
	}
	e.Intents = []manifest.Intent{intent} // one at a time
	s.IDs = intent.Children
	return children
}

func (s *Steps) parentIDs() (ids []uint32) {
	for _, p := range s.Parents {
		ids = append(ids, uint32(p.ID))
	}
	return ids
}

// Still locks the flushes of the parents, and before that, if compactions is set, their
// compactions: the work of one under way would be lost. A compaction may be long, and
// flushes go on while Still waits for it. stop unlocks all of them, also after an error.
func (s *Steps) Still(ctx context.Context, compactions bool) (stop func(), err error) {
	var all, held []*ctxlock.Mutex
	stop = func() {
		for _, l := range held {
			l.Unlock()
		}
	}
	if compactions {
		for _, p := range s.Parents {
			all = append(all, &p.Compacting)
		}
	}
	for _, p := range s.Parents {
		all = append(all, &p.Flushing)
	}
	for _, l := range all {
		if err = l.Lock(ctx); err != nil {
			return stop, err
		}
		held = append(held, l)
	}
	return stop, nil
}

// Prepare is step 2. newPartition makes a child without files. Tree.Install of the parents
// is locked. It returns the bytes of files that could not be linked, and were copied.
// After an error Children has the children that have to be discarded.
func (s *Steps) Prepare(ctx context.Context, newPartition func(partmap.Entry) *physical.Partition) (copied int64, _ error) {
	s.names = make(map[uint64]string)
	for _, p := range s.Parents {
		v, release := p.PinVersion()
		defer release()
		for _, run := range v.Runs {
			for _, f := range run.Files {
				if s.names[f.Ref.Number] == "" || f.Broken() == nil {
					s.names[f.Ref.Number] = f.Name
				}
			}
		}
	}
	for i, rng := range s.Plan.Children {
		child := newPartition(partmap.Entry{ID: partmap.PartitionID(s.IDs[i].ID), Range: rng})
		for _, p := range s.Parents {
			child.Parents = append(child.Parents, p.ID)
			child.ChangeFloor.Store(max(child.ChangeFloor.Load(), p.ChangeFloor.Load()))
		}
		s.Children = append(s.Children, child)
		runs, err := child.InheritRuns(Trees(s.Parents))
		if err != nil {
			return copied, err
		}
		v := *child.Version.Load()
		v.SetRuns(runs)
		child.Version.Store(&v)
		n, err := s.link(ctx, child)
		copied += n
		if err != nil {
			return copied, err
		}
	}
	return copied, s.Env.FS.SyncDir(manifest.PartitionsDir)
}

// link makes the directory of a child: links to its files, and its manifest. Storing the
// manifest syncs all names in the directory.
func (s *Steps) link(ctx context.Context, child *physical.Partition) (copied int64, _ error) {
	if err := storedir.MakePartition(s.Env.FS, child.Dir); err != nil {
		return 0, err
	}
	linked := make(map[uint64]bool)
	for f := range files(child) {
		if linked[f.Ref.Number] {
			continue
		}
		linked[f.Ref.Number] = true
		if err := ctx.Err(); err != nil {
			return copied, err
		}
		n, err := vfs.LinkOrCopy(s.Env.FS, s.names[f.Ref.Number], f.Name)
		if err != nil && !f.Missing(err) {
			return copied, err
		}
		copied += n
	}
	var inherits []manifest.Inherited
	var flushed uint64
	for _, p := range s.Parents {
		seq := p.Install.FlushedSeq.Load()
		flushed = max(flushed, seq)
		if p.Range.Overlaps(child.Range) {
			inherits = append(inherits, manifest.Inherited{Stream: uint32(p.ID), FlushedSeq: seq})
		}
	}
	child.Install.FlushedSeq.Store(flushed)
	child.Inherits.Store(&inherits)
	child.Install.Applied = s.Parents[0].Install.Applied
	child.InstallEpoch, child.Absent = s.Parents[0].InstallEpoch, s.Parents[0].Absent
	return copied, child.Install.Dir.Store(child.Manifest(child.Version.Load().Runs, flushed, child.Install.Applied, inherits))
}

// SyncsLog says whether the log must be synced before the commit point. One of several
// parents may have flushed writes that are newer than the durable log records of another:
// a crash must leave a prefix of the writes of both. And the halves of a replicated
// partition must have all entries that it has applied: an entry that has batches for both
// halves cannot be applied to either.
func (s *Steps) SyncsLog() bool {
	return len(s.Parents) > 1 || s.Parents[0].Family.Replicated && s.Plan.Kind == splitter.Split
}

// Commit is step 3, at a time in milliseconds since the Unix epoch: it changes an edit of the store manifest, whose state is given. The
// children have equal parts of the throughput of the parents.
func (s *Steps) Commit(e *manifest.Edit, state *manifest.Store, now int64) {
	e.Intents = nil
	var share float64 // 0: all partitions have equal parts of the throughput
	done := manifest.Reshape{Container: s.Container, Kind: s.Plan.Kind.String(), Time: now}
	for _, p := range s.Parents {
		share += state.Partition(uint32(p.ID)).Share
		done.Parents = append(done.Parents, manifest.Former{
			ID: uint32(p.ID), Min: slices.Clone(p.Range.Min.Bytes()), Max: slices.Clone(p.Range.Max.Bytes()),
		})
	}
	for i := range s.IDs {
		s.IDs[i].Share = share / float64(len(s.IDs))
		done.Children = append(done.Children, s.IDs[i].ID)
	}
	e.DropPartitions = append(e.DropPartitions, s.parentIDs()...)
	e.Partitions = s.IDs
	e.History = []manifest.Reshape{done}
}

// NameFiles notes the names that files have in the directories of the children. It is
// called behind the commit point, before the parents' names can be removed.
func (s *Steps) NameFiles() {
	for _, child := range s.Children {
		for f := range files(child) {
			f.AddName(f.Name)
		}
	}
}

// files yields the references of a partition to files.
func files(p *physical.Partition) iter.Seq[*lsm.File] {
	return func(yield func(*lsm.File) bool) {
		for _, run := range p.Version.Load().Runs {
			for _, f := range run.Files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Trees returns the trees of partitions.
func Trees(parts []*physical.Partition) (all []*lsm.Tree) {
	for _, p := range parts {
		all = append(all, &p.Tree)
	}
	return all
}
