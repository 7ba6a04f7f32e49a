package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
)

// UpdateOptions are the options of UpdateWith. Nil means none.
type UpdateOptions struct {
	// Serializable also refuses a transaction if what it read has changed since
	// its sequence: items, items that were not there, and ranges that it scanned.
	// Transactions of a logical partition that all ask for it are as if they had
	// run one after the other. Without it two of them may each read what the
	// other writes (write skew).
	Serializable bool
	// Reruns is how often fn is called again after a conflict before the error
	// is ErrConflict. 0: 16. Less than 0: never.
	Reruns int
	// Durability of the writes, if not zero, replaces the store's default.
	// Interval is not possible here.
	Durability Durability
}

const defaultReruns = 16

// Update calls fn with a transaction in a logical partition and commits what fn
// wrote if it returns nil: all of it, as one record of the log. If it returns an
// error, nothing is written and Update returns that error.
//
// A transaction has snapshot isolation. It reads as of one sequence, and of two
// that overlap and write the same item only one commits; a single write in
// between counts as one. The other is begun anew: fn is called again, with
// another Tx, up to 16 times with growing pauses; then the error is ErrConflict.
// So fn must not change anything outside that may not be changed twice.
//
// fn should write through its Tx only: other writes do not belong to the
// transaction. Another Update in fn, on the same goroutine, is ErrNestedUpdate.
// Further errors: those of Commit, without *BatchError.
func (c *Container) Update(ctx context.Context, pk PartitionKey, fn func(*Tx) error) error {
	_, err := c.UpdateWith(ctx, pk, nil, fn)
	return err
}

// UpdateWith is Update with options. It returns what was written, in the order
// in which fn first wrote to each item.
func (c *Container) UpdateWith(ctx context.Context, pk PartitionKey, o *UpdateOptions, fn func(*Tx) error) ([]Meta, error) {
	if nested() {
		return nil, ErrNestedUpdate
	}
	if err := c.db.writable(); err != nil {
		return nil, err
	}
	var opts UpdateOptions
	if o != nil {
		opts = *o
	}
	if opts.Reruns == 0 {
		opts.Reruns = defaultReruns
	}
	sync, err := c.db.syncs(opts.Durability)
	if err != nil {
		return nil, err
	}
	b := batches.Get().(*Batch)
	b.begin(c, pk)
	defer b.release()
	for try := 0; ; try++ {
		metas, err := b.tryUpdate(ctx, opts.Serializable, sync, fn)
		if err != errChanged {
			return metas, err
		}
		if try >= opts.Reruns {
			return nil, fmt.Errorf("partition key %s, tried %d times: %w", pk, try+1, ErrConflict)
		}
		most := min(firstJitter<<min(try, 10), mostJitter)
		if err := pause(ctx, rand.N(most)); err != nil {
			return nil, err
		}
		b.Reset()
	}
}

// tryUpdate runs one transaction. errChanged says that it met a conflict.
func (b *Batch) tryUpdate(ctx context.Context, serializable, sync bool, fn func(*Tx) error) ([]Meta, error) {
	tx, err := b.c.begin(ctx, b.pk)
	if err != nil {
		return nil, err
	}
	defer tx.end() // what it overwrites is kept until it is committed
	tx.batch, tx.serializable = b, serializable
	if err := callUpdate(fn, tx); err != nil {
		return nil, err
	}
	tx.over = true
	u := commit{Batch: b, tx: tx, sync: sync}
	return u.run(ctx)
}

// callUpdate is the one place from which the functions of Updates are called.
//
//go:noinline
func callUpdate(fn func(*Tx) error, tx *Tx) error {
	err := fn(tx)
	return err
}

// updateCall is the return address of fn in callUpdate.
var updateCall = func() uintptr {
	var at [1]uintptr
	_ = callUpdate(func(*Tx) error {
		runtime.Callers(2, at[:])
		return nil
	}, nil)
	return at[0]
}()

// nestedCalls is how many calls an Update in an Update may be away from it, and
// is still noticed.
const nestedCalls = 64

// nested says whether the function of an Update is running on this goroutine.
func nested() bool {
	var calls [nestedCalls]uintptr
	n := runtime.Callers(3, calls[:])
	return slices.Contains(calls[:n], updateCall)
}
