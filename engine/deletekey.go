package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/writebatch"
)

// A logical partition is deleted by one version: the partition tombstone. Its key has no
// id and so sorts before the items. It deletes every item of the partition with a lower
// sequence. It is written, logged, flushed, compacted and moved like the tombstone of an
// item. A read asks the sources of a partition from new to old; the first one that has
// the item or the partition tombstone decides. Sources without partition tombstones are
// not searched for them.

// DeleteLogicalPartition deletes all items of a partition key, however many, in the time
// of one write. It deletes the items that exist when the call takes its place in the
// order of the partition's writes. When it returns they are hidden. New items, also with
// the same ids, may be written at once. Snapshots and transactions that began before keep
// seeing the items; a transaction that writes to the partition meanwhile meets a
// conflict. The space is freed when compactions drop the deleted items. It is no error if
// there are no items.
//
// An IfMatch and triggers are refused. Errors are those of Delete, without ErrNotFound.
func (c *Container) DeleteLogicalPartition(ctx context.Context, pk PartitionKey, o *WriteOptions) error {
	_, err := c.deleteLogicalPartition(ctx, pk, o)
	return err
}

func (c *Container) deleteLogicalPartition(ctx context.Context, pk PartitionKey, o *WriteOptions) (Meta, error) {
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return Meta{}, err
	}
	defer call.Leave()
	pk = c.keys.Own(pk)
	if err := c.checkPartitionKey(pk); err != nil {
		return Meta{}, err
	}
	if o != nil && (o.IfMatch != 0 || o.hasTriggers()) {
		return Meta{}, invalidf("DeleteLogicalPartition: a logical partition has no etag and runs no triggers")
	}
	r := requests.Get().(*request)
	r.watch = c.db.start()
	defer r.release()
	r.setTombstone(pk.Encoded(), nil)
	return c.write(ctx, r, o, writebatch.Anything)
}
