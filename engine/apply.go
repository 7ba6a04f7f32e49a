package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/wal"
)

// A replicated container takes what a log that is kept elsewhere, and agreed on
// with others, has decided. Each physical partition has such a log: entries
// with an index, a time and batches. All that an entry does depends on nothing
// but the entries before it:
//
//   - the time stamps of its versions, and whether an item has expired, come from
//     its time;
//   - sequences are the partition's own: the entry takes the one after the
//     partition's newest, each of its operations, and of the claims on unique keys
//     that go with them (claims.go), the next.
//
// So partitions that have applied the same entries, or were installed from one
// that has, answer alike, etags included.
//
// An entry is one record of the log: a mark with its index, and its operations.
// Commit point: the record is durable, as for a batch. A crash before it leaves
// the partition at the entry before.

// Entry is what a replicated log has at an index for a physical partition.
type Entry struct {
	// Index is that of the entry: 1 more than the partition's AppliedIndex. The
	// first one of a partition may have any but 0.
	Index uint64
	// Time is when it was made, by whoever made it: the present for its
	// operations, in milliseconds. One before that of an earlier entry counts as
	// equal to it.
	Time time.Time
	// Batches are carried out one by one, in order: each as a whole, or not at
	// all if it fails. They must be of different partition keys, of 8 MiB at
	// most together, and may be none. Their Durability does not count.
	Batches []*Batch
	// Durability of the entry; zero: the store's default.
	Durability Durability
}

// Applied tells what became of an entry.
type Applied struct {
	// Skipped says that it was applied before: nothing was done now.
	Skipped bool
	Results []BatchResult // of its batches, in order; nil if it was skipped
}

// BatchResult tells what became of a batch of an entry.
type BatchResult struct {
	Metas []Meta // what Commit returns
	Err   error  // *BatchError or *LimitError: the same wherever the entry is applied
}

// maxEntryBytes bounds the batches of an entry. Only tests change it.
var maxEntryBytes = int64(8 << 20)

// writable returns why the container takes no ordinary writes, nil if it does.
func (c *Container) writable() error {
	if c.def.Replicated {
		return fmt.Errorf("container %q: %w", c.name, ErrReplicated)
	}
	return c.db.writable()
}

// AppliedIndex returns the index of the newest entry that was applied to a
// physical partition of a replicated container, 0 if none was. A partition that
// comes from a split has that of its parent. After a reopen it is that of the
// newest durable entry: what is Synced, or was flushed. Errors: ErrNotFound if
// the container has no such partition.
func (c *Container) AppliedIndex(id PartitionID) (uint64, error) {
	p := c.partition(id)
	if p == nil {
		return 0, c.noPartition(id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.applied.index, nil
}

// ApplyAt applies an entry to a physical partition of a replicated container,
// and notes its index in the same commit. An entry that was applied before is
// skipped. That a batch is refused is no error: see Applied.Results. After an
// error the entry has not been applied, but for ErrOutcomeUnknown: try it again.
//
// The limit of a logical partition and the throughput of the container are not
// looked at: what each replica knows of them differs. Whoever makes entries does
// so.
//
// Errors: ErrIndexGap; ErrNotFound if the container has no such partition;
// ErrInvalid for a batch of another container or partition; ErrClockSkew for a
// time ahead of the clock; those of Upsert that
// do not concern the item.
func (c *Container) ApplyAt(ctx context.Context, id PartitionID, e Entry) (Applied, error) {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer call.Leave()
	if c.dropped.Load() {
		return Applied{}, c.gone()
	}
	p := c.partition(id)
	if p == nil {
		return Applied{}, c.noPartition(id)
	}
	sync, err := c.db.syncs(e.Durability)
	if err != nil {
		return Applied{}, err
	}
	a := application{p: p, index: e.Index, time: e.Time.UnixMilli(), sync: sync}
	if err := a.take(&e); err != nil {
		return Applied{}, err
	}
	if err := a.run(ctx); err == errMoved {
		return Applied{}, c.noPartition(id)
	} else if err != nil {
		return Applied{}, err
	}
	return a.results(), nil
}

// application is an entry on its way into a partition.
type application struct {
	p       *partition
	index   uint64
	time    int64
	sync    bool
	commits []*commit
	refused []error // of the commits
	size    int64
	record  []byte
	skipped bool

	seq       uint64       // of the last operation
	pos, need wal.Position // end of the record; up to where the log must be synced
}

// take checks the entry and takes its batches.
func (a *application) take(e *Entry) error {
	c := a.p.c
	if !c.def.Replicated {
		return invalidf("ApplyAt: container %q is not replicated", c.name)
	}
	if e.Index == 0 || e.Index > item.MaxIndex || e.Time.Unix() < 0 || e.Time.Unix() > math.MaxInt64/1000-1 || a.time <= 0 {
		return invalidf("ApplyAt: an entry has an index, of at most %d, and a time after 1970", uint64(item.MaxIndex))
	}
	if a.time > c.db.latestForeign() {
		return c.db.clockSkew(fmt.Sprintf("ApplyAt: entry %d", e.Index), a.time)
	}
	keys := make(map[PartitionKey]bool, len(e.Batches))
	for _, b := range e.Batches {
		switch {
		case b == nil || b.c != c:
			return invalidf("ApplyAt: a batch of another container")
		case b.refused != nil:
			return b.refused
		case !a.p.rng.Contains(&b.epk):
			return invalidf("ApplyAt: partition key %s lies outside of physical partition %d", b.pk, a.p.id)
		case keys[b.pk]:
			return invalidf("ApplyAt: two batches of partition key %s in one entry", b.pk)
		}
		keys[b.pk] = true
		b.link()
		a.commits = append(a.commits, &commit{Batch: b})
		a.size += b.size
	}
	if a.size > maxEntryBytes {
		return &LimitError{What: "entry", Size: a.size, Limit: maxEntryBytes, Kind: ErrTooLarge}
	}
	a.refused = make([]error, len(a.commits))
	return nil
}

// run applies the entry, unless it was applied before, and shows it.
func (a *application) run(ctx context.Context) error {
	p, db := a.p, a.p.db
	if slices.ContainsFunc(a.commits, func(u *commit) bool { return u.patches > 0 }) {
		if _, err := a.look(ctx); err != nil { // how much patches write is known then
			return err
		}
	}
	size := a.size
	for _, u := range a.commits {
		size += u.claimBytes()
	}
	waited, err := db.admit(ctx, p, size)
	if err != nil {
		return err
	}
	defer db.admitted(size)
	for {
		if err = a.try(ctx); err == wal.ErrNoFile {
			err = db.makeLogFile()
		} else if err == nil {
			break
		}
		if err != nil && err != errFilesChanged {
			return err
		}
	}
	if err := db.await(a.pos, a.need); err != nil {
		return err
	}
	if err := p.publish(a.seq); err != nil || a.skipped {
		return err
	}
	for i, u := range a.commits {
		if a.refused[i] != nil {
			continue
		}
		u.waited = waited
		for k := range u.ops {
			op := &u.ops[k]
			db.counters.written(len(u.pk.Encoded())+len(op.data), op.verb == verbDelete)
		}
		if db.sampled() {
			p.sample(u.pk.Encoded(), u.outcome(nil))
		}
	}
	return nil
}

// look finds what the batches depend on, without a lock, and what they weigh. It
// returns the entry that the partition had come to before.
func (a *application) look(ctx context.Context) (before applied, err error) {
	a.p.mu.Lock()
	before = a.p.mu.applied
	a.p.mu.Unlock()
	a.size = 0
	for i, u := range a.commits {
		u.at, a.refused[i] = max(a.time, before.time), nil
		if err := a.p.lookAheadBatch(ctx, u); err != nil {
			return before, err
		}
		size := u.size
		if u.patches > 0 {
			if size, a.refused[i] = u.weigh(); a.refused[i] == nil && a.size+size > maxEntryBytes {
				a.refused[i] = &LimitError{What: "entry", Size: a.size + size, Limit: maxEntryBytes, Kind: ErrTooLarge}
			}
		}
		if a.refused[i] == nil {
			a.size += size
		}
	}
	return before, nil
}

// try applies the entry, unpublished. errFilesChanged: once more.
func (a *application) try(ctx context.Context) error {
	p := a.p
	before, err := a.look(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped.Load() {
		return p.gone()
	}
	if a.skipped = a.index <= p.mu.applied.index; a.skipped {
		// Whoever is told so may count on it, as durably as is asked for now.
		a.seq, a.pos, a.need = p.mu.lastSeq, p.mu.last, p.mu.synced
		if a.sync {
			a.need = a.pos
		}
		return nil
	}
	if p.mu.applied != before {
		return errFilesChanged
	}
	if before.index != 0 && a.index != before.index+1 {
		return fmt.Errorf("partition %d has come to entry %d, this is %d: %w", p.id, before.index, a.index, ErrIndexGap)
	}
	return a.applyLocked(applied{index: a.index, time: max(a.time, before.time)})
}

// applyLocked judges the batches and appends and applies the record. The commit
// lock is held.
func (a *application) applyLocked(at applied) error {
	p := a.p
	for i, u := range a.commits {
		if a.refused[i] != nil {
			continue
		}
		// Refused or not, the entry has a record behind what that rests on.
		_, err := p.judgeBatchLocked(u)
		if err == errFilesChanged {
			return err
		}
		a.refused[i] = err
	}
	if p.mu.lastSeq > item.MaxSeq-maxEntrySequences {
		return fmt.Errorf("partition %d has come to sequence %d: %w", p.id, p.mu.lastSeq, errNoSequences)
	}
	a.seq = p.mu.lastSeq + 1 // of the mark
	a.record = appendMark(a.record[:0], a.seq, at)
	for i, u := range a.commits {
		if a.refused[i] != nil {
			continue
		}
		u.first, u.modified = a.seq+1, at.time
		for k := range len(u.ops) + len(u.claims) {
			key, ver := u.version(k)
			a.seq++
			ver.Seq = a.seq
			a.record = appendCarried(a.record, &key, &ver)
		}
	}
	var err error
	if a.pos, _, err = p.db.log.AppendCarriedNow(wal.Stream(p.id), a.seq, a.record); err != nil {
		return p.db.uncertain(err)
	}
	// The record has its place in the order, so all of it must get in.
	active := p.version.Load().active
	for i, u := range a.commits {
		if a.refused[i] != nil {
			continue
		}
		for k := range len(u.ops) + len(u.claims) {
			key, ver := u.version(k)
			ver.Seq = u.first + uint64(k)
			if err := active.Put(&key, &ver, true); err != nil {
				p.db.fail(err)
				return p.db.writable()
			}
		}
	}
	p.mu.applied = at
	p.c.raiseEntryTime(at.time)
	a.need = p.noteAppliedLocked(active, a.seq, a.pos, a.sync)
	return nil
}

func (a *application) results() Applied {
	if a.skipped {
		return Applied{Skipped: true}
	}
	out := Applied{Results: make([]BatchResult, len(a.commits))}
	for i, u := range a.commits {
		if out.Results[i].Err = a.refused[i]; a.refused[i] == nil {
			out.Results[i].Metas = u.metas()
		}
	}
	return out
}
