package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// Change is what happened to an item. Its contents are safe to keep.
type Change struct {
	// Item is the item as the change left it; of one that is gone only Key, ID,
	// Seq and Modified, when that happened, are set.
	Item
	Kind ChangeKind
	// Previous is the sequence of the version that was there before, in a feed of
	// all versions; 0: there was none. That of ChangeCreated had expired: this is
	// then the only change to tell of it.
	Previous uint64

	batch *changeBatch
}

// ChangeKind says what happened.
type ChangeKind uint8

// Kinds of changes.
const (
	// ChangeWritten: the item was written, whether or not it existed. Of a feed
	// of latest versions all are.
	ChangeWritten ChangeKind = iota
	// Of a feed of all versions:
	ChangeCreated  // there was no item, or it had expired
	ChangeReplaced // there was one
	ChangeDeleted
	ChangeExpired
	// ChangeDeletedPartition: all items of the logical partition, of which only
	// the Key is set, that were written before are deleted. They have no changes
	// of their own for that.
	ChangeDeletedPartition
)

var changeKindNames = [...]string{"written", "created", "replaced", "deleted", "expired", "partition deleted"}

// String returns a word.
func (k ChangeKind) String() string {
	if int(k) >= len(changeKindNames) {
		return fmt.Sprintf("change kind %d", uint8(k))
	}
	return changeKindNames[k]
}

// changeBatch is what the changes of a batch have in common.
type changeBatch struct {
	position Position
	entry    int // of the position, that the batch is of
}

// Position returns the place behind the change and everything that was shown
// before it: a feed from there shows what would have come next. It is not cheap.
func (ch *Change) Position() Position {
	if ch.batch == nil {
		return Position{}
	}
	p := ch.batch.position
	p.entries = slices.Clone(p.entries)
	p.entries[ch.batch.entry].seq = ch.Seq
	p.entries = joined(p.entries)
	return p
}

// ChangeOptions are the options of a feed. Nil means none.
type ChangeOptions struct {
	// Follow says that the feed does not end with what is there when the loop
	// begins, but waits for changes until its context ends, with that error.
	Follow bool
	// AllVersions shows every write, also what was overwritten since, and what
	// went away: deleted or expired. The container must have a ChangeRetention, and
	// the position be younger than that. An item counts as expired when the store
	// has noticed, soon after.
	AllVersions bool
	// Progress, if set, is called by the loop with the position of the feed
	// whenever everything that was visible is shown: at the end, or before the
	// feed waits.
	Progress func(Position)
}

// Changes returns what was written to the items of a scope since a position, in
// the order of sequences in each logical partition; logical partitions come in no
// particular order beside each other. Each item comes at its latest state, once
// unless it is written again; a deleted or expired one does not come. So a feed
// from the start shows all items, and keeps a copy of them up to date but for
// what is deleted.
//
// A change is shown when reads see it and no crash can undo it: the feed has the
// log synced up to there first. A feed holds nothing between the calls of the
// loop body, which may take as long as it likes and may call the store; it goes on
// through splits, merges and moves of partitions.
//
// At most one error comes, as the last pair: ErrInvalid for a position of another
// container or scope; *PositionExpiredError, only with AllVersions; ErrClosed, also if the container is dropped; with
// Follow the error of ctx. Each loop over the sequence begins at from again.
func (c *Container) Changes(ctx context.Context, s Scope, from Position, o *ChangeOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		f, err := c.newFeed(ctx, s, from, o)
		if err == nil {
			defer f.close()
			err = f.run(yield)
		}
		if err != nil && err != errStopped {
			yield(Change{}, err)
		}
	}
}
