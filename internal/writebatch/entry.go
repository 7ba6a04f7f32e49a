package writebatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/wal"
)

// ErrIndexGap says that an entry is not the next one of its partition.
var ErrIndexGap = errors.New("gap between entries")

// ErrNoSequences says that a partition has no sequences left.
var ErrNoSequences = fmt.Errorf("sequences are used up: %w", fault.ErrTooLarge)

// MostSequences is more sequences than any entry takes.
const MostSequences = 1 << 32

// Entry is an entry of a replicated log that is being applied to a partition. Its batches
// have different partition keys.
type Entry struct {
	Index   uint64
	Time    int64         // in milliseconds, above 0
	TTL     lifetime.Rule // of which Revision and Default are set: the entry changes the default; Revision 0: it does not
	Sync    bool          // the entry is shown only when it is synced
	Limit   int64         // of the bytes of its batches together
	Commits []*Commit
	Refused []error // why a batch was refused, by its place in Commits; nil: it was not
	Skipped bool    // it had been applied before

	size   int64
	before manifest.Applied // the entry before, when it was looked up
	past   lifetime.Past    // by which the batches are judged
}

// Add adds a batch.
func (e *Entry) Add(u *Commit) {
	u.Link()
	e.Commits, e.Refused = append(e.Commits, u), append(e.Refused, nil)
	e.size += u.Size
}

// Fits returns a *fault.LimitError if the batches are too large together.
func (e *Entry) Fits() error { return e.fits(e.size) }

func (e *Entry) fits(size int64) error {
	if size > e.Limit {
		return &fault.LimitError{What: "entry", Size: size, Limit: e.Limit, Kind: fault.ErrTooLarge}
	}
	return nil
}

// Bytes returns how much memory the versions of the entry need at most. If a batch patches,
// LookAhead must have been called.
func (e *Entry) Bytes() int64 {
	size := e.size
	for _, u := range e.Commits {
		size += u.ClaimBytes()
	}
	return size
}

// LookAhead looks up, without a lock, the present versions that the batches depend on, and
// computes the batches' sizes. It keeps no documents of patches of a batch that is too
// large. Errors are those of reading.
func (e *Entry) LookAhead(ctx context.Context, p *physical.Partition) error {
	_, e.before = p.Newest()
	e.size = 0
	if e.past = (lifetime.Past{Expired: max(e.Time, e.before.Time)}); p.Life.Follows() {
		e.past = e.before.TTL.Or(p.Life.Default()).Past(e.past.Expired)
	}
	for i, u := range e.Commits {
		u.asOf, e.Refused[i] = &e.past, nil
		if err := u.LookAhead(ctx, p); err != nil {
			return err
		}
		size, err := u.Weigh()
		if err == nil && u.Patches() {
			err = e.fits(e.size + size)
		}
		if e.Refused[i] = err; err == nil {
			e.size += size
		} else if u.Patches() {
			u.dropPatched()
		}
	}
	return nil
}

// ApplyLocked judges the batches, then appends the record of those that are not refused and
// puts their versions into the memtable, unless the entry was applied before. The error is
// ErrAgain, ErrIndexGap, ErrNoSequences, or as of Commit.WriteLocked.
func (e *Entry) ApplyLocked(p *physical.Partition) (physical.Record, error) {
	if e.Skipped = e.Index <= p.Commit.Applied.Index; e.Skipped {
		// The caller may rely on the entry as on one applied now, so it must be as
		// durable as this call asks for.
		w := p.NewestLocked()
		if e.Sync {
			w.Need = w.Pos
		}
		return w, nil
	}
	if p.Commit.Applied != e.before {
		return physical.Record{}, ErrAgain
	}
	if e.before.Index != 0 && e.Index != e.before.Index+1 {
		return physical.Record{}, fmt.Errorf("partition %d has come to entry %d, this is %d: %w", p.ID, e.before.Index, e.Index, ErrIndexGap)
	}
	for i, u := range e.Commits {
		if e.Refused[i] != nil {
			continue
		}
		_, err := u.JudgeLocked(p)
		if err == ErrAgain {
			return physical.Record{}, err
		}
		e.Refused[i] = err
	}
	at := manifest.Applied{Index: e.Index, Time: max(e.Time, e.before.Time), TTL: e.before.TTL}
	if e.TTL.Revision > at.TTL.Revision && p.Life.Follows() {
		at.TTL = at.TTL.Or(p.Life.Default()).Change(e.TTL.Revision, e.TTL.Default, at.Time)
	}
	return e.writeLocked(p, at)
}

// operationHead is about how many bytes of a record an operation takes beside its key, id and body.
const operationHead = 32

// records has the memory of records that the log has taken, of at most keptRecord bytes each.
var records = sync.Pool{New: func() any { return new([]byte) }}

const keptRecord = 64 << 10

// writeLocked appends and puts what was judged.
func (e *Entry) writeLocked(p *physical.Partition, at manifest.Applied) (physical.Record, error) {
	if p.Commit.LastSeq > item.MaxSeq-MostSequences {
		return physical.Record{}, fmt.Errorf("partition %d has come to sequence %d: %w", p.ID, p.Commit.LastSeq, ErrNoSequences)
	}
	mark := p.Commit.LastSeq + 1
	seq := mark
	told := at
	if at.TTL == e.before.TTL {
		told.TTL = lifetime.Rule{} // an earlier mark or the manifest has it
	}
	size := 2 * operationHead
	for i, u := range e.Commits {
		if e.Refused[i] == nil {
			size += int(u.Size) + u.versions()*operationHead
		}
	}
	buf := records.Get().(*[]byte)
	record := logrecord.AppendMark(slices.Grow((*buf)[:0], size), mark, told)
	for i, u := range e.Commits {
		if e.Refused[i] != nil {
			continue
		}
		u.Modified = at.Time
		for k := range u.versions() {
			key, ver := u.version(k)
			seq++
			ver.Seq = seq
			record = logrecord.AppendCarried(record, &key, &ver)
		}
	}
	pos, _, err := p.Env.Log.AppendCarriedNow(wal.Stream(p.ID), seq, record)
	if *buf = record; cap(record) <= keptRecord {
		records.Put(buf)
	}
	if err != nil {
		return physical.Record{}, p.Env.Uncertain(err)
	}
	active := p.Version.Load().Active
	next := mark + 1
	for i, u := range e.Commits {
		if e.Refused[i] != nil {
			continue
		}
		if err := u.putLocked(p, active, next); err != nil {
			return physical.Record{}, err
		}
		next = u.Last() + 1
	}
	p.ReachLocked(at)
	return p.NoteLocked(active, seq, pos, e.Sync), nil
}
