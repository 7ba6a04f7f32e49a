package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/meter"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/throughput"
)

// ErrThrottled is what a *ThrottledError matches.
var ErrThrottled = throughput.ErrThrottled

// ThrottledError says that a physical partition has consumed more than its share of the
// container's throughput or, if Key is valid, that the logical partition Key has consumed
// more than its limit. It comes as a *ThrottledError. Nothing was done, and a call after
// RetryAfter is admitted.
//
//	Partition  partmap.PartitionID
//	Key        PartitionKey
//	RetryAfter time.Duration // until it admits the next operation, unless others come first
type ThrottledError = throughput.ThrottledError

// SetThroughput provisions the container with perSecond request units per second; 0:
// unlimited. They are divided evenly over its physical partitions, or in the proportions
// that Redistribute has left. The change is durable when SetThroughput returns nil, and
// holds at once. If even parts are above Limits.PartitionThroughput the container splits
// until they are not. No partition ever has more than that limit. Less throughput merges
// nothing. Errors: ErrInvalid, those of a full or failed disk, ErrReadOnly, ErrClosed.
func (c *Container) SetThroughput(ctx context.Context, perSecond float64) error {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err = throughput.Check(perSecond, c.def.Limits.PartitionThroughput, maxPartitions); err != nil {
		return invalidf("%v", err)
	}
	if err = c.change(func(m *manifest.Container) error { m.Throughput = perSecond; return nil }); err != nil {
		return err
	}
	c.splitForThroughput()
	return nil
}

// change makes a change of the container's manifest durable.
func (c *Container) change(of func(*manifest.Container) error) error {
	return c.provide(func(e *manifest.Edit) error {
		e.Containers = append(e.Containers, *c.db.storeManifest.state.Container(c.id))
		return of(&e.Containers[0])
	})
}

// Redistribute sets the RU/s of the targets, which are physical partitions of the
// container. The sources give up in equal parts what the targets gain, or get what the
// targets lose. Without targets all partitions have equal parts again. The change holds
// at once, and is durable when Redistribute returns nil. The proportions stay:
// SetThroughput multiplies the parts, and children of a split share the part of their
// parent.
//
// Errors: ErrNotFound if a partition does not exist; ErrInvalid if the container has no
// throughput, if a partition is target and source, or if a partition would have less
// than 1 RU/s or be given more than Limits.PartitionThroughput; those of
// SetThroughput.
func (c *Container) Redistribute(ctx context.Context, targets map[PartitionID]float64, sources ...PartitionID) error {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	return c.provide(func(e *manifest.Edit) error {
		for m := range c.listedLocked() {
			e.Partitions = append(e.Partitions, *m)
		}
		err := throughput.Redistribute(e.Partitions, math.Float64frombits(c.throughput.Load()), c.def.Limits.PartitionThroughput, targets, sources)
		if missing, ok := errors.AsType[throughput.MissingError](err); ok {
			return c.noPartition(PartitionID(missing))
		} else if err != nil {
			return invalidf("container %q: %v", c.name, err)
		}
		return nil
	})
}

// provide applies change to an edit of the store manifest, stores it, and divides the
// container's throughput anew.
func (c *Container) provide(change func(*manifest.Edit) error) error {
	db := c.db
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if c.dropped.Load() {
		return c.gone()
	}
	e := db.storeManifest.state.Edit()
	if err := change(e); err != nil {
		return err
	}
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	m := db.storeManifest.state.Container(c.id)
	c.throughput.Store(math.Float64bits(m.Throughput))
	c.limitKeys(m)
	c.divideLocked()
	return nil
}

// divide gives each partition its share of the throughput.
func (c *Container) divide() {
	c.db.storeManifest.Lock()
	defer c.db.storeManifest.Unlock()
	c.divideLocked()
}

// divideLocked is divide with structure locked. A partition keeps its balance.
func (c *Container) divideLocked() {
	perSecond := math.Float64frombits(c.throughput.Load())
	parts := c.routing.Load().parts
	if perSecond == 0 {
		for _, p := range parts {
			p.meter.Store(nil)
		}
		return
	}
	shares := c.sharesLocked()
	all := 0.0
	for _, p := range parts {
		all += shares[p.ID]
	}
	now := c.db.uptime()
	for _, p := range parts {
		rate := shares.Rate(p.ID, perSecond, all, c.def.Limits.PartitionThroughput)
		if m := p.meter.Load(); m == nil {
			p.meter.Store(meter.New(rate, !c.def.NoBurst, now, 0))
		} else if m.Rate() != rate {
			p.meter.Store(m.At(rate, !c.def.NoBurst, now))
		}
	}
}

// shares is sharesLocked with the store manifest unlocked.
func (c *Container) shares() throughput.Shares {
	c.db.storeManifest.Lock()
	defer c.db.storeManifest.Unlock()
	return c.sharesLocked()
}

// sharesLocked returns the weights by which partitions share the throughput. The store
// manifest is locked.
func (c *Container) sharesLocked() throughput.Shares { return throughput.SharesOf(c.listedLocked()) }

// listedLocked yields the container's partitions as the store manifest lists them.
// structure is locked.
func (c *Container) listedLocked() iter.Seq[*manifest.Partition] {
	first := uint32(math.MaxUint32)
	for _, p := range c.routing.Load().parts {
		first = min(first, uint32(p.ID)) // partitions that replace others have higher numbers
	}
	rest := c.db.storeManifest.state.PartitionsFrom(first)
	return func(yield func(*manifest.Partition) bool) {
		for i := range rest {
			if rest[i].Container == c.id && !yield(&rest[i]) {
				return
			}
		}
	}
}

// inheritMeters divides the rates and balances of the parents evenly among the children.
func (r *reshape) inheritMeters() {
	var parents []*meter.Meter
	for _, p := range r.from {
		parents = append(parents, p.meter.Load())
	}
	for i, m := range meter.Heirs(parents, len(r.to), !r.c.def.NoBurst, r.db.uptime()) {
		r.to[i].meter.Store(m)
	}
}

// uptime is the clock of meters.
func (db *DB) uptime() time.Duration {
	if db.opts.env != nil {
		return db.opts.elapsed()
	}
	return db.opts.clock().Sub(db.opened)
}

// patiently calls do again while it is refused because throughput is consumed.
func (db *DB) patiently(ctx context.Context, do func() error) error {
	for err := do(); err != nil; err = do() {
		if err = db.untilAdmitted(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// mostWait is how long a call waits for throughput before it asks again: limits may have changed.
const mostWait = time.Second

// untilAdmitted waits as long as a *ThrottledError says, or mostWait, and returns other errors. Loads
// and scans that have begun call it. They hold no lock, file or memtable meanwhile. But
// what a batch of a load has applied waits with it, and versions that a scan can see are
// kept.
func (db *DB) untilAdmitted(ctx context.Context, err error) error {
	throttled, ok := errors.AsType[*ThrottledError](err)
	if !ok {
		return err
	}
	if db.opts.pause != nil {
		db.opts.pause(throttled.RetryAfter)
		return nil
	}
	err = pacing.Wait(ctx, min(throttled.RetryAfter, mostWait), db.work.Context().Done())
	if err == pacing.ErrEnded {
		err = ErrClosed
	}
	return err
}

// splitForThroughput queues splits until even parts of the throughput are within the
// limit of a partition.
func (c *Container) splitForThroughput() {
	for c.queueSplits() && c.db.opts.manual {
	}
}

// queueSplits queues the splits that are missing for the throughput, of the partitions
// with the largest shares, of equal ones the largest. Each is split at most once. It
// reports whether it queued any.
func (c *Container) queueSplits() (some bool) {
	missing := throughput.Partitions(math.Float64frombits(c.throughput.Load()), c.def.Limits.PartitionThroughput)
	if missing == 0 {
		return false
	}
	parts := slices.Clone(c.routing.Load().parts)
	missing -= len(parts)
	for _, p := range parts {
		if p.queued.Load() != nil {
			missing--
		}
	}
	if missing <= 0 {
		return false
	}
	shares := c.shares()
	slices.SortStableFunc(parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(shares[b.ID], shares[a.ID]), cmp.Compare(b.Version.Load().LiveBytes(), a.Version.Load().LiveBytes()),
			cmp.Compare(b.Span.Hi-b.Span.Lo, a.Span.Hi-a.Span.Lo))
	})
	for _, p := range parts {
		if missing > 0 && !p.Dropped.Load() && p.Lost == nil && p.cutting.Left() <= 0 && p.queueSplit(func(j *ReshapeJob) { j.midpoint = true }) != nil {
			missing--
			some = true
		}
	}
	return some
}
