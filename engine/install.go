package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// An installation goes through these steps:
//
//  1. The store manifest uses up the id of the new partition.
//  2. Its directory is made, and what the stream has is written to files there,
//     as in a flush; its manifest names them, the sequence and the entry.
//  3. While the sets of files of the partitions that it replaces stand still:
//     commit point: the store manifest names it in their place.
//  4. Under their commit locks fences end their streams, and the routing table
//     has the new one.
//  5. The directories of the others go when nobody reads through them.
//
// A crash before 3 leaves a directory that no manifest names; after it the
// partition is there, and what the log has of the others is passed over.

// InstallPartition reads what ExportPartition has written and puts it in the
// place of all that a replicated container has in that range, which must be that
// of one of its physical partitions, or of several neighbours. The new partition
// has another id, and comes to the entry that the other was at. A crash leaves
// what was there or what was installed.
//
// Entries that are applied to the old partitions meanwhile go with what was there.
// Snapshots, scans and queries that have begun before get ErrReplaced in this
// range. Errors: ErrInvalid for a stream of another partition key, unique keys or range;
// *CorruptionError, with the offset, for one that is damaged or ends early;
// ErrClockSkew for one with times ahead of the clock; those of r as they are. Close waits for the end of an installation, so r must
// come to one.
func (c *Container) InstallPartition(ctx context.Context, r io.Reader) (PartitionContent, error) {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return PartitionContent{}, err
	}
	defer call.Leave()
	if !c.def.Replicated {
		return PartitionContent{}, invalidf("InstallPartition: container %q is not replicated", c.name)
	}
	in := installation{c: c, db: c.db, source: stream.NewReader("stream of a partition", r)}
	if err := in.run(ctx); err != nil {
		return PartitionContent{}, fmt.Errorf("install a partition: %w", err)
	}
	return PartitionContent{
		Partition: in.p.id, Index: in.head.At.Index, Min: in.p.rng.Min.String(), Max: in.p.rng.Max.String(),
		Items: in.items, Bytes: in.source.Offset(),
	}, nil
}

// installation is one under way.
type installation struct {
	c      *Container
	db     *DB
	source *stream.Reader
	head   streamHead
	rng    partmap.Range
	latest int64 // time stamp that it may have
	p      *partition
	items  int64
	claims int64
	old    []*partition
}

func (in *installation) run(ctx context.Context) error {
	if err := in.readHead(); err != nil {
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
			ids = append(ids, p.id)
		}
		j := in.c.newJob(JobInstall, "", ids...)
		j.install = in
		j.update(func(p *Progress) { p.Children = []PartitionID{in.p.id} })
		in.db.submit(j)
		err = j.Wait(context.WithoutCancel(ctx))
	}
	if err == nil {
		return nil
	}
	releaseRuns(in.p.version.Load().runs)
	if !errors.Is(err, ErrOutcomeUnknown) { // else the next open finds out what is there
		in.db.remove("remove an unfinished partition", 0, func() error { return removeTree(in.db.fs, in.p.dir) })
	}
	return err
}

// corrupt is the error of a block that makes no sense.
func (in *installation) corrupt(format string, args ...any) error {
	return fault.Corrupt("stream of a partition", in.source.Offset(), format, args...)
}

// readHead reads what the stream is, and compares it with the container.
func (in *installation) readHead() error {
	kind, payload, err := in.source.Next()
	if err != nil {
		return in.early(err)
	}
	if kind != blockHead {
		return in.corrupt("the stream does not begin with what it is")
	}
	if err = manifest.Unmarshal(payload, &in.head, false); err != nil {
		return in.corrupt("the stream does not begin with what it is: %v", err)
	}
	h := &in.head
	if h.Format > streamFormat {
		return fmt.Errorf("stream of format %d, this program knows up to %d: %w", h.Format, streamFormat, ErrTooNew)
	}
	if in.rng.Min, err = partmap.EPKFromBytes(h.Min); err == nil {
		in.rng.Max, err = partmap.EPKFromBytes(h.Max)
	}
	switch {
	case err != nil || in.rng.Empty():
		return in.corrupt("no range")
	case h.Seq > maxForeignSeq || h.At.Index > maxForeignIndex:
		return in.corrupt("sequence %d, entry %d: at most %d and %d are counted on from", h.Seq, h.At.Index, uint64(maxForeignSeq), uint64(maxForeignIndex))
	case h.At.Index == 0 && h.At.Time != 0 || h.At.Index > 0 && h.At.Time <= 0:
		return in.corrupt("entry %d of the time %d", h.At.Index, h.At.Time)
	}
	if in.latest = in.db.latestForeign(); h.At.Time > in.latest {
		return in.db.clockSkew("its newest entry", h.At.Time)
	}
	want := in.c.streamHead(in.rng)
	if h.Kind != want.Kind || h.Key != want.Key || h.Levels != want.Levels || h.TTL != want.TTL || !slices.EqualFunc(h.Unique, want.Unique, slices.Equal) {
		return invalidf("it is of a container with kind %.32s, partition key %s, default TTL %v and unique keys %s; %q has %s, %s, %v and %v",
			h.Kind, manifest.Clip(h.Key), ttlFromManifest(h.TTL), manifest.Clip(fmt.Sprint(h.Unique)), in.c.name, want.Kind, want.Key, in.c.def.DefaultTTL, want.Unique)
	}
	return nil
}

// replaced returns the physical partitions that tile the range.
func (in *installation) replaced() ([]*partition, error) {
	var old []*partition
	for _, p := range in.c.routing.Load().parts {
		if p.rng.Overlaps(in.rng) {
			old = append(old, p)
		}
	}
	if first, last := old[0].rng.Min, old[len(old)-1].rng.Max; first.Compare(&in.rng.Min) != 0 || last.Compare(&in.rng.Max) != 0 {
		return nil, invalidf("its range [%s, %s) is not that of whole physical partitions here: split at its ends", in.rng.Min, in.rng.Max)
	}
	return old, nil
}

// take is step 1.
func (in *installation) take() error {
	db := in.db
	db.creating.Lock() // who makes a container counts on the next ids
	defer db.creating.Unlock()
	db.structure.Lock()
	defer db.structure.Unlock()
	e := db.structure.state.Edit()
	id := PartitionID(e.NextPartition)
	e.NextPartition++
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	in.p = in.c.newPartition(partmap.Entry{ID: id, Range: in.rng})
	return nil
}

// build is step 2.
func (in *installation) build(ctx context.Context) error {
	p := in.p
	if err := p.makeDirectory(); err != nil {
		return err
	}
	runs, err := in.writeItems(ctx)
	if err != nil {
		return err
	}
	v := *p.version.Load()
	v.setRuns(runs)
	p.version.Store(&v)
	at := applied{index: in.head.At.Index, time: in.head.At.Time}
	p.mu.lastSeq, p.mu.applied = in.head.Seq, at
	p.visible.Store(in.head.Seq)
	if err := p.storeFiles(runs, in.head.Seq, at, nil); err != nil {
		return err
	}
	return in.db.fs.SyncDir(manifest.PartitionsDir)
}

// writeItems writes the items of the stream to a run.
func (in *installation) writeItems(ctx context.Context) (runs []*run, err error) {
	out := in.p.newOutput(ctx, 0, nil, nil)
	defer out.abandon()
	if out.codec = in.c.def.Compression; out.codec != NoCompression {
		out.dict = in.c.mergeDictionary(in.c.allRuns())
	}
	var last item.KeyCopy
	var op operation
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		kind, payload, err := in.source.Next()
		if err != nil {
			return nil, in.early(err)
		}
		if kind == blockTail {
			var tail streamTail
			if manifest.Unmarshal(payload, &tail, false) != nil || tail.Items != in.items || tail.Claims != in.claims {
				return nil, in.corrupt("the stream has %d items and %d claims, and says otherwise", in.items, in.claims)
			}
			break
		}
		if kind != blockItems {
			return nil, in.corrupt("block of unknown kind %d", kind)
		}
		for len(payload) > 0 {
			if payload, err = decodeOperation(payload, true, &op); err != nil {
				return nil, in.corrupt("item %d: %v", in.items, err)
			}
			claim := op.ver.Flags == item.Claim
			switch {
			case claim != in.c.isClaim(&op.key):
				return nil, in.corrupt("item %d: no claim of this container", in.items)
			case op.at.index != 0 || op.ver.Deleted() || op.ver.Seq > in.head.Seq || len(op.ver.Body) > maxItemBytes:
				return nil, in.corrupt("item %d: no item of this partition", in.items)
			case !in.rng.Contains(&op.epk) || op.epk.Levels() != in.c.levels():
				return nil, in.corrupt("item %d: key %x lies outside of the partition", in.items, op.key.EPK)
			case in.items+in.claims > 0 && item.Compare(&last.Key, &op.key) >= 0:
				return nil, in.corrupt("item %d: not in order", in.items)
			}
			if op.ver.Modified > in.latest {
				return nil, in.db.clockSkew(fmt.Sprintf("item %d", in.items), op.ver.Modified)
			}
			if err := out.add(&op.key, &op.ver); err != nil {
				return nil, err
			}
			last.Set(&op.key)
			if claim {
				in.claims++
			} else {
				in.items++
			}
		}
	}
	if _, _, err := in.source.Next(); err != io.EOF {
		return nil, in.early(err)
	}
	if out.items > 0 {
		r, err := out.finish()
		if err != nil {
			return nil, err
		}
		runs = []*run{r}
	}
	out.published = true // from here on its files are removed with the directory
	return runs, nil
}

// early turns an end that comes too early, or not, into an error.
func (in *installation) early(err error) error {
	if err == nil || err == io.EOF {
		return in.corrupt("the stream does not end where it says")
	}
	return err
}

// allRuns returns the runs of the container's partitions.
func (c *Container) allRuns() (runs []*run) {
	for _, p := range c.routing.Load().parts {
		runs = append(runs, p.version.Load().runs...)
	}
	return runs
}

// commit does steps 3 to 5. It runs as a job, so that no partition is replaced
// otherwise.
func (in *installation) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := in.swap(); err != nil {
		return err
	}
	in.c.divide()
	in.db.retire(in.old)
	in.db.endStreams(in.old)
	return nil
}

// swap does steps 3 and 4.
func (in *installation) swap() (err error) {
	db, c := in.db, in.c
	c.shape.Lock()
	defer c.shape.Unlock()
	if c.dropped.Load() {
		return c.gone()
	}
	if in.old, err = in.replaced(); err != nil {
		return err
	}
	// What flushes and merges in these partitions have made is thrown away.
	for _, p := range in.old {
		p.install.Lock()
		defer p.install.Unlock()
	}
	r := reshape{db: db, c: c, parents: in.old, children: []*partition{in.p}, plan: splitter.Plan{Kind: splitter.Install}}
	m := manifest.Partition{ID: uint32(in.p.id), Container: c.id, Min: slices.Clone(in.rng.Min.Bytes()), Max: slices.Clone(in.rng.Max.Bytes())}
	for _, p := range in.old {
		m.Parents = append(m.Parents, uint32(p.id))
		in.p.parents = append(in.p.parents, p.id)
		in.p.born = max(in.p.born, p.born+1)
	}
	r.ids = []manifest.Partition{m}
	if err := r.makeRouting(); err != nil {
		return err
	}
	if err := r.commit(); err != nil {
		return err
	}
	// From here on it only goes forward. What was written to the old partitions
	// since the commit point goes with the rest of them.
	r.lockParents()
	defer r.unlockParents()
	for _, p := range in.old {
		if err := r.appendFence(p); err != nil {
			_ = db.uncertain(err) // it is told of the store
		}
	}
	in.p.mu.last = db.log.Appended()
	r.inheritMeters()
	c.raiseEntryTime(in.head.At.Time)
	c.routing.Store(r.routing)
	for _, p := range in.old {
		p.dropped.Store(true)
	}
	return nil
}
