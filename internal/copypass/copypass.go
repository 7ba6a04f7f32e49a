// Package copypass brings the items of a container to another one with another partition
// key, in passes. Each pass takes a snapshot of the source, and makes the destination
// equal to it:
//
//   - The first pass does not know what the destination has. It removes the items that
//     the source does not have with the same contents, then writes those that are
//     missing.
//   - Each further pass goes over the newest versions above the sequence of the snapshot
//     before, tombstones included. No compaction drops them while that snapshot is held. An
//     item read as of that snapshot gives its key in the destination. So the pass can
//     remove it there if it was deleted or its new key has changed.
//
// The document of an item has both its keys. So it says which item of the source an item
// of the destination comes from.
//
// Whether an item has expired depends on the clock of the moment, which may be wrong. A pass
// comes to an item once, and later ones go on behind it. So what a pass does must not depend on
// that moment. All views show items that have expired too, those of the destination as well:
// else a pass would leave an old state there that it does not see. Items are copied with the
// time at which they expire, by which the destination hides them and drops them itself. After
// a crash the first pass compares both by the same rule.
//
// The exception is what compactions may drop (Source.Purgeable). Two clocks agree that it has
// expired since a grace period, and it may be missing in the source by the next moment. A pass
// takes it for deleted. So it does no harm that the views show such an item or do not, and no
// item is in the way of another one for longer than that.
//
// Invariants:
//
//  1. After a pass without an error the destination equals the snapshot, except for items
//     that compactions may drop. After an error it is between two snapshots: the next pass
//     must be a first pass.
//  2. An item of the destination is removed only if the item of the source that it comes
//     from is gone, or has another key there.
//  3. Two items of the source that would become one are a CollisionError, unless this pass
//     also sees that one of them is gone.
//
// A Job makes the passes of one copy, and holds the snapshot that the destination equals. A
// Pass serves one goroutine. There are no locks.
package copypass

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/partmap"
)

// Item is an item, or what is left of one. Its memory is valid until the next call.
type Item struct {
	Key     partmap.Key
	ID      string // empty: the logical partition was deleted
	Body    []byte // empty: the item was deleted
	Expires int64  // milliseconds; 0: never
}

// View is what the source is at one sequence. It shows items that have expired too.
type View interface {
	// Read returns an item, with its document appended to buf.
	Read(ctx context.Context, key partmap.Key, id string, buf []byte) (it Item, found bool, err error)
	// Scan returns the items of a logical partition.
	Scan(ctx context.Context, key partmap.Key) iter.Seq2[Item, error]
}

// Source is the container that is copied.
type Source interface {
	// KeyOf returns the partition key that a document has in the source.
	KeyOf(doc []byte) (partmap.Key, error)
	// Purgeable says whether compactions may drop an item that expires at this time. It
	// says the same throughout a pass.
	Purgeable(expires int64) bool
}

// Destination is the container that is copied into. It shows items that have expired too.
type Destination interface {
	// Read is View.Read of what there is now.
	Read(ctx context.Context, key partmap.Key, id string, buf []byte) (it Item, found bool, err error)
	// All returns the items that there are when it begins.
	All(ctx context.Context) iter.Seq2[Item, error]
	// KeyOf returns the partition key that a document has in the destination. Put writes
	// the document that was given to the last call with take set.
	KeyOf(doc []byte, take bool) (partmap.Key, error)
	Put(ctx context.Context, expires int64) error
	Remove(ctx context.Context, key partmap.Key, id string) error
}

// CollisionError says that two items with one id, of different logical partitions, would
// become one. It matches fault.ErrExists.
type CollisionError struct {
	ID   string
	Key  partmap.Key    // the new one
	From [2]partmap.Key // the present ones
}

// Error implements error.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("item %q of partition key %s and that of %s: both would be in %s", e.ID, e.From[0], e.From[1], e.Key)
}

// Is matches fault.ErrExists.
func (e *CollisionError) Is(target error) bool { return target == fault.ErrExists }

// Pass makes a destination equal to one snapshot of its source.
type Pass struct {
	Src     Source
	Dst     Destination
	At      View // the source as of the snapshot before; nil: this is a first pass
	Next    View // the source as of the snapshot of the pass
	Copied  *int64
	Removed *int64

	buf, former []byte
}

// Weed removes items from the destination that the source does not have with the same
// contents. A first pass begins with it.
func (w *Pass) Weed(ctx context.Context) error {
	for have, err := range w.Dst.All(ctx) {
		if err != nil {
			return err
		}
		origin, err := w.Src.KeyOf(have.Body)
		if err != nil {
			return err
		}
		want, found, err := w.Next.Read(ctx, origin, have.ID, w.former[:0])
		if err != nil {
			return err
		}
		if found {
			w.former = want.Body
			if Same(&want, &have) {
				continue
			}
		}
		if err := w.remove(ctx, have.Key, have.ID); err != nil {
			return err
		}
	}
	return nil
}

// Same says whether an item is the copy of another one.
func Same(a, b *Item) bool { return bytes.Equal(a.Body, b.Body) && a.Expires == b.Expires }

// Change brings an item of the source, as the snapshot of the pass has it, to the
// destination. The item has changed since the snapshot before.
func (w *Pass) Change(ctx context.Context, now *Item) error {
	if now.ID == "" {
		return w.emptied(ctx, now.Key)
	}
	gone := len(now.Body) == 0 || w.purgeable(now)
	var key partmap.Key
	var err error
	if !gone {
		if key, err = w.Dst.KeyOf(now.Body, true); err != nil {
			return refused(now, err)
		}
	}
	if w.At != nil {
		if err = w.leave(ctx, now, key, gone); err != nil {
			return err
		}
	}
	if gone {
		return nil
	}
	have, found, err := w.Dst.Read(ctx, key, now.ID, w.buf[:0])
	if err != nil {
		return err
	}
	if found {
		w.buf = have.Body
		if Same(now, &have) {
			return nil
		}
		if err = w.collides(ctx, now, &have); err != nil {
			return err
		}
	}
	if err := w.Dst.Put(ctx, now.Expires); err != nil {
		return refused(now, err)
	}
	*w.Copied++
	return nil
}

// purgeable says whether compactions may drop an item of the source, as it has expired.
func (w *Pass) purgeable(it *Item) bool { return it.Expires != 0 && w.Src.Purgeable(it.Expires) }

// leave removes an item from the key that it had in the destination as of the snapshot
// before, if its key has changed or the item is gone.
func (w *Pass) leave(ctx context.Context, now *Item, key partmap.Key, gone bool) error {
	former, found, err := w.At.Read(ctx, now.Key, now.ID, w.former[:0])
	if err != nil || !found {
		return err // there was no item then, or it and its copy may be dropped
	}
	w.former = former.Body
	old, err := w.Dst.KeyOf(former.Body, false)
	if err != nil || !gone && old == key {
		return err
	}
	have, found, err := w.Dst.Read(ctx, old, now.ID, w.buf[:0])
	if err != nil || !found {
		return err
	}
	w.buf = have.Body
	// Another item may have taken this key in this pass.
	if origin, err := w.Src.KeyOf(have.Body); err != nil || origin != now.Key {
		return err
	}
	return w.remove(ctx, old, now.ID)
}

// emptied removes the items that were deleted with their logical partition in the source.
func (w *Pass) emptied(ctx context.Context, key partmap.Key) error {
	if w.At == nil {
		return nil // Weed has removed them
	}
	for former, err := range w.At.Scan(ctx, key) {
		if err != nil {
			return err
		}
		_, found, err := w.Next.Read(ctx, key, former.ID, nil)
		if err != nil {
			return err
		}
		if found {
			continue // the item was written again, which is a change of its own
		}
		if err := w.leave(ctx, &former, partmap.Key{}, true); err != nil {
			return err
		}
	}
	return nil
}

// collides returns a CollisionError if have, the item in the destination, comes from
// another item of the source than now, and that item still exists, for longer than until the
// next compaction, and still has this key.
func (w *Pass) collides(ctx context.Context, now, have *Item) error {
	origin, err := w.Src.KeyOf(have.Body)
	if err != nil || origin == now.Key {
		return err
	}
	other, found, err := w.Next.Read(ctx, origin, have.ID, w.former[:0])
	if err != nil || !found || w.purgeable(&other) {
		return err // not found: this pass finds, or has found, that it was deleted
	}
	w.former = other.Body
	key, err := w.Dst.KeyOf(other.Body, false)
	if err != nil || key != have.Key {
		return err
	}
	return &CollisionError{ID: now.ID, Key: have.Key, From: [2]partmap.Key{now.Key, origin}}
}

// remove deletes an item of the destination.
func (w *Pass) remove(ctx context.Context, key partmap.Key, id string) error {
	err := w.Dst.Remove(ctx, key, id)
	if err == nil {
		*w.Removed++
	}
	return err
}

// refused adds the item of the source to the error with which the destination refused it.
func refused(it *Item, err error) error {
	return fmt.Errorf("item %q of partition key %s: %w", it.ID, it.Key, err)
}
