package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/reshaping"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/splitter"
)

// internal/reshaping/content.go numbers the steps of an installation.

// InstallPartition reads a stream that ExportPartition has written, and makes a new
// physical partition of it in a replicated container. The new partition replaces all
// that the container has in its range. The range must be that of one physical
// partition of the container, or of several neighbours. The new partition has an id
// of its own, and the newest entry of the exported one. A crash leaves either the
// old partitions or the new one.
//
// Entries that are applied to the old partitions meanwhile are lost with them.
// Snapshots, scans and queries that have begun before get ErrReplaced in this range.
// Close waits for a running installation, so r must end.
//
// Errors: ErrInvalid for a stream of another kind, partition key, DefaultTTL, unique
// keys or range; *CorruptionError, with the offset, for a stream that is damaged or
// ends early; ErrClockSkew for a stream with times ahead of the clock. Errors of r
// are returned unchanged.
func (c *Container) InstallPartition(ctx context.Context, r io.Reader) (PartitionContent, error) {
	return c.install(ctx, nil, r)
}

// ReplacePartition is InstallPartition for a stream whose range is a part of that of physical
// partition id. What is left of the range becomes absent, as by Evict, in the same step. Errors:
// ErrNotFound if the container has no such partition, a *Refusal if it would have more than it can
// have; those of InstallPartition.
func (c *Container) ReplacePartition(ctx context.Context, id PartitionID, r io.Reader) (PartitionContent, error) {
	return c.install(ctx, &id, r)
}

// install installs a stream, in the place of a partition that is wider if id is not nil.
func (c *Container) install(ctx context.Context, id *PartitionID, r io.Reader) (PartitionContent, error) {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return PartitionContent{}, err
	}
	defer call.Leave()
	in := installation{c: c, db: c.db}
	if id != nil {
		if in.over = c.partition(*id); in.over == nil {
			return PartitionContent{}, c.noPartition(*id)
		}
	}
	if !c.def.Replicated {
		return PartitionContent{}, invalidf("InstallPartition: container %q is not replicated", c.name)
	}
	if r == nil {
		return PartitionContent{}, invalidf("InstallPartition: no reader is given")
	}
	source, err := transfer.NewReader(r)
	if err == nil {
		err = c.suits(source)
	}
	if err == nil {
		err = in.run(ctx, reshaping.ContentOf(source))
	}
	if err != nil {
		return PartitionContent{}, fmt.Errorf("install a partition: %w", err)
	}
	return PartitionContent{
		Partition: in.p.ID, Index: in.At.Index, Min: in.p.Range.Min.String(), Max: in.p.Range.Max.String(),
		Items: source.Items(), Bytes: source.Bytes(),
	}, nil
}

// Evict removes a physical partition of a replicated container from this store, with all of
// its items. An absent partition with the same range takes its place; it has a new id, and
// PartitionStats.Absent. Until InstallPartition replaces it, reads, scans, queries and feeds
// that come to the range fail with ErrNotHere, and so do ApplyAt, AppliedIndex and
// ExportPartition. Split divides an absent partition into two. A crash leaves either the old
// partition or the absent one.
//
// Errors: ErrNotFound if the container has no such partition, ErrInvalid if it is not
// replicated.
func (c *Container) Evict(ctx context.Context, id PartitionID) error {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	p := c.partition(id)
	switch {
	case p == nil:
		return c.noPartition(id)
	case !c.def.Replicated:
		return invalidf("Evict: container %q is not replicated", c.name)
	case p.Absent:
		return nil
	}
	in := installation{c: c, db: c.db}
	return in.run(ctx, reshaping.Content{Range: p.Range})
}

// here returns ErrNotHere if the partition is absent.
func (p *partition) here() error {
	if p.Absent {
		return fmt.Errorf("physical partition %d of container %q, [%s, %s): %w", p.ID, p.c.name, p.Range.Min, p.Range.Max, ErrNotHere)
	}
	return nil
}

// installation is a running InstallPartition, ReplacePartition or Evict.
type installation struct {
	reshaping.Content
	c    *Container
	db   *DB
	p    *partition
	rest []*partition // absent ones beside it
	over *partition   // the one that it replaces; nil: what lies in its range
	old  []*partition
}

// made returns the new partitions in key-space order.
func (in *installation) made() []*partition {
	all := append(in.rest, in.p)
	slices.SortFunc(all, func(a, b *partition) int { return a.Range.Min.Compare(&b.Range.Min) })
	return all
}

func (in *installation) run(ctx context.Context, content reshaping.Content) (err error) {
	in.Content = content
	old, err := in.replaced()
	if err != nil {
		return err
	}
	if err = in.take(); err != nil {
		return err
	}
	if in.Codec = segment.Compression(in.c.def.Compression); in.Codec != segment.None {
		in.Dict = in.c.family.CompactionDictionary(in.c.allRuns())
	}
	in.Claim, in.MostLen, in.Latest, in.Ahead = in.c.isClaim, maxItemBytes, in.db.latestForeign(), in.db.clockSkew
	err = in.Build(ctx, &in.p.Partition, physicals(in.rest)...) // step 2
	if err == nil {
		var ids []PartitionID
		for _, p := range old {
			ids = append(ids, p.ID)
		}
		j := in.c.newJob(ReshapeInstall, "", ids...)
		j.install = in
		j.update(func(progress *ReshapeProgress) {
			for _, p := range in.made() {
				progress.Children = append(progress.Children, p.ID)
			}
		})
		in.db.submit(j)
		err = j.Wait(context.WithoutCancel(ctx))
	}
	if err != nil {
		in.db.env.Discard(physicals(in.made()), errors.Is(err, ErrOutcomeUnknown))
	}
	return err
}

// suits returns why the container cannot take a stream, as far as its head tells.
func (c *Container) suits(source *transfer.Reader) error {
	h := &source.Head
	if h.At.Time > c.db.latestForeign() {
		return c.db.clockSkew("its newest entry", h.At.Time)
	}
	want := c.transferHead(source.Range)
	return h.Suits(&want, c.name)
}

// replaced returns the physical partitions that the new one replaces.
func (in *installation) replaced() ([]*partition, error) {
	parts := in.c.routing.Load().parts
	if in.over != nil {
		i := slices.Index(parts, in.over)
		if i < 0 {
			return nil, in.c.noPartition(in.over.ID)
		}
		if len(parts)+len(reshaping.Rest(in.over.Range, in.Range)) > maxPartitions {
			return nil, &Refusal{RefusedTooMany}
		}
		parts = parts[i : i+1]
	}
	first, n, err := reshaping.Replaced(physicals(parts), in.Range, in.over != nil)
	return parts[first : first+n], err
}

// take is step 1.
func (in *installation) take() error {
	db := in.db
	db.creating.Lock() // making a container relies on the next ids
	defer db.creating.Unlock()
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	e := db.storeManifest.state.Edit()
	id := PartitionID(e.NextPartition)
	wide := in.Range
	if in.over != nil {
		wide = in.over.Range
	}
	ranges := reshaping.Rest(wide, in.Range)
	e.NextPartition += uint32(1 + len(ranges))
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	in.p = in.c.newPartition(partmap.Entry{ID: id, Range: in.Range})
	for i, rng := range ranges {
		in.rest = append(in.rest, in.c.newPartition(partmap.Entry{ID: id + 1 + PartitionID(i), Range: rng}))
	}
	return nil
}

// allRuns returns the runs of the container's partitions.
func (c *Container) allRuns() (runs []*lsm.Run) {
	for _, p := range c.routing.Load().parts {
		runs = append(runs, p.Version.Load().Runs...)
	}
	return runs
}

// commit does steps 3 to 5. It runs as a job, so that no other job replaces
// partitions meanwhile.
func (in *installation) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := in.swap(ctx); err != nil {
		return err
	}
	in.c.divide()
	in.db.retire(in.old)
	return nil
}

// swap does steps 3 and 4.
func (in *installation) swap(ctx context.Context) (err error) {
	db, c := in.db, in.c
	if err = c.reshapeMu.Lock(ctx); err != nil {
		return err
	}
	defer c.reshapeMu.Unlock()
	if c.dropped.Load() {
		return c.gone()
	}
	if in.old, err = in.replaced(); err != nil {
		return err
	}
	// Flushes and compactions that wait for these locks find the partition dropped, and
	// throw their files away.
	for _, p := range in.old {
		p.Install.Lock()
		defer p.Install.Unlock()
	}
	r := reshape{db: db, c: c, from: in.old, to: in.made()}
	r.Succession = physical.Succession{Env: &db.env, Parents: physicals(in.old), Children: physicals(r.to)}
	r.Container, r.Plan = c.id, splitter.Plan{Kind: splitter.Install}
	for _, p := range r.to {
		r.IDs = append(r.IDs, r.Place(&p.Partition))
	}
	if err := r.makeRouting(); err != nil {
		return err
	}
	if err := r.store(); err != nil {
		return err
	}
	// From here on the installation only goes forward. Writes to the old partitions
	// since the commit point are lost with the partitions.
	r.Lock()
	defer r.Unlock()
	if err := r.FenceLocked(); err != nil {
		_ = db.uncertain(err) // this fails the store, if need be
	}
	for _, p := range r.to {
		p.Commit.Last = db.log.Appended()
	}
	r.inheritMeters()
	c.routing.Store(r.routing)
	for _, p := range in.old {
		p.EndLocked()
	}
	return nil
}
