package engine

import (
	"context"
	"iter"
	"runtime/trace"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/feed"
)

// Change is one change of an item. Its contents are safe to keep.
type Change struct {
	// Item is the item after the change. If the item was deleted or has expired, only
	// Key, ID, Seq and Modified are set; Modified is when that happened.
	Item
	Kind ChangeKind
	// Previous is the sequence of the version before, in a feed of all versions; 0: there
	// was none. The previous version of a ChangeCreated had expired, and no other change
	// reports that.
	Previous uint64

	batch *feed.Batch
}

// ChangeKind says what happened.
type ChangeKind uint8

// Kinds of changes.
const (
	// ChangeWritten: the item was written, whether or not it existed. A feed of latest
	// versions has only this kind.
	ChangeWritten = ChangeKind(feed.Written)
	// Of a feed of all versions:
	ChangeCreated  = ChangeKind(feed.Created)  // there was no item, or it had expired
	ChangeReplaced = ChangeKind(feed.Replaced) // there was an item
	ChangeDeleted  = ChangeKind(feed.Deleted)
	ChangeExpired  = ChangeKind(feed.Expired)
	// ChangeDeletedPartition: all items of the logical partition that were written before
	// are deleted. Only Key is set. The items have no changes of their own for that.
	ChangeDeletedPartition = ChangeKind(feed.DeletedPartition)
)

// String returns the kind in words.
func (k ChangeKind) String() string { return feed.Kind(k).String() }

// Position returns the position behind the change and everything that was shown before
// it: a feed from there goes on with the next change. The call is not cheap.
func (ch *Change) Position() ChangePosition {
	if ch.batch == nil {
		return ChangePosition{}
	}
	return ch.batch.Position(ch.Seq)
}

// ChangeOptions are the options of a feed. Nil means none.
type ChangeOptions struct {
	// Follow says that the feed does not end when it has shown the changes that were
	// there when the loop began. It waits for further changes until its context ends, and
	// ends with the context's error.
	Follow bool
	// AllVersions shows every write, also if it was overwritten since, and every deletion
	// and expiry. The container must have a ChangeRetention, and the position must be
	// younger than that. The feed shows an expiry when the store has noticed it, which is
	// soon after.
	AllVersions bool
	// Progress, if set, is called by the loop with the position of the feed whenever
	// everything visible has been shown: at the end, or before the feed waits.
	Progress func(ChangePosition)
	// Charge, if not nil, is increased by what the loop has cost, in request units, before
	// it shows what it has read: the reads, and 2.3 for each batch of a physical partition.
	Charge *float64
}

// Changes returns what was written to the items of a scope since a position. Within a
// logical partition changes come in the order of sequences; between logical partitions
// there is no order. Each item comes in its latest state, and once only unless it is
// written again. Items that were deleted or have expired do not come. So a feed from the
// start shows all items and keeps a copy of them up to date, except that it does not show
// deletions, nor an item that had expired when the feed passed it and is there again, since the
// clock was ahead or by SetDefaultTTL. A new feed from the start shows that.
//
// A change is shown when reads see it and no crash can undo it: the feed first has the
// log synced up to the change. Between the calls of the loop body a feed holds nothing:
// the body may take any time and may call the store. The feed goes on through splits,
// merges and moves of partitions.
//
// At most one error comes, as the last pair: ErrInvalid for a position of another
// container or scope, and for a scope OfBase of several keys; *PositionExpiredError, only with AllVersions; ErrClosed, also if
// the container is dropped; with Follow the error of ctx. Each loop over the returned
// sequence begins at from again.
func (c *Container) Changes(ctx context.Context, s Scope, from ChangePosition, o *ChangeOptions) iter.Seq2[Change, error] {
	begin := c.db.watch("change feed", c.name)
	return func(yield func(Change, error) bool) {
		if trace.IsEnabled() {
			defer trace.StartRegion(ctx, "cleave.changes").End()
		}
		if begin != nil {
			defer begin()()
		}
		c := c
		f, err := inNewest(c, func(state *Container) (*feed.Running, error) {
			c = state
			return c.beginFeed(ctx, s, from, o)
		})
		if err == nil {
			defer c.feeds.End(f)
			err = f.Run(func(ch feed.Change) bool { return yield(c.publicChange(&ch), nil) })
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

// publicChange returns a change as users see it. It has the bytes of ch.
func (c *Container) publicChange(ch *feed.Change) Change {
	out := Change{
		Kind: ChangeKind(ch.Kind), Previous: ch.Previous, batch: ch.Batch,
		Item: Item{Body: ch.Body, Meta: Meta{
			Key: keyOf(stringOf(ch.PK)), ID: stringOf(ch.ID), Seq: ch.Seq,
			Modified: time.UnixMilli(ch.Modified), Charge: cost.Read(len(ch.Body)),
		}},
	}
	if out.Kind < ChangeDeleted {
		out.ETag, out.Expires = ETag(ch.Seq), c.expires(out.Key, ch.Modified, ch.Expires)
	}
	return out
}
