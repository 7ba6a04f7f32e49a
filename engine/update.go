package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/trace"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/conflict"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/nesting"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/writebatch"
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
	// Charge, if not nil, is increased by what the call has cost, in request units: by
	// what fn has read and by the writes, of all tries, also if it fails.
	Charge *float64
}

const defaultReruns = 16

// jitter bounds the time between two tries of an Update: it doubles from the
// first value to the second.
const (
	firstJitter = 50 * time.Microsecond
	mostJitter  = 5 * time.Millisecond
)

// Update calls fn with a transaction in a logical partition and commits what fn
// wrote if it returns nil: all of it, as one record of the log. If it returns an
// error, nothing is written and Update returns that error.
//
// A transaction has snapshot isolation. It reads as of one sequence. Of two transactions
// that overlap and write the same item only one commits; a single write in between
// counts as one. The other is begun anew: fn is called again, with another Tx, up to 16
// times with growing pauses. Then the error is ErrConflict. So fn must not
// change anything outside the transaction that may not be changed twice.
//
// A container with limited throughput admits a transaction when it begins, with all that fn
// reads and writes: ErrThrottled comes before fn is called.
//
// fn should write through its Tx only: other writes do not belong to the
// transaction. Another Update in fn, on the same goroutine, is ErrNestedUpdate.
// Further errors: those of Commit, without *BatchError. UpdateOptions.Charge of UpdateWith tells what it cost.
func (c *Container) Update(ctx context.Context, pk PartitionKey, fn func(*Tx) error) error {
	u := updates.Get().(*update)
	defer u.release()
	return u.run(ctx, c, pk, UpdateOptions{}, fn)
}

// UpdateWith is Update with options. It returns what was written, in the order
// in which fn first wrote to each item.
func (c *Container) UpdateWith(ctx context.Context, pk PartitionKey, o *UpdateOptions, fn func(*Tx) error) ([]Meta, error) {
	var opts UpdateOptions
	if o != nil {
		opts = *o
	}
	u := updates.Get().(*update)
	defer u.release()
	if opts.Charge != nil {
		defer func() { *opts.Charge += u.charge }()
	}
	if err := u.run(ctx, c, pk, opts, fn); err != nil || u.Len() == 0 {
		return nil, err
	}
	return u.commit.metas(), nil
}

// update is what an Update works with. It is pooled, so that nothing but the Tx,
// which fn might keep, is allocated.
type update struct {
	Batch                  // the writes, one operation for each item
	written map[string]int // by id: its operation
	reads   conflict.Reads // of the newest try
	commit  commit         // of the newest try
	fn      func(*Tx) error
}

// Call implements nesting.Function.
func (u *update) Call() error { return u.fn(u.commit.tx) }

var updates = sync.Pool{New: func() any { return &update{written: make(map[string]int)} }}

// keptIDs is the largest number of ids for which the map of an update is reused.
const keptIDs = 1000

// reset forgets what a try has read and written.
func (u *update) reset() {
	if len(u.written) > keptIDs {
		u.written = make(map[string]int)
	}
	clear(u.written)
	u.reads.Reset()
	u.Reset()
}

// release gives the update back.
func (u *update) release() {
	u.reset()
	u.commit, u.fn = commit{}, nil
	u.empty()
	updates.Put(u)
}

// own returns the write of an item, nil if there is none.
func (u *update) own(id string) *writebatch.Op {
	if i, ok := u.written[id]; ok {
		return &u.writes.Ops[i]
	}
	return nil
}

// run does what UpdateWith says.
func (u *update) run(ctx context.Context, c *Container, pk PartitionKey, opts UpdateOptions, fn func(*Tx) error) error {
	defer nesting.End()
	if !nesting.Begin() {
		return ErrNestedUpdate
	}
	if fn == nil {
		return invalidf("Update: no function is given")
	}
	if err := c.mayWrite(fromCaller); err != nil {
		return err
	}
	sync, err := c.db.syncs(opts.Durability)
	if err != nil {
		return err
	}
	if opts.Reruns == 0 {
		opts.Reruns = defaultReruns
	}
	u.reads.Serializable = opts.Serializable
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.transaction").End()
	}
	watch := c.db.start()
	err = u.tries(ctx, c, pk, sync, opts.Reruns, fn)
	c.ended(latency.Transaction, watch, nil, u.writes.EPK(), u.commit.on, err)
	return err
}

// tries runs the transaction until it meets no conflict.
func (u *update) tries(ctx context.Context, c *Container, pk PartitionKey, sync bool, reruns int, fn func(*Tx) error) error {
	for try := 0; ; try++ {
		if err := u.try(ctx, c, pk, sync, try > 0, fn); err != writebatch.ErrChanged {
			return err
		}
		if try >= reruns {
			return fmt.Errorf("partition key %s, tried %d times: %w", pk, try+1, ErrConflict)
		}
		most := min(firstJitter<<min(try, 10), mostJitter)
		if err := pacing.Sleep(ctx, rand.N(most)); err != nil {
			return err
		}
		u.reset()
	}
}

// try runs one transaction. writebatch.ErrChanged says that it met a conflict.
func (u *update) try(ctx context.Context, c *Container, pk PartitionKey, sync, anew bool, fn func(*Tx) error) error {
	tx, err := c.begin(ctx, pk, anew)
	if err != nil {
		return err
	}
	defer tx.end() // the versions that it overwrites are kept until the commit
	u.bind(c, tx.pk, &tx.epk)
	tx.update = u
	u.reads.Begin(tx.snapshot.seq, u.writes.Key(nil), u.writes.EPK())
	u.fn, u.commit.tx = fn, tx
	if err := nesting.Run(u); err != nil {
		return err
	}
	tx.over = true
	u.commit = newCommit(&u.Batch, sync)
	u.commit.tx, u.commit.Reads, u.commit.admission = tx, &u.reads, mayPass
	return u.commit.run(ctx)
}
