package engine

import (
	"github.com/cleavestore/cleave/internal/item"
)

// What a batch leaves decides about unique keys, not the order of its operations:
// an item may take values that another one gives up in the same batch. Before the
// commit lock is taken the present documents of its items are read, for the values
// that they have, and the claims on those and on the new values. Under the lock
// nothing of that may have changed; else it is looked up again.

// claimChange is what a batch does with a claim.
type claimChange struct {
	incumbent         // the present claim
	id        claimID // of the claim
	holder    string  // who has it
	taker     int     // operation whose item has the values afterwards, -1: none
	giver     int     // operation whose item had them before, -1: none
	twice     int     // another operation whose item has them afterwards, -1: none
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
	u.claims, u.held = u.claims[:0], u.held[:0]
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
	var had, has []claimID
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
	for i := range u.claims {
		c := &u.claims[i]
		key := u.key(c.id[:])
		holder, exists, err := v.lookup(&key, &u.epk, maxSequence, (*buf)[:0], false, &c.version)
		if err != nil {
			return p.db.readError(err)
		}
		c.exists, c.holder, c.version.Body = exists, string(holder), nil
	}
	return nil
}

// judgeClaimsLocked says whether the batch may do that. rests is the newest sequence
// of the items and claims that were looked up: on these a refusal rests. The commit
// lock is held.
func (p *partition) judgeClaimsLocked(v *version, u *commit) (rests uint64, err error) {
	var newer item.Version
	changed := func(id []byte, found *incumbent) bool {
		key := u.key(id)
		return v.lookupMemory(&key, maxSequence, &newer) && newer.Seq != found.version.Seq
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
		if changed(u.claims[i].id[:], &u.claims[i].incumbent) {
			return 0, errFilesChanged
		}
		rests = max(rests, u.claims[i].sequence())
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
