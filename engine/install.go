package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/splitter"
)

// An installation goes through these steps:
//
//  1. The store manifest uses up the id of the new partition.
//  2. The new partition gets a directory. The items of the stream are written to
//     files there, as in a flush. Its manifest names the files, the sequence and
//     the entry.
//  3. The install locks of the old partitions are taken, so that their sets of files
//     do not change. Commit point: the store manifest names the new partition in
//     their place.
//  4. Under the commit locks of the old partitions, fences end their streams, and
//     the new partition takes their place in the routing table.
//  5. The directories of the old partitions are removed when the last reader has
//     left them.
//
// A crash before 3 leaves a directory that no manifest names. After a crash behind
// 3, the new partition is there, and the next open ignores the log records of the
// old ones.

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
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return PartitionContent{}, err
	}
	defer call.Leave()
	if !c.def.Replicated {
		return PartitionContent{}, invalidf("InstallPartition: container %q is not replicated", c.name)
	}
	if r == nil {
		return PartitionContent{}, invalidf("InstallPartition: no reader is given")
	}
	in := installation{c: c, db: c.db}
	if err := in.run(ctx, r); err != nil {
		return PartitionContent{}, fmt.Errorf("install a partition: %w", err)
	}
	return PartitionContent{
		Partition: in.p.ID, Index: in.source.Head.At.Index, Min: in.p.Range.Min.String(), Max: in.p.Range.Max.String(),
		Items: in.source.Items(), Bytes: in.source.Bytes(),
	}, nil
}

// installation is a running InstallPartition.
type installation struct {
	c      *Container
	db     *DB
	source *transfer.Reader
	latest int64 // the highest time stamp that the stream may have
	p      *partition
	old    []*partition
}

func (in *installation) run(ctx context.Context, r io.Reader) (err error) {
	if in.source, err = transfer.NewReader(r); err != nil {
		return err
	}
	if err = in.compare(&in.source.Head); err != nil {
		return err
	}
	old, err := in.replaced()
	if err != nil {
		return err
	}
	if err = in.take(); err != nil {
		return err
	}
	if err = in.build(ctx); err == nil {
		var ids []PartitionID
		for _, p := range old {
			ids = append(ids, p.ID)
		}
		j := in.c.newJob(ReshapeInstall, "", ids...)
		j.install = in
		j.update(func(p *ReshapeProgress) { p.Children = []PartitionID{in.p.ID} })
		in.db.submit(j)
		err = j.Wait(context.WithoutCancel(ctx))
	}
	if err != nil {
		in.db.discard([]*partition{in.p}, errors.Is(err, ErrOutcomeUnknown))
	}
	return err
}

// compare compares the head of the stream with the container.
func (in *installation) compare(h *transfer.Head) error {
	if in.latest = in.db.latestForeign(); h.At.Time > in.latest {
		return in.db.clockSkew("its newest entry", h.At.Time)
	}
	if want := in.c.transferHead(in.source.Range); !h.Suits(&want) {
		return invalidf("it is of a container with kind %.32s, partition key %s, default TTL %v and unique keys %s; %q has %s, %s, %v and %v",
			h.Kind, manifest.Clip(h.Key), definition.Duration(h.TTL), manifest.Clip(fmt.Sprint(h.Unique)), in.c.name, want.Kind, want.Key, in.c.def.DefaultTTL, want.Unique)
	}
	return nil
}

// replaced returns the physical partitions that the new one replaces. It refuses a
// range that does not begin and end with them.
func (in *installation) replaced() ([]*partition, error) {
	var old []*partition
	for _, p := range in.c.routing.Load().parts {
		if p.Range.Overlaps(in.source.Range) {
			old = append(old, p)
		}
	}
	if first, last := old[0].Range.Min, old[len(old)-1].Range.Max; first.Compare(&in.source.Range.Min) != 0 || last.Compare(&in.source.Range.Max) != 0 {
		return nil, invalidf("its range [%s, %s) is not that of whole physical partitions here: split at its ends", in.source.Range.Min, in.source.Range.Max)
	}
	return old, nil
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
	e.NextPartition++
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	in.p = in.c.newPartition(partmap.Entry{ID: id, Range: in.source.Range})
	return nil
}

// build is step 2.
func (in *installation) build(ctx context.Context) error {
	p := in.p
	if err := storedir.MakePartition(p.db.env.FS, p.Dir); err != nil {
		return err
	}
	runs, err := in.writeItems(ctx)
	if err != nil {
		return err
	}
	v := *p.Version.Load()
	v.SetRuns(runs)
	p.Version.Store(&v)
	at := in.source.Head.At
	p.Commit.LastSeq, p.Commit.Applied = in.source.Head.Seq, at
	p.Visible.Store(in.source.Head.Seq)
	if err := p.StoreFiles(runs, in.source.Head.Seq, at, nil); err != nil {
		return err
	}
	return in.db.env.FS.SyncDir(manifest.PartitionsDir)
}

// writeItems writes the items of the stream to a run.
func (in *installation) writeItems(ctx context.Context) (runs []*lsm.Run, err error) {
	out := in.p.NewOutput(ctx, 0, nil, nil)
	defer out.Abandon()
	if out.Codec = segment.Compression(in.c.def.Compression); out.Codec != segment.None {
		out.Dict = in.c.family.CompactionDictionary(in.c.allRuns())
	}
	var op logrecord.Operation
	for n := 1; ; n++ {
		if err := in.source.Next(ctx, &op); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		switch claim := op.Version.Flags == item.Claim; {
		case claim != in.c.isClaim(&op.Key):
			return nil, in.source.Refuse("no claim of this container")
		case len(op.Version.Body) > maxItemBytes:
			return nil, in.source.Refuse("no item of this partition")
		case op.Version.Modified > in.latest:
			return nil, in.db.clockSkew(fmt.Sprintf("item %d", n), op.Version.Modified)
		}
		if err := out.Add(&op.Key, &op.Version); err != nil {
			return nil, err
		}
	}
	if out.Items > 0 {
		r, err := out.Finish()
		if err != nil {
			return nil, err
		}
		runs = []*lsm.Run{r}
	}
	out.Published = true // from here on its files are removed with the directory
	return runs, nil
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
	if err := in.swap(); err != nil {
		return err
	}
	in.c.divide()
	in.db.retire(in.old)
	return nil
}

// swap does steps 3 and 4.
func (in *installation) swap() (err error) {
	db, c := in.db, in.c
	c.reshapeMu.Lock()
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
	r := reshape{db: db, c: c, from: in.old, to: []*partition{in.p}}
	r.Succession = physical.Succession{Env: &db.env, Parents: physicals(in.old), Children: physicals(r.to)}
	r.Container, r.Plan = c.id, splitter.Plan{Kind: splitter.Install}
	m := manifest.Partition{ID: uint32(in.p.ID), Container: c.id, Min: slices.Clone(in.source.Range.Min.Bytes()), Max: slices.Clone(in.source.Range.Max.Bytes())}
	for _, p := range in.old {
		m.Parents = append(m.Parents, uint32(p.ID))
		in.p.Parents = append(in.p.Parents, p.ID)
		in.p.InstallEpoch = max(in.p.InstallEpoch, p.InstallEpoch+1)
	}
	r.IDs = []manifest.Partition{m}
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
	in.p.Commit.Last = db.log.Appended()
	r.inheritMeters()
	c.family.EntryTime.Raise(in.source.Head.At.Time)
	c.routing.Store(r.routing)
	for _, p := range in.old {
		p.EndLocked()
	}
	return nil
}
