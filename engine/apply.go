package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// A replicated container takes its writes from a log that is kept outside the store, on
// which its replicas have agreed. Each physical partition has such a log: entries with an
// index, a time and batches. The effect of an entry depends only on the entries before
// it:
//
//   - Its time gives the time stamps of its versions, and decides whether an item has
//     expired.
//   - Sequences are the partition's own. The entry takes the sequence after the
//     partition's newest. Each of its operations takes the next one, and so does each
//     claim on a unique key (internal/uniquekey).
//
// So partitions that have applied the same entries, or were installed from one that has,
// give the same answers, etags included.
//
// In the store's log an entry is one record: a mark with its index, and its operations.
// Commit point: the record is durable, as for a batch. A crash before it leaves the
// partition at the entry before.

// Entry is one entry of the replicated log of a physical partition.
type Entry struct {
	// Index is 1 more than the partition's AppliedIndex. The first entry of a partition
	// may have any index but 0.
	Index uint64
	// Time is when the entry was made, in milliseconds, by the clock of its maker. Its
	// operations take it as the present. A time before that of an earlier entry counts as
	// equal to the earlier one.
	Time time.Time
	// Batches are carried out one by one, in order. A batch is applied as a whole; if it
	// fails, not at all. No two have the same partition key, and together they have at
	// most 8 MiB. There may be none. Their Durability is ignored.
	Batches []*Batch
	// DefaultTTL, if not nil, changes the default time to live of the partition from this entry on,
	// behind its batches.
	DefaultTTL *DefaultTTLChange
	// Durability is that of the entry; zero: the store's default.
	Durability Durability
}

// DefaultTTLChange changes the default time to live of a physical partition of a replicated
// container with MutableTTL. What has expired under the default before it by the time of its entry does not come
// back; all else goes by the new one.
type DefaultTTLChange struct {
	// Revision is above 0. A change whose Revision is not above that of an earlier one does nothing.
	Revision uint64
	TTL      time.Duration // as ContainerDef.DefaultTTL
}

// Applied tells what ApplyAt did with an entry.
type Applied struct {
	// Skipped says that the entry had been applied before: this call did nothing.
	Skipped bool
	Results []BatchResult // of the batches, in order; nil if the entry was skipped
}

// BatchResult is the result of one batch of an entry.
type BatchResult struct {
	Metas []Meta // what Commit returns
	Err   error  // *BatchError or *LimitError: the same in every replica
}

// maxEntryBytes bounds the size of an entry's batches together. Only tests change it.
var maxEntryBytes = int64(8 << 20)

// AppliedIndex returns the index of the newest entry that was applied to a physical
// partition of a replicated container, 0 if none was. A partition that was made by a
// split has the index of its parent. After a reopen it is the index of the newest durable
// entry: one that was Synced or flushed. Errors: ErrNotFound if the container has no such
// partition, ErrNotHere if it is absent, the damage if its manifest is damaged.
func (c *Container) AppliedIndex(id PartitionID) (uint64, error) {
	p, err := c.now().present(id)
	if err != nil {
		return 0, err
	}
	_, at := p.Newest()
	return at.Index, nil
}

// AppliedTTL returns the newest change of the default time to live that was applied to a physical partition
// of a replicated container. Revision 0: none was, and the partition goes by the DefaultTTL of the container. Errors: those of AppliedIndex.
func (c *Container) AppliedTTL(id PartitionID) (DefaultTTLChange, error) {
	p, err := c.now().present(id)
	if err != nil {
		return DefaultTTLChange{}, err
	}
	_, at := p.Newest()
	rule := at.TTL.Or(c.life.Default())
	return DefaultTTLChange{Revision: rule.Revision, TTL: definition.Duration(rule.Default)}, nil
}

// DurableIndex is AppliedIndex for the newest entry that a crash leaves. The outside log may
// be truncated up to it.
func (c *Container) DurableIndex(id PartitionID) (uint64, error) {
	p, err := c.now().present(id)
	if err != nil {
		return 0, err
	}
	return p.DurableEntry(), nil
}

// FlushPartition writes the memtables of one physical partition of a replicated container to
// files, and returns a DurableIndex: at least the AppliedIndex when it was called. Errors:
// those of AppliedIndex and of Flush.
func (c *Container) FlushPartition(ctx context.Context, id PartitionID) (uint64, error) {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return 0, err
	}
	defer call.Leave()
	p, err := c.present(id)
	if err != nil {
		return 0, err
	}
	defer c.db.work.RewriteSoon()
	index, err := p.FlushEntries(ctx)
	if err == nil {
		c.db.env.Reclaim.NowIfManual()
		err = c.db.retention.Release()
	}
	return index, err
}

// present returns a physical partition that is here and can be read.
func (c *Container) present(id PartitionID) (*partition, error) {
	p := c.partition(id)
	if p == nil {
		return nil, c.noPartition(id)
	}
	return p, cmp.Or(p.Lost, p.here())
}

// ApplyAt applies an entry to a physical partition of a replicated container, and stores
// its index in the same commit. An entry that was applied before is skipped. A refused
// batch is no error: see Applied.Results. After an error the entry was not applied,
// except after ErrOutcomeUnknown: call ApplyAt again.
//
// ApplyAt does not check the limit of a logical partition or the throughput of the
// container: replicas know different values of them. The maker of the entries must check
// both.
//
// Errors: ErrIndexGap; ErrNotFound if the container has no such partition, ErrNotHere if it is
// absent; ErrInvalid for
// a batch of another container or partition; ErrClockSkew for a time too far ahead of the
// clock; those of Upsert that do not concern the item.
func (c *Container) ApplyAt(ctx context.Context, id PartitionID, e Entry) (Applied, error) {
	call, err := c.enterWriting(ctx, fromEntry)
	if err != nil {
		return Applied{}, err
	}
	defer call.Leave()
	p, err := c.present(id)
	if err != nil {
		return Applied{}, err
	}
	sync, err := c.db.syncs(e.Durability)
	if err != nil {
		return Applied{}, err
	}
	a := application{p: p, Entry: writebatch.Entry{Index: e.Index, Time: e.Time.UnixMilli(), Sync: sync, Limit: maxEntryBytes}}
	if err := a.take(&e); err != nil {
		return Applied{}, err
	}
	if err := a.run(ctx); err == lsm.ErrMoved {
		return Applied{}, c.noPartition(id)
	} else if err != nil {
		return Applied{}, err
	}
	return a.results(), nil
}

// application is an entry that is being applied to a partition.
type application struct {
	writebatch.Entry
	p       *partition
	commits []*commit // whose Commit the entry has
}

// take checks the entry and turns its batches into commits.
func (a *application) take(e *Entry) error {
	c := a.p.c
	if e.Index == 0 || e.Index > item.MaxIndex || e.Time.Unix() < 0 || e.Time.Unix() > math.MaxInt64/1000-1 || a.Time <= 0 {
		return invalidf("ApplyAt: an entry has an index, of at most %d, and a time after 1970", uint64(item.MaxIndex))
	}
	if a.Time > c.db.latestForeign() {
		return c.db.clockSkew(fmt.Sprintf("ApplyAt: entry %d", e.Index), a.Time)
	}
	keys := make(map[PartitionKey]bool, len(e.Batches))
	for _, b := range e.Batches {
		switch {
		case b == nil || b.c != c:
			return invalidf("ApplyAt: a batch of another container")
		case b.refused != nil:
			return b.refused
		case !a.p.Range.Contains(b.writes.EPK()):
			return invalidf("ApplyAt: partition key %s lies outside of physical partition %d", b.pk, a.p.ID)
		case keys[b.pk]:
			return invalidf("ApplyAt: two batches of partition key %s in one entry", b.pk)
		}
		keys[b.pk] = true
		u := newCommit(b, a.Sync)
		a.commits = append(a.commits, &u)
		a.Add(&u.Commit)
	}
	if t := e.DefaultTTL; t != nil {
		if err := definition.CheckTTL(t.TTL); err != nil || t.Revision == 0 || !c.life.Follows() {
			return invalidf("ApplyAt: change %d of the default to %v: a revision above 0 in a container with MutableTTL: %v", t.Revision, t.TTL, err)
		}
		a.TTL = lifetime.Rule{Revision: t.Revision, Default: definition.Millis(t.TTL)}
	}
	return a.Fits()
}

// run applies the entry, unless it was applied before, and publishes it.
func (a *application) run(ctx context.Context) error {
	p, db := a.p, a.p.db
	if slices.ContainsFunc(a.Commits, (*writebatch.Commit).Patches) {
		if err := a.LookAhead(ctx, &p.Partition); err != nil { // gives the sizes of what patches write
			return db.readError(err)
		}
	}
	size := a.Bytes()
	waited, err := db.admit(ctx, p, size)
	if err != nil {
		return err
	}
	defer db.gate.Done(size)
	w, err := a.try(ctx)
	for ; err != nil; w, err = a.try(ctx) {
		// What a batch is refused for needs no wait here: the entry's record comes after
		// it in the log.
		if err = p.refuse(err, physical.Record{}); err != nil {
			return err
		}
	}
	if err := p.Show(w); err != nil || a.Skipped {
		return err
	}
	for i, u := range a.commits {
		if a.Refused[i] != nil {
			continue
		}
		u.waited = waited
		u.count()
		if db.sampled() {
			p.Sample(u.b.pk.Encoded(), u.Charge(nil))
		}
	}
	return nil
}

// try does steps 2 to 5 once.
func (a *application) try(ctx context.Context) (physical.Record, error) {
	p := a.p
	if err := a.LookAhead(ctx, &p.Partition); err != nil {
		return physical.Record{}, p.db.readError(err)
	}
	p.Commit.Lock()
	defer p.Commit.Unlock()
	if err := p.takesLocked(fromEntry, nil); err != nil {
		return physical.Record{}, err
	}
	return a.ApplyLocked(&p.Partition)
}

func (a *application) results() Applied {
	if a.Skipped {
		return Applied{Skipped: true}
	}
	out := Applied{Results: make([]BatchResult, len(a.commits))}
	for i, u := range a.commits {
		if out.Results[i].Err = a.Refused[i]; a.Refused[i] == nil {
			out.Results[i].Metas = u.metas()
		}
	}
	return out
}
