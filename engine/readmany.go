package engine

import (
	"context"
	"errors"
	"iter"
)

// ItemIdentity names an item of a container.
type ItemIdentity struct {
	Key PartitionKey
	ID  string
}

// ReadManyResult is the answer to one request of a ReadMany.
type ReadManyResult struct {
	// Item is what Read returns. If the item does not exist, only Key, ID and Charge are set.
	Item
	Found bool // the item exists
}

// ReadMany reads items of any logical partitions. Each request has one result, in the
// order of the requests, also if its item does not exist or was requested before. Each item
// is read as Read reads it: all of them at one commit point is what a Snapshot shows. At
// most one error comes, as the last pair, for the first request without a result; those
// before it have theirs. The first read may be throttled; those behind it wait instead.
func (c *Container) ReadMany(ctx context.Context, items []ItemIdentity) iter.Seq2[ReadManyResult, error] {
	return c.readMany(ctx, items, func(i ItemIdentity, how admission) (Item, error) { return c.read(ctx, i.Key, i.ID, how, nil) })
}

// ReadMany is Container.ReadMany as of the snapshot.
func (s *Snapshot) ReadMany(ctx context.Context, items []ItemIdentity) iter.Seq2[ReadManyResult, error] {
	return s.c.readMany(ctx, items, func(i ItemIdentity, how admission) (Item, error) { return s.read(ctx, i.Key, i.ID, how, nil) })
}

func (c *Container) readMany(ctx context.Context, items []ItemIdentity, read func(ItemIdentity, admission) (Item, error)) iter.Seq2[ReadManyResult, error] {
	return func(yield func(ReadManyResult, error) bool) {
		how := mayRefuse
		for _, i := range items {
			it, err := read(i, how)
			if how == mayWait && errors.Is(err, ErrThrottled) {
				err = c.now().db.patiently(ctx, func() error { it, err = read(i, how); return err })
			}
			how = mayWait
			found := err == nil
			if err == ErrNotFound {
				it.Key, it.ID, err = i.Key, i.ID, nil
			}
			if err != nil {
				yield(ReadManyResult{}, err)
				return
			}
			if !yield(ReadManyResult{Item: it, Found: found}, nil) {
				return
			}
		}
	}
}
