package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// SplitOptions are the options of a split. Nil means none.
type SplitOptions struct {
	// At is the boundary to cut at: an effective partition key in hexadecimal digits, as
	// PartitionStats gives them. Empty: the boundary that halves the bytes best.
	At string
}

// Split cuts a physical partition in two, online, and returns the job that does so. The
// children have new ids. A logical partition is never divided: if it is all that the
// partition holds, the job ends with a *Refusal. Errors: ErrNotFound if the container
// has no such partition, ErrInvalid for the boundary.
func (c *Container) Split(ctx context.Context, id PartitionID, o *SplitOptions) (*ReshapeJob, error) {
	return c.reshape(ctx, ReshapeSplit, cmp.Or(o, &SplitOptions{}).At, id)
}

// Merge makes one physical partition of two neighbours, the lower one first,
// and returns the job that does so.
func (c *Container) Merge(ctx context.Context, left, right PartitionID) (*ReshapeJob, error) {
	return c.reshape(ctx, ReshapeMerge, "", left, right)
}

// MoveBoundary moves the boundary between two neighbours, the lower one first, to at, in
// hexadecimal digits. An empty at stands for the boundary that halves the bytes of both
// best. It returns the job that does so.
func (c *Container) MoveBoundary(ctx context.Context, left, right PartitionID, at string) (*ReshapeJob, error) {
	return c.reshape(ctx, ReshapeMove, at, left, right)
}

func (c *Container) reshape(ctx context.Context, kind ReshapeKind, at string, ids ...PartitionID) (*ReshapeJob, error) {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	if c.dropped.Load() {
		return nil, c.gone()
	}
	boundary, err := partmap.ParseEPK(at)
	if err != nil {
		return nil, fmt.Errorf("%w: boundary: %w", ErrInvalid, err)
	}
	if end := partmap.MaxEPK(); boundary.Compare(&end) == 0 {
		return nil, invalidf("boundary %s is the end of the key space: nothing lies behind it", at)
	}
	if c.def.Replicated && (kind != ReshapeSplit || at == "") {
		return nil, fmt.Errorf("container %q: only splits at a boundary that is given: %w", c.name, ErrReplicated)
	}
	for _, id := range ids {
		if c.partition(id) == nil {
			return nil, c.noPartition(id)
		}
	}
	j := c.newJob(kind, at, ids...)
	c.db.submit(j)
	return j, nil
}

// partition returns a physical partition by its id, nil if there is none.
func (c *Container) partition(id PartitionID) *partition {
	for _, p := range c.routing.Load().parts {
		if p.ID == id {
			return p
		}
	}
	return nil
}

func (c *Container) noPartition(id PartitionID) error {
	return fmt.Errorf("container %q has no physical partition %d: %w", c.name, id, ErrNotFound)
}

// splitLarge queues splits of the partitions that hold more than they should, except
// those whose split failed a moment ago.
func (db *DB) splitLarge(parts []*partition) {
	for _, p := range parts {
		if p.cutting.Left() <= 0 {
			db.splitIfLarge(p)
		}
	}
}

// splitIfLarge returns the automatic split that is queued for a partition. It queues one
// if the partition holds more than it should. nil: it does not, or it cannot be split
// yet.
func (db *DB) splitIfLarge(p *partition) *ReshapeJob {
	policy := splitter.Policy{MaxBytes: db.opts.MaxPartitionBytes}
	held := p.Version.Load().LiveBytes()
	if held <= policy.MaxBytes {
		p.refusedAt.Store(0) // what filled it then is gone
	}
	due := policy.Due(splitter.State{Bytes: held, Inherits: len(p.Inherited()) > 0, RefusedAt: p.refusedAt.Load()})
	if j := p.queued.Load(); j != nil || !due || p.Dropped.Load() {
		return j
	}
	return cmp.Or(p.queueSplit(nil), p.queued.Load())
}

// queueSplit queues an automatic split of the partition. where, if not nil, may set how
// the job chooses the boundary. It returns nil if a split is under way, or the container
// is replicated.
func (p *partition) queueSplit(where func(*ReshapeJob)) *ReshapeJob {
	if p.c.def.Replicated {
		return nil
	}
	j := p.c.newJob(ReshapeSplit, "", p.ID)
	j.auto = true
	if where != nil {
		where(j)
	}
	if !p.queued.CompareAndSwap(nil, j) {
		_ = j.end(context.Canceled)
		j.cancel()
		return nil
	}
	p.db.submit(j)
	return j
}
