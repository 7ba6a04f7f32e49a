package engine

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"runtime/trace"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/latency"
)

// IDRange says which ids of a logical partition are wanted, compared by bytes. All fields
// apply together; an empty one excludes nothing. A scan with ScanOptions.Reverse goes through
// the same ids from the last to the first. To go on behind an item that a scan has shown, set
// After to its id, or Before in reverse.
type IDRange struct {
	From   string // the lowest id; it belongs to the range
	After  string // ids must be higher
	To     string // the highest id; it belongs to the range
	Before string // ids must be lower
	Prefix string // ids must begin with it
}

// compile returns the range as scans use it.
func (r *IDRange) compile() (ids item.IDRange) {
	ids.From(r.From, false)
	ids.From(r.After, true)
	ids.To(r.To, false)
	ids.To(r.Before, true)
	ids.Prefix(r.Prefix)
	return ids
}

// ScanOptions are the options of a scan. Nil means none.
type ScanOptions struct {
	Limit   int  // items at most; 0 or less: all
	Reverse bool // from the end
	// Borrow says that the loop keeps nothing of an item: the memory of an item is used
	// again when the loop goes on. Such a scan allocates nothing for each item.
	Borrow bool
	// InPlace is Borrow without copies of what is stored uncompressed or in the scan cache: it is
	// shown where it is, must not be changed, and was verified once. A bit that flips later goes
	// unnoticed; a device that fails while the loop reads a mapped document ends the process.
	InPlace bool
	// Charge, if not nil, is increased by what the scan costs, in request units: the
	// cost of all items that were read ahead (in place up to 256), and of visits to partitions without any.
	Charge *float64
	Within Scope // of ScanAll: AllPartitions, which the zero Scope stands for too, or OfRange

	waits bool // the caller tries again while the scan is refused
}

// Scan returns the items of one logical partition with these ids, in the order of the ids.
// It begins at one end of the range and stops at the other: what lies outside is not read,
// and costs no time and no request units. Items are safe to keep. At most one error comes,
// as the last pair. Each loop shows one commit point, that at which it began.
func (c *Container) Scan(ctx context.Context, pk PartitionKey, ids IDRange, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanKey(ctx, pk, ids.compile(), o, nil)
}

// Scan is Container.Scan as of the snapshot.
func (s *Snapshot) Scan(ctx context.Context, pk PartitionKey, ids IDRange, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanKey(ctx, pk, ids.compile(), o, s)
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

func (c *Container) scanKey(ctx context.Context, pk PartitionKey, ids item.IDRange, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return c.scanIn(ctx, o, s, func(state *Container, opts *exec.ScanOptions, give func(*exec.Row) bool) error {
		own := state.keys.Own(pk)
		if err := state.checkPartitionKey(own); err != nil {
			return err
		}
		return exec.ScanKey(ctx, state.host(), own, ids, opts, give)
	})
}

func (c *Container) scanAll(ctx context.Context, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	within := cmp.Or(o, new(ScanOptions)).Within.of
	return c.scanIn(ctx, o, s, func(state *Container, opts *exec.ScanOptions, give func(*exec.Row) bool) error {
		rng, err := within.Scanned()
		if err != nil {
			return invalidf("%v", err)
		}
		return exec.ScanRange(ctx, state.host(), rng, opts, give)
	})
}

// scanIn returns the loop of a scan, which run does in the state that the loop sees.
func (c *Container) scanIn(ctx context.Context, o *ScanOptions, s *Snapshot, run func(*Container, *exec.ScanOptions, func(*exec.Row) bool) error) iter.Seq2[Item, error] {
	begin := c.db.watch("scan", c.name)
	return func(yield func(Item, error) bool) {
		if trace.IsEnabled() {
			defer trace.StartRegion(ctx, "cleave.scan").End()
		}
		if begin != nil {
			defer begin()()
		}
		state, loop, err := c.beginLoop(s)
		if err == nil {
			defer loop.Leave()
			opts := state.timeScan(o, s)
			err = run(state, &opts, func(r *exec.Row) bool { return give(state, yield, r) })
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// timeScan counts a scan and returns its options, as of a snapshot if that is not nil, with
// which it is timed or not.
func (c *Container) timeScan(o *ScanOptions, s *Snapshot) exec.ScanOptions {
	c.db.counters.scans.Add(1)
	o = cmp.Or(o, new(ScanOptions))
	return exec.ScanOptions{
		Limit: o.Limit, Reverse: o.Reverse, Borrow: o.Borrow, InPlace: o.InPlace, Charge: o.Charge,
		Snapshot: cutOf(s), Admitted: s != nil && s.admission == mayPass, Waits: o.waits, Timed: c.db.times.calls.Timed(latency.Scan, rand.Uint32()),
	}
}
