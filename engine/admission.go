package engine

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/writebatch"
	"github.com/cleavestore/cleave/partmap"
)

// Whether a write may happen is asked in this order. A single write, a load, a batch, a
// transaction, the deletion of a logical partition and the write of a CopyJob ask all of it.
// An entry of a replicated log leaves out 3 and 5: replicas know different values of
// them. The tombstone of an expired item leaves out 2 and 3: no caller waits for it.
//
//  1. enterWriting: the context, the store, the container.
//  2. checkDocument, checkBytes: what of a document or of a body can be told before the
//     partition is known.
//  3. route: the throughput of the logical and of the physical partition.
//  4. DB.admit (pressure.go): the damage of the partition, memory.
//  5. measure (internal/keysizes): the size of the logical partition.
//  6. takesLocked: under the commit lock, whether the partition is still in use, and
//     again whether the container takes the write.
//
// The present version of the item is tested last: see writebatch.Precondition.

// origin says where a write comes from.
type origin uint8

const (
	fromCaller origin = iota // also the engine, for the tombstones of expired items
	fromCopy                 // a CopyJob
	fromEntry                // an entry of a replicated log
)

// enterWriting begins a call that writes to the container.
func (c *Container) enterWriting(ctx context.Context, from origin) (epoch.Guard, error) {
	call, err := c.now().db.enter(ctx)
	return c.entered(call, err, from)
}

// enterWritingAgain is enterWriting for a step of what is under way.
func (c *Container) enterWritingAgain(ctx context.Context, from origin) (epoch.Guard, error) {
	call, err := c.db.enterAgain(ctx)
	return c.entered(call, err, from)
}

func (c *Container) entered(call epoch.Guard, err error, from origin) (epoch.Guard, error) {
	if err == nil {
		if err = c.mayWrite(from); err != nil {
			call.Leave()
		}
	}
	return call, err
}

// mayWrite returns why the store or the container takes no writes from there now; nil if
// both do.
func (c *Container) mayWrite(from origin) error {
	if err := c.db.writable(); err != nil || c.takes(from) {
		return err
	}
	return c.refusal(from)
}

// takes says whether the container takes writes from there.
func (c *Container) takes(from origin) bool {
	return !c.dropped.Load() && !c.copied.Load() && c.def.Replicated == (from == fromEntry) && (c.copyOf.Load() != 0) == (from == fromCopy)
}

// refusal returns why the container takes no writes from there; nil if it does again.
func (c *Container) refusal(from origin) error {
	switch {
	case c.dropped.Load():
		return c.gone()
	case from == fromEntry && !c.def.Replicated:
		return invalidf("ApplyAt: container %q is not replicated", c.name)
	case from != fromEntry && c.def.Replicated:
		return fmt.Errorf("container %q: %w", c.name, ErrReplicated)
	case c.copied.Load():
		return fmt.Errorf("container %q: %w", c.name, ErrCopied)
	case c.copyOf.Load() != 0 && from != fromCopy:
		return fmt.Errorf("container %q: %w", c.name, ErrCopying)
	case c.copyOf.Load() == 0 && from == fromCopy:
		return fmt.Errorf("container %q is no copy: %w", c.name, ErrClosed)
	}
	return nil
}

// takesLocked returns why the partition takes no writes from there: lsm.ErrMoved if
// others have replaced it, ErrUntested if its limit must be tested. The commit lock is held: what replaces the partition, and a
// CopyJob that takes the container's place, first say so and then take that lock.
func (p *partition) takesLocked(from origin, counted *keysizes.Counted) error {
	if p.Dropped.Load() {
		return p.gone()
	}
	if !p.c.takes(from) {
		return p.c.refusal(from)
	}
	if from != fromEntry && !p.sizes.Tested(counted) {
		return keysizes.ErrUntested
	}
	return nil
}

// checkDocument returns why the container cannot take a document with this demand. Where
// suffixes are random, the key must be given, or Create draws a new one.
func (c *Container) checkDocument(d writebatch.Precondition, given PartitionKey) error {
	switch {
	case c.def.Kind != JSON:
		return invalidf("container %q is opaque; use Put", c.name)
	case !c.def.Synthetic.rule().Random() || d == writebatch.Absent:
		return nil
	case d == writebatch.Anything:
		return fmt.Errorf("container %q: an upsert may be of an item under any suffix: %w", c.name, ErrRandomSuffix)
	case !given.Valid():
		return fmt.Errorf("container %q: Replace needs WriteOptions.Key: %w", c.name, ErrRandomSuffix)
	}
	return nil
}

// checkBytes returns why the container cannot take a write whose key, id and body are
// given.
func (c *Container) checkBytes(v verb, pk PartitionKey, id string, body []byte) error {
	if v == verbPut && c.def.Kind != Opaque {
		return invalidf("Put: container %q holds documents; use Upsert", c.name)
	}
	if err := c.checkKey(pk, id); err != nil {
		return err
	}
	if size := int64(len(body)); size > c.def.Limits.ItemBytes {
		return &LimitError{What: "item body", Size: size, Limit: c.def.Limits.ItemBytes, Kind: ErrTooLarge}
	}
	return nil
}

// admission says what a call does where throughput is consumed.
type admission uint8

const (
	mayRefuse admission = iota // the caller gets a *ThrottledError, which is counted
	mayWait                    // the call waits as long as the *ThrottledError says
	mayPass                    // the call is part of one that was admitted
)

// route returns the physical partition that a key belongs to, or a *ThrottledError if
// the partition has consumed more than its share of the throughput, or the logical
// partition pk more than its limit. A nil pk has no limit.
func (c *Container) route(pk []byte, epk *partmap.EPK, how admission) (*partition, error) {
	rt := c.routing.Load()
	p := rt.parts[rt.table.Find(epk)]
	if how == mayPass || !p.Metered() {
		return p, nil
	}
	return p, p.Admit(pk, how == mayWait)
}

// Metered says whether the partition or its logical partitions refuse and charge calls.
func (p *partition) Metered() bool { return p.meter.Load() != nil || p.c.limits.Metered() }

// spend takes the cost of a read or write from the meters, and counts it if it is sampled.
func (p *partition) spend(pk []byte, ru float64) { p.spendDrawn(pk, ru, rand.Uint32()) }

// spendDrawn is spend with a random number, whose lowest bits say whether it is sampled.
func (p *partition) spendDrawn(pk []byte, ru float64, draw uint32) {
	if p.Metered() {
		p.Charge(pk, ru)
	}
	if draw&p.db.unsampled == 0 {
		p.Sample(pk, ru)
	}
}
