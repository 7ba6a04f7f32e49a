package engine

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// What a batch leaves decides about unique keys, not the order of its operations:
// an item may take values that another one gives up in the same batch. Before the
// commit lock is taken the present documents of its items are read, for the values
// that they have, and the claims on those and on the new values. Under the lock
// nothing of that may have changed; else it is looked up again.
//
// The claims of an item that has expired are free. But the clock may be ahead, and
// the item there again once it is right. So whoever takes one of its claims
// deletes the item, with all of its claims. Not in a replicated container: there
// time does not go back.

// claimChange is what a batch does with a claim.
type claimChange struct {
	incumbent         // the present claim
	id        claimID // of the claim
	holder    string  // who has it
	taker     int     // operation whose item has the values afterwards, -1: none
	giver     int     // operation whose item had them before, -1: none
	twice     int     // another operation whose item has them afterwards, -1: none
	lived     bool    // somebody had the claim when it was looked up
}

// goneItem is an item that has expired and loses its claims.
type goneItem struct {
	incumbent
	id []byte
}

// heldItem is the present version of the item of an operation, the last one on
// that item.
type heldItem struct {
	incumbent
	op   int
	seen bool // it had not expired
}

// lookUpClaims finds out what the batch does with claims. The caller is inside a
// guard; documents that patches make are known.
func (p *partition) lookUpClaims(v *version, u *commit) error {
	u.claims, u.held, u.gone = u.claims[:0], u.held[:0], u.gone[:0]
	places := make(map[claimID]int)
	change := func(id claimID) *claimChange {
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
	var had, has, stale []claimID
	for i := range u.ops {
		op := &u.ops[i]
		if !op.final {
			continue
		}
		held := heldItem{op: i}
		key := u.key(op.id())
		body, exists, err := v.lookup(&key, &u.epk, maxSequence, (*buf)[:0], false, &held.version)
		if err != nil {
			return p.db.readError(err)
		}
		held.exists, held.version.Body = exists, nil
		had, has = had[:0], has[:0]
		if held.seen = exists && visible(&held.version, now); held.seen {
			had = u.c.unique.claims(had, body)
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
			has = u.c.unique.claims(has, op.body())
		}
		lasts := held.version.Expires == 0 && op.ttl == 0
		for n := range had {
			if len(has) == 0 || has[n] != had[n] {
				change(had[n]).giver = i
			}
		}
		for n := range has {
			if len(had) > 0 && has[n] == had[n] && lasts {
				continue // as it is
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
		holder, exists, err := v.lookup(&key, &u.epk, maxSequence, (*buf)[:0], false, &c.version)
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

// writes says whether an operation is on the item.
func (u *commit) writes(id string) bool {
	return slices.ContainsFunc(u.ops, func(op batchOp) bool { return string(op.id()) == id })
}

// bury notes that an item which has expired is deleted, if it is there, and adds the
// claims that it has to ids.
func (p *partition) bury(v *version, u *commit, id string, now int64, ids []claimID) ([]claimID, error) {
	gone := goneItem{id: []byte(id)}
	if slices.ContainsFunc(u.gone, func(g goneItem) bool { return bytes.Equal(g.id, gone.id) }) {
		return ids, nil
	}
	key := u.key(gone.id)
	body, exists, err := v.lookup(&key, &u.epk, maxSequence, nil, false, &gone.version)
	if err != nil {
		return nil, p.db.readError(err)
	}
	if !exists || !gone.version.IsDocument() || visible(&gone.version, now) {
		return ids, nil
	}
	gone.exists, gone.version.Body = true, nil
	u.gone = append(u.gone, gone)
	return p.claimsOf(v, u, gone.id, body, ids)
}

// claimsOf adds to ids the claims for a document that its item has indeed: others
// may have taken them when it had expired.
func (p *partition) claimsOf(v *version, u *commit, id, body []byte, ids []claimID) ([]claimID, error) {
	n := len(ids)
	ids = u.c.unique.claims(ids, body)
	kept := ids[:n]
	for _, claim := range ids[n:] {
		key := u.key(claim[:])
		var ver item.Version
		holder, exists, err := v.lookup(&key, &u.epk, maxSequence, nil, false, &ver)
		if err != nil {
			return nil, p.db.readError(err)
		}
		if exists && !ver.Deleted() && bytes.Equal(holder, id) {
			kept = append(kept, claim)
		}
	}
	return kept, nil
}

// judgeClaimsLocked says whether the batch may do that. rests is the newest sequence
// of the items and claims that were looked up: on these a refusal rests. The commit
// lock is held.
func (p *partition) judgeClaimsLocked(v *version, u *commit) (rests uint64, err error) {
	var newer item.Version
	changed := func(id []byte, found *incumbent) bool {
		key := u.key(id)
		return v.lookupMemory(key.Lookup(), maxSequence, &newer) && newer.Seq != found.version.Seq
	}
	now := u.now()
	for i := range u.held {
		held := &u.held[i]
		if changed(u.ops[held.op].id(), &held.incumbent) || held.seen != (held.exists && visible(&held.version, now)) {
			return 0, errFilesChanged
		}
		rests = max(rests, held.sequence())
	}
	for i := range u.claims {
		if changed(u.claims[i].id[:], &u.claims[i].incumbent) || u.claims[i].lived != u.claims[i].live(now) {
			return 0, errFilesChanged
		}
		rests = max(rests, u.claims[i].sequence())
	}
	for i := range u.gone {
		if changed(u.gone[i].id, &u.gone[i].incumbent) || visible(&u.gone[i].version, now) {
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

// live says whether somebody has the claim.
func (c *claimChange) live(now int64) bool {
	return c.exists && !c.version.Deleted() && (c.version.Expires == 0 || c.version.Expires > now)
}

// taken is the error of an operation whose item cannot have a claim.
func (u *commit) taken(c *claimChange, op int, holder string) error {
	err := &UniqueKeyError{Paths: u.c.unique.paths[c.id[1]], Holder: holder}
	if u.tx != nil {
		return err
	}
	return &BatchError{Index: op, Op: verbNames[u.ops[op].verb], Err: err}
}

// claim returns the version that the batch writes of a claim, without its
// sequence.
func (u *commit) claim(i int) (item.Key, item.Version) {
	c := &u.claims[i]
	key := u.key(c.id[:])
	if c.taker < 0 {
		return key, item.Version{Modified: u.modified, Flags: item.Tombstone}
	}
	op := &u.ops[c.taker]
	return key, item.Version{Modified: u.modified, Expires: expires(u.modified, op.ttl), Flags: item.Claim, Body: op.id()}
}

// claimBytes bounds what the claims of the batch take in memory.
func (u *commit) claimBytes() (size int64) {
	if u.c.unique == nil {
		return 0
	}
	for i := range u.ops {
		size += int64(len(u.c.unique.paths)) * 2 * int64(len(u.pk.Encoded())+len(claimID{})+u.ops[i].idLen)
	}
	return size
}
