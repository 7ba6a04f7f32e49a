package writebatch

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/conflict"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/wal"
)

// ErrAgain says that what was looked up without a lock may not be true any more: it must be
// looked up again.
var ErrAgain = errors.New("set of files, or what was looked up, has changed")

// ErrChanged says that a transaction met a conflict.
var ErrChanged = errors.New("changed since the transaction began")

// rangesAgain is how often ranges of a transaction are looked up again without the commit
// lock while writes keep coming. After that they are looked up under it.
const rangesAgain = 3

// Commit is a batch that is being committed.
type Commit struct {
	*Batch
	Reads    *conflict.Reads  // of the transaction whose writes the batch has; nil: it is none
	First    uint64           // sequence of the first operation, once it is written
	Modified int64            // time stamp
	Counted  keysizes.Counted // by Measure; the caller ends it

	files  uint64 // state of the set of files when the operations were looked up
	ahead  uint64 // the newest sequence of the partition at that time
	again  int    // how often a transaction was looked up again
	large  error  // the documents that patches made are too large together: the others were not made
	claims uniquekey.Reservation
	// asOf is that by which the batch of an entry is judged; nil: the container's present.
	asOf *lifetime.Past
}

// past says by what has expired the batch is judged.
func (u *Commit) past() lifetime.Past {
	if u.asOf != nil {
		return *u.asOf
	}
	return u.in.Past()
}

// Last returns the sequence of the last version, of an operation or a claim.
func (u *Commit) Last() uint64 { return u.First + uint64(u.versions()) - 1 }

// versions returns how many versions the batch writes.
func (u *Commit) versions() int { return len(u.Ops) + u.claims.Len() }

// Patches says whether an operation is a patch: the batch has no size before LookAhead.
func (u *Commit) Patches() bool { return u.patches > 0 }

// Weigh returns the size of the batch, with the documents that its patches make. The error
// is a *fault.LimitError; its size may be without some of these documents.
func (u *Commit) Weigh() (size int64, err error) {
	if u.patches == 0 || u.large != nil {
		return u.Size, u.large
	}
	for i := range u.Ops {
		size += u.sizeOf(u.Ops[i].ID(), u.Ops[i].Body())
	}
	for i := range u.checks {
		size += u.sizeOf(u.checks[i].id, nil)
	}
	return size, u.fits(size)
}

// ClaimBytes is an upper bound of the memory for the claims of the batch.
func (u *Commit) ClaimBytes() (size int64) {
	if u.rules.Unique == nil {
		return 0
	}
	for i := range u.Ops {
		size += u.rules.Unique.MostBytes(len(u.pk), u.Ops[i].idLen)
	}
	return size
}

// Measure tests a batch whose documents have size bytes against the limit of its logical
// partition, and counts it. Of several operations on one item, only the last one counts.
// If there is no error, the caller ends Counted.
func (u *Commit) Measure(ctx context.Context, sizes *keysizes.Sizes, size int64) error {
	if sizes.Small(&u.Counted, size) {
		return nil
	}
	size = 0
	for i := range u.Ops {
		if u.Ops[i].final {
			size += int64(len(u.Ops[i].Body()))
		}
	}
	k := u.Key(nil)
	return sizes.Count(ctx, &u.Counted, &k, size, func() (replaced int64, err error) {
		for i := range u.Ops {
			if !u.Ops[i].final {
				continue
			}
			k := u.ItemKey(i)
			n, err := sizes.OfItem(&k)
			if err != nil {
				return 0, err
			}
			replaced += n
		}
		return replaced, nil
	})
}

// Expires returns when the first document that the batch has written expires, 0: never.
func (u *Commit) Expires(life *lifetime.Life) (first int64) {
	for i := range u.Ops {
		op := &u.Ops[i]
		if op.Deletes() {
			continue
		}
		if at := life.Expires(u.Modified, op.Expires(u.Modified)); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// LookAhead finds, without a lock, the present versions that the operations depend on, and
// makes the documents of patches. The error is ErrChanged or one of reading.
func (u *Commit) LookAhead(ctx context.Context, p *physical.Partition) error {
	if u.Reads != nil {
		u.ahead = p.LastSeq()
	}
	guard := p.Env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	u.files = v.Generation
	if u.Reads != nil {
		// If nothing was written above the transaction's sequence, there can be no
		// conflict.
		if u.ahead > u.Reads.At() {
			if changed, err := u.Reads.Check(ctx, v, u); err != nil {
				return err
			} else if changed {
				return ErrChanged
			}
		}
	} else if err := u.lookUp(ctx, v); err != nil {
		return err
	}
	if u.rules.Unique == nil || u.large != nil {
		return nil
	}
	return u.lookUpClaims(v)
}

// lookUp looks up the items of conditions, and of operations that depend on them. It stops
// when the documents that patches make are too large for the batch: Weigh refuses it then.
func (u *Commit) lookUp(ctx context.Context, v *lsm.Version) (err error) {
	u.large = nil
	for i := range u.checks {
		c := &u.checks[i]
		key := u.Key(c.id)
		c.found = Found{}
		if _, c.found.Exists, err = v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, true, &c.found.Version); err != nil {
			return err
		}
	}
	if cap(u.found) < len(u.Ops) {
		u.found = make([]Found, len(u.Ops))
	}
	u.found = u.found[:len(u.Ops)]
	size := u.Size
	for i := range u.Ops {
		op, found := &u.Ops[i], &u.found[i]
		*found = Found{}
		switch {
		case op.Verb == Patch:
			if err = u.lookUpPatched(ctx, v, i); err == nil {
				size += int64(len(op.Body()))
				if u.large = u.fits(size); u.large != nil {
					return nil
				}
			}
		case op.earlier < 0 && op.Conditional():
			key := u.ItemKey(i)
			_, found.Exists, err = v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, true, &found.Version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUpPatched finds the document that patch i changes, and makes the patched one. It
// stores an error of the patch in op.failed, which counts when the operation is judged. It
// makes no document if the item does not exist or has another etag: then the operation is
// refused anyway.
func (u *Commit) lookUpPatched(ctx context.Context, v *lsm.Version, i int) error {
	op, found := &u.Ops[i], &u.found[i]
	op.data, op.failed = op.data[:op.idLen], nil
	var body []byte
	if op.earlier >= 0 {
		before := &u.Ops[op.earlier]
		if before.Deletes() || before.failed != nil {
			return nil
		}
		body = before.Body()
	} else {
		var err error
		key := u.ItemKey(i)
		if body, found.Exists, err = v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, false, &found.Version); err != nil {
			return err
		}
		found.Version.Body = nil
		// failed still refuses the operation if the item is judged to exist after all,
		// because the clock was set back meanwhile.
		if op.failed = op.Check(&found.Version, found.Exists, u.past()); op.failed != nil {
			return nil
		}
	}
	var ttl int64
	if body, ttl, op.failed = u.in.Patched(ctx, op.ID(), body, found.Version.Seq, op.Patch); op.failed == nil {
		op.data = append(op.data, body...)
		if !op.GivenTTL {
			op.TTL = ttl
		}
	} else if err := ctx.Err(); err != nil {
		return err // the patch was not judged
	}
	return nil
}

// dropPatched lets go of the documents that patches have made: the batch is refused.
func (u *Commit) dropPatched() {
	for i := range u.Ops {
		if op := &u.Ops[i]; op.Verb == Patch {
			op.data = bytes.Clone(op.ID())
		}
	}
}

// lookUpClaims looks up the claims that the batch changes. The caller is inside a guard.
// The documents that patches make must be known.
func (u *Commit) lookUpClaims(v *lsm.Version) error {
	u.claims.Begin(u.rules.Unique, u.rules.Replicated, u.rules.Follows, u.Key(nil), &u.epk)
	for i := range u.Ops {
		switch op := &u.Ops[i]; {
		case !op.final:
		case op.Deletes():
			u.claims.Delete(i, op.ID())
		default:
			u.claims.Put(i, op.ID(), op.Body(), op.TTL)
		}
	}
	return u.claims.LookUp(v, u.past())
}

// JudgeLocked tests what the batch requires. On a refusal, rests is the newest sequence of
// the versions that were tested: that of the refused operation and those before it. The
// error is ErrAgain, ErrChanged, an *Error, or of a transaction a *UniqueKeyError.
func (u *Commit) JudgeLocked(p *physical.Partition) (rests uint64, err error) {
	guard := p.Env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	if v.Generation != u.files {
		return 0, ErrAgain
	}
	if u.Reads != nil {
		err = u.compareLocked(p, v)
	} else {
		rests, err = u.judgeOps(v)
	}
	if err != nil || u.rules.Unique == nil {
		return rests, err
	}
	claims, err := u.checkClaims(v)
	return max(rests, claims), err
}

// compareLocked checks the memtables again if the partition was written to since LookAhead.
func (u *Commit) compareLocked(p *physical.Partition, v *lsm.Version) error {
	if p.Commit.LastSeq <= u.ahead {
		return nil // nothing was written since
	}
	if u.Reads.Ranges() > 0 && u.again < rangesAgain {
		u.again++
		return ErrAgain
	}
	if u.Reads.CheckMemory(v, u) {
		return ErrChanged
	}
	return nil
}

// judgeChecks tests the conditions. newest is the newest sequence of the versions that were
// tested.
func (u *Commit) judgeChecks(v *lsm.Version, past lifetime.Past) (newest uint64, err error) {
	for i := range u.checks {
		c := &u.checks[i]
		key := u.Key(c.id)
		var newer item.Version
		if v.LookupMemory(key.Lookup(), lsm.MaxSequence, &newer) {
			c.found.Version, c.found.Exists = newer, true
		}
		newest = max(newest, c.found.sequence())
		there := c.found.Exists && lsm.Shown(&c.found.Version, past)
		if there != (c.ifMatch != 0) || there && c.found.Version.Seq != c.ifMatch {
			return newest, &Error{Index: i, Op: Check.String(), Err: fault.ErrPrecondition}
		}
	}
	return newest, nil
}

// judgeOps tests the conditions, then what the operations require, in their order.
func (u *Commit) judgeOps(v *lsm.Version) (rests uint64, err error) {
	past := u.past()
	if rests, err = u.judgeChecks(v, past); err != nil {
		return rests, err
	}
	for i := range u.Ops {
		op, found, expired := &u.Ops[i], &u.found[i], past
		if !op.Conditional() {
			continue
		}
		if op.earlier >= 0 {
			// Its sequence is not known yet, so no etag matches it. Nor has it expired.
			*found, expired = Found{Exists: true}, lifetime.Past{}
			if u.Ops[op.earlier].Deletes() {
				found.Version.Flags = item.Tombstone
			}
		} else {
			key := u.ItemKey(i)
			var newer item.Version
			if v.LookupMemory(key.Lookup(), lsm.MaxSequence, &newer) {
				if op.outdated(&found.Version, &newer) {
					return 0, ErrAgain
				}
				found.Version, found.Exists = newer, true
			}
			rests = max(rests, found.sequence())
		}
		err := op.Check(&found.Version, found.Exists, expired)
		if err == nil {
			err = op.failed
		}
		if err != nil {
			return rests, &Error{Index: i, Op: op.Verb.String(), Err: err}
		}
	}
	return rests, nil
}

// checkClaims says whether the batch may make its changes of claims. A refusal depends on
// versions up to sequence rests. The commit lock is held.
func (u *Commit) checkClaims(v *lsm.Version) (rests uint64, err error) {
	rests, err = u.claims.Check(v, u.past())
	if err == uniquekey.ErrChanged {
		return rests, ErrAgain
	}
	taken, ok := errors.AsType[*uniquekey.TakenError](err)
	if !ok {
		return rests, err
	}
	op := &u.Ops[taken.Op]
	err = &UniqueKeyError{Paths: taken.Paths, Holder: taken.Holder, ID: string(op.ID())}
	if u.Reads == nil {
		err = &Error{Index: taken.Op, Op: op.Verb.String(), Err: err}
	}
	return rests, err
}

// WriteLocked appends the record of the batch to the log, and puts its versions into the
// memtable. modified is its time stamp. After an error of the log the partition is as it
// was; after one of the memtable the store has failed.
func (u *Commit) WriteLocked(p *physical.Partition, modified int64, sync bool) (physical.Record, error) {
	u.Modified = modified
	if u.versions() == 0 { // there are only conditions
		w := p.NewestLocked()
		if sync {
			w.Need = w.Pos
		}
		return w, nil
	}
	payload := u.Scratch[:0]
	for i := range u.versions() {
		key, ver := u.version(i)
		payload = append(logrecord.AppendHead(payload, &key, &ver), ver.Body...)
	}
	u.Scratch = payload
	first, pos, err := p.Env.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, uint32(u.versions()), payload, nil)
	if err != nil {
		return physical.Record{}, p.Env.Uncertain(err)
	}
	active := p.Version.Load().Active
	if err := u.putLocked(p, active, first); err != nil {
		return physical.Record{}, err
	}
	return p.NoteLocked(active, u.Last(), pos, sync), nil
}

// putLocked puts the versions of the batch into the memtable, with sequences from first on.
func (u *Commit) putLocked(p *physical.Partition, active *memtable.Table, first uint64) error {
	u.First = first
	for i := range u.versions() {
		key, ver := u.version(i)
		ver.Seq = first + uint64(i)
		if err := active.Put(&key, &ver, true); err != nil {
			return p.Env.Lost(err)
		}
	}
	return nil
}

// version returns version i of the batch, without its sequence. The versions are those of
// the operations, then the claims, then the tombstones of items that lost their claims.
func (u *Commit) version(i int) (item.Key, item.Version) {
	if i >= len(u.Ops) {
		return u.claims.Version(i-len(u.Ops), u.Modified)
	}
	op := &u.Ops[i]
	switch op.Verb {
	case Delete:
		return u.ItemKey(i), item.Version{Modified: u.Modified, Flags: item.Tombstone}
	case Expire:
		return u.ItemKey(i), lifetime.Tombstone(u.Modified, u.rules.Follows)
	}
	return u.ItemKey(i), item.Version{Modified: u.Modified, Expires: op.Expires(u.Modified), Body: op.Body()}
}

// Charge returns the RU of the batch, which ended with err.
func (u *Commit) Charge(err error) (charge float64) {
	if err != nil {
		return cost.Failed
	}
	for i := range u.Ops {
		charge += u.Ops[i].Charge()
	}
	return charge + float64(len(u.checks))*cost.Read(0)
}
