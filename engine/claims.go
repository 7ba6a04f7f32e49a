package engine

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/uniquekey"
)

// Unique keys are checked against the state after the whole batch, not operation by
// operation: an item may take values that another item gives up in the same batch. Before
// the commit lock is taken, the batch reads the present documents of its items, and the
// claims on their present and new values. If one of these has changed when the lock is
// held, the batch reads all of them again.
//
// The claims of an expired item are free. But the clock may be ahead, and then the item
// exists again once the clock is right. So a batch that takes one of the item's claims
// also deletes the item, with all of its claims. A replicated container does not need
// that: its time does not go back.

// claimChange is what a batch does with one claim.
type claimChange struct {
	presentVersion                   // the present version of the claim
	id             uniquekey.ClaimID // key of the claim
	holder         string            // id of the item that has it
	taker          int               // operation whose item gets or keeps the claim, -1: none
	giver          int               // operation whose item gives the claim up, -1: none
	twice          int               // a second operation whose item would get the claim, -1: none
	lived          bool              // the claim was live when it was looked up
}

// goneItem is an expired item that the batch deletes with its claims.
type goneItem struct {
	presentVersion
	id []byte
}

// heldItem is the present version of the item of an operation. Only the last operation on
// an item has one.
type heldItem struct {
	presentVersion
	op   int
	seen bool // the item exists and had not expired
}

// lookUpClaims sets u.claims, u.held and u.gone. The caller is inside a guard. The
// documents that patches make must be known.
func (p *partition) lookUpClaims(v *lsm.Version, u *commit) error {
	u.claims, u.held, u.gone = u.claims[:0], u.held[:0], u.gone[:0]
	places := make(map[uniquekey.ClaimID]int)
	change := func(id uniquekey.ClaimID) *claimChange {
		at, ok := places[id]
		if !ok {
			at = len(u.claims)
			places[id] = at
			u.claims = append(u.claims, claimChange{id: id, taker: -1, giver: -1, twice: -1})
		}
		return &u.claims[at]
	}
	buf := borrowed.Get().(*[]byte)
	defer borrowed.Put(buf)
	now := u.now()
	var had, has, stale []uniquekey.ClaimID
	for i := range u.ops {
		op := &u.ops[i]
		if !op.final {
			continue
		}
		held := heldItem{op: i}
		key := u.key(op.id())
		body, exists, err := v.Lookup(&key, &u.epk, lsm.MaxSequence, (*buf)[:0], false, &held.version)
		if err != nil {
			return p.db.readError(err)
		}
		held.exists, held.version.Body = exists, nil
		had, has = had[:0], has[:0]
		if held.seen = exists && lsm.Shown(&held.version, now); held.seen {
			had = u.c.unique.Claims(had, body)
		} else if exists && held.version.IsDocument() && !u.c.def.Replicated {
			if stale, err = p.claimsOf(v, u, op.id(), body, stale[:0]); err != nil {
				return err
			}
			for _, id := range stale {
				change(id).giver = i
			}
		}
		u.held = append(u.held, held)
		if op.verb != verbDelete {
			has = u.c.unique.Claims(has, op.body())
		}
		lasts := held.version.Expires == 0 && op.ttl == 0
		for n := range had {
			if len(has) == 0 || has[n] != had[n] {
				change(had[n]).giver = i
			}
		}
		for n := range has {
			if len(had) > 0 && has[n] == had[n] && lasts {
				continue // it stays as it is
			}
			if c := change(has[n]); c.taker < 0 {
				c.taker = i
			} else {
				c.twice = i
			}
		}
	}
	for i := 0; i < len(u.claims); i++ {
		c := &u.claims[i]
		key := u.key(c.id[:])
		holder, exists, err := v.Lookup(&key, &u.epk, lsm.MaxSequence, (*buf)[:0], false, &c.version)
		if err != nil {
			return p.db.readError(err)
		}
		c.exists, c.holder, c.version.Body = exists, string(holder), nil
		c.lived = c.live(now)
		if c.taker >= 0 && exists && !c.lived && !c.version.Deleted() && !u.c.def.Replicated && !u.writes(c.holder) {
			had, err = p.bury(v, u, c.holder, now, had[:0])
			if err != nil {
				return err
			}
			for _, id := range had {
				change(id)
			}
		}
	}
	return nil
}

// writes says whether an operation of the batch is on the item.
func (u *commit) writes(id string) bool {
	return slices.ContainsFunc(u.ops, func(op batchOp) bool { return string(op.id()) == id })
}

// bury adds an expired item, if it exists, to u.gone, and its claims to ids.
func (p *partition) bury(v *lsm.Version, u *commit, id string, now int64, ids []uniquekey.ClaimID) ([]uniquekey.ClaimID, error) {
	gone := goneItem{id: []byte(id)}
	if slices.ContainsFunc(u.gone, func(g goneItem) bool { return bytes.Equal(g.id, gone.id) }) {
		return ids, nil
	}
	key := u.key(gone.id)
	body, exists, err := v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, false, &gone.version)
	if err != nil {
		return nil, p.db.readError(err)
	}
	if !exists || !gone.version.IsDocument() || lsm.Shown(&gone.version, now) {
		return ids, nil
	}
	gone.exists, gone.version.Body = true, nil
	u.gone = append(u.gone, gone)
	return p.claimsOf(v, u, gone.id, body, ids)
}

// claimsOf adds to ids those claims on a document's values that its item still has.
// Another item may have taken some when this one had expired.
func (p *partition) claimsOf(v *lsm.Version, u *commit, id, body []byte, ids []uniquekey.ClaimID) ([]uniquekey.ClaimID, error) {
	n := len(ids)
	ids = u.c.unique.Claims(ids, body)
	kept := ids[:n]
	for _, claim := range ids[n:] {
		key := u.key(claim[:])
		var ver item.Version
		holder, exists, err := v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, false, &ver)
		if err != nil {
			return nil, p.db.readError(err)
		}
		if exists && !ver.Deleted() && bytes.Equal(holder, id) {
			kept = append(kept, claim)
		}
	}
	return kept, nil
}

// judgeClaimsLocked says whether the batch may make its changes of claims. rests is the
// newest sequence of the items and claims that were looked up: a refusal depends on them.
// The commit lock is held.
func (p *partition) judgeClaimsLocked(v *lsm.Version, u *commit) (rests uint64, err error) {
	var newer item.Version
	changed := func(id []byte, found *presentVersion) bool {
		key := u.key(id)
		return v.LookupMemory(key.Lookup(), lsm.MaxSequence, &newer) && newer.Seq != found.version.Seq
	}
	now := u.now()
	for i := range u.held {
		held := &u.held[i]
		if changed(u.ops[held.op].id(), &held.presentVersion) || held.seen != (held.exists && lsm.Shown(&held.version, now)) {
			return 0, errFilesChanged
		}
		rests = max(rests, held.sequence())
	}
	for i := range u.claims {
		if changed(u.claims[i].id[:], &u.claims[i].presentVersion) || u.claims[i].lived != u.claims[i].live(now) {
			return 0, errFilesChanged
		}
		rests = max(rests, u.claims[i].sequence())
	}
	for i := range u.gone {
		if changed(u.gone[i].id, &u.gone[i].presentVersion) || lsm.Shown(&u.gone[i].version, now) {
			return 0, errFilesChanged
		}
	}
	for i := range u.claims {
		c := &u.claims[i]
		if c.twice >= 0 {
			return rests, u.taken(c, c.twice, string(u.ops[c.taker].id()))
		}
		if c.taker < 0 || !c.live(now) || c.holder == string(u.ops[c.taker].id()) {
			continue
		}
		if c.giver < 0 || c.holder != string(u.ops[c.giver].id()) {
			return rests, u.taken(c, c.taker, c.holder)
		}
	}
	return rests, nil
}

// live says whether the claim exists and is neither deleted nor expired.
func (c *claimChange) live(now int64) bool {
	return c.exists && !c.version.Deleted() && (c.version.Expires == 0 || c.version.Expires > now)
}

// taken returns the error of an operation whose item cannot have a claim, because holder
// has it.
func (u *commit) taken(c *claimChange, op int, holder string) error {
	err := &UniqueKeyError{Paths: u.c.unique.Paths(c.id), Holder: holder}
	if u.tx != nil {
		return err
	}
	return &BatchError{Index: op, Op: verbNames[u.ops[op].verb], Err: err}
}

// claim returns the version that the batch writes for claim i, without its sequence.
func (u *commit) claim(i int) (item.Key, item.Version) {
	c := &u.claims[i]
	key := u.key(c.id[:])
	if c.taker < 0 {
		return key, item.Version{Modified: u.modified, Flags: item.Tombstone}
	}
	op := &u.ops[c.taker]
	return key, item.Version{Modified: u.modified, Expires: expires(u.modified, op.ttl), Flags: item.Claim, Body: op.id()}
}

// claimBytes is an upper bound of the memory for the claims of the batch.
func (u *commit) claimBytes() (size int64) {
	if u.c.unique == nil {
		return 0
	}
	for i := range u.ops {
		size += int64(u.c.unique.Len()) * 2 * int64(len(u.pk.Encoded())+len(uniquekey.ClaimID{})+u.ops[i].idLen)
	}
	return size
}
