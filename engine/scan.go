package engine

import (
	"context"
	"iter"
	"math/rand/v2"
	"runtime/trace"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/partmap"
)

// ScanOptions are the options of a scan. Nil means none.
type ScanOptions struct {
	Limit   int  // items at most; 0 or less: all
	Reverse bool // from the end
	// Borrow says that the loop keeps nothing of an item: the memory of an item is used
	// again when the loop goes on. Such a scan allocates nothing for each item.
	Borrow bool
	// Charge, if not nil, is increased by what the scan costs, in request units: the
	// cost of all items that were read ahead, and of visits to partitions without any.
	Charge *float64
}

// Scan returns the items of one logical partition in the order of their ids by
// bytes, beginning at the id from, or at the first (with Reverse the last) if
// from is empty. Items are safe to keep. At most one error comes, as the last
// pair. Each loop shows one commit point, that at which it began.
func (c *Container) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanKey(ctx, pk, from, o, nil)
}

// Scan is Container.Scan as of the snapshot.
func (s *Snapshot) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanKey(ctx, pk, from, o, s)
}

// ScanAll returns the items of the container in key-space order: by EPK, then key, then
// id. Each physical partition is seen at one commit point, taken when the scan reaches
// it. To see all partitions at one commit point, use a Snapshot.
func (c *Container) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanAll(ctx, o, nil)
}

// ScanAll is Container.ScanAll with all partitions as of the snapshot.
func (s *Snapshot) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanAll(ctx, o, s)
}

func (c *Container) scanKey(ctx context.Context, pk PartitionKey, from string, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if trace.IsEnabled() {
			defer trace.StartRegion(ctx, "cleave.scan").End()
		}
		err := c.checkPartitionKey(pk)
		if err == nil {
			opts := c.timeScan(o, s)
			err = exec.ScanKey(ctx, c.host(), pk, from, &opts, func(r *exec.Row) bool { return give(yield, r) })
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

func (c *Container) scanAll(ctx context.Context, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if trace.IsEnabled() {
			defer trace.StartRegion(ctx, "cleave.scan").End()
		}
		opts := c.timeScan(o, s)
		all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
		err := exec.ScanRange(ctx, c.host(), all, &opts, func(r *exec.Row) bool { return give(yield, r) })
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// timeScan counts a scan and returns its options, with which it is timed or not.
func (c *Container) timeScan(o *ScanOptions, s *Snapshot) exec.ScanOptions {
	c.db.counters.scans.Add(1)
	opts := o.at(s)
	opts.Timed = c.db.times.calls.Timed(latency.Scan, rand.Uint32())
	return opts
}

// at returns the options of a scan, as of a snapshot if that is not nil.
func (o *ScanOptions) at(s *Snapshot) exec.ScanOptions {
	opts := exec.ScanOptions{Snapshot: cutOf(s)}
	if o != nil {
		opts.Limit, opts.Reverse, opts.Borrow, opts.Charge = o.Limit, o.Reverse, o.Borrow, o.Charge
	}
	return opts
}
