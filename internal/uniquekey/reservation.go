package uniquekey

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// ErrChanged says that an item or a claim was written, or has expired, since it was looked
// up: the batch must look them up again.
var ErrChanged = errors.New("items or claims of the batch have changed")

// TakenError says that another item has the values of a unique key.
type TakenError struct {
	Op     int      // operation whose item cannot have them
	Paths  []string // of the unique key
	Holder string   // id of the item that has them
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("operation %d: item %q has these values at %v", e.Op, e.Holder, e.Paths)
}

// Reservation is what a batch does with the claims of its logical partition. Unique keys
// are checked against the state after the whole batch, not operation by operation: an item
// may take values that another item gives up in the same batch.
//
// Before the commit lock is taken, LookUp reads the present documents of the batch's
// items, and the claims on their present and new values. Under the lock, Check finds out
// whether one of these has changed; then the batch begins anew. The batch writes the
// versions of the reservation behind those of its operations.
//
// The claims of an expired item are free. But the clock may be ahead, and then the item
// exists again once the clock is right. So a batch that takes one of the item's claims
// also deletes the item, with all of its claims. A replicated container does not need
// that: its time does not go back.
//
// The zero Reservation has no versions. It is for one goroutine.
type Reservation struct {
	keys       *Keys
	replicated bool
	follows    bool     // items without a time to live of their own follow the container's default
	partition  item.Key // without an id
	epk        *partmap.EPK
	items      []reserving
	changes    []change
	gone       []goneItem // expired items: their tombstones are written too
}

// found is a version as LookUp found it.
type found struct {
	version item.Version
	exists  bool
}

// sequence returns the version's sequence, 0 if there is none.
func (f *found) sequence() uint64 {
	if !f.exists {
		return 0
	}
	return f.version.Seq
}

// reserving is an item that the batch writes.
type reserving struct {
	found          // its present version
	op      int    // the last operation on the item
	id      []byte // of the item
	body    []byte // that it gets, if it is not deleted
	ttl     int64  // see lifetime.Stored
	deletes bool
	seen    bool // it existed and had not expired when it was looked up
}

// change is what the batch does with one claim.
type change struct {
	found          // the present version of the claim
	id     ClaimID // key of the claim
	holder string  // id of the item that has it
	taker  int     // place in items of the item that gets or keeps the claim, -1: none
	giver  int     // place of the item that gives the claim up, -1: none
	twice  int     // place of a second item that would get the claim, -1: none
	lived  bool    // the claim was live when it was looked up
	orphan bool    // its item is gone: see LookUp
}

// goneItem is an expired item that the batch deletes with its claims.
type goneItem struct {
	found
	id []byte
}

// Begin begins anew, with a batch of the logical partition. Claims are looked up as those
// of a replicated container if replicated is set. With follows, a claim is written anew with
// its item, so that it is as old as the item is: the default time to live of the container
// may change. epk is that of the partition.
func (r *Reservation) Begin(k *Keys, replicated, follows bool, partition item.Key, epk *partmap.EPK) {
	r.keys, r.replicated, r.follows, r.partition, r.epk = k, replicated, follows, partition, epk
	r.items, r.changes, r.gone = r.items[:0], r.changes[:0], r.gone[:0]
}

// Put says that the batch writes an item: op is the last operation on it. ttl is that of
// lifetime.Stored.
func (r *Reservation) Put(op int, id, body []byte, ttl int64) {
	r.items = append(r.items, reserving{op: op, id: id, body: body, ttl: ttl})
}

// Delete says that the batch deletes an item: op is the last operation on it.
func (r *Reservation) Delete(op int, id []byte) {
	r.items = append(r.items, reserving{op: op, id: id, deletes: true})
}

// key returns the sort key of an item or claim of the logical partition.
func (r *Reservation) key(id []byte) item.Key {
	k := r.partition
	k.ID = id
	return k
}

// lookUp reads the newest version of an item or claim; buf may be reused for its body.
func (r *Reservation) lookUp(v *lsm.Version, id, buf []byte, out *found) (body []byte, err error) {
	key := r.key(id)
	body, out.exists, err = v.Lookup(&key, r.epk, lsm.MaxSequence, buf, false, &out.version)
	out.version.Body = nil
	return body, err
}

// LookUp looks up the items of the batch and the claims that it changes. past says what has
// expired. The caller is inside an epoch guard.
func (r *Reservation) LookUp(v *lsm.Version, past lifetime.Past) error {
	places := make(map[ClaimID]int)
	changeOf := func(id ClaimID) *change {
		at, ok := places[id]
		if !ok {
			at = len(r.changes)
			places[id] = at
			r.changes = append(r.changes, change{id: id, taker: -1, giver: -1, twice: -1})
		}
		return &r.changes[at]
	}
	buf := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	var had, has, stale []ClaimID
	for i := range r.items {
		it := &r.items[i]
		body, err := r.lookUp(v, it.id, (*buf)[:0], &it.found)
		if err != nil {
			return err
		}
		had, has = had[:0], has[:0]
		if it.seen = it.exists && lsm.Shown(&it.version, past); it.seen {
			had = r.keys.Claims(had, body)
		} else if it.exists && it.version.IsDocument() && !r.replicated {
			if stale, err = r.claimsOf(v, it.id, body, stale[:0]); err != nil {
				return err
			}
			for _, id := range stale {
				changeOf(id).giver = i
			}
		}
		if !it.deletes {
			has = r.keys.Claims(has, it.body)
		}
		lasts := it.version.Expires == 0 && it.ttl == 0 && !r.follows
		for n := range had {
			if len(has) == 0 || has[n] != had[n] {
				changeOf(had[n]).giver = i
			}
		}
		for n := range has {
			if len(had) > 0 && has[n] == had[n] && lasts {
				continue // it stays as it is
			}
			if c := changeOf(has[n]); c.taker < 0 {
				c.taker = i
			} else {
				c.twice = i
			}
		}
	}
	for i := 0; i < len(r.changes); i++ {
		c := &r.changes[i]
		holder, err := r.lookUp(v, c.id[:], (*buf)[:0], &c.found)
		if err != nil {
			return err
		}
		c.holder, c.lived = string(holder), c.live(past)
		if c.lived && r.follows && c.taker >= 0 && !r.writes(c.holder) {
			// The item may have been removed when it had expired, perhaps written again with other
			// values since, and the default be longer now. A claim is written behind its item.
			var of found
			if _, err = r.lookUp(v, holder, nil, &of); err != nil {
				return err
			}
			c.orphan = !of.exists || of.version.Deleted() || of.version.Seq > c.version.Seq
			c.lived = !c.orphan
		}
		if c.taker >= 0 && c.exists && !c.lived && !c.version.Deleted() && !r.replicated && !r.writes(c.holder) {
			if had, err = r.bury(v, c, past, had[:0]); err != nil {
				return err
			}
			for _, id := range had {
				changeOf(id)
			}
		}
	}
	return nil
}

// writes says whether the batch writes the item.
func (r *Reservation) writes(id string) bool {
	return slices.ContainsFunc(r.items, func(it reserving) bool { return string(it.id) == id })
}

// bury adds the expired item that holds a claim, if it exists, to r.gone, and its claims to ids.
func (r *Reservation) bury(v *lsm.Version, c *change, past lifetime.Past, ids []ClaimID) ([]ClaimID, error) {
	gone := goneItem{id: []byte(c.holder)}
	if slices.ContainsFunc(r.gone, func(g goneItem) bool { return bytes.Equal(g.id, gone.id) }) {
		return ids, nil
	}
	body, err := r.lookUp(v, gone.id, nil, &gone.found)
	if err != nil {
		return nil, err
	}
	if !gone.exists || !gone.version.IsDocument() || lsm.Shown(&gone.version, past) || r.follows && gone.version.Seq > c.version.Seq {
		return ids, nil // it is there, or was written again with other values
	}
	r.gone = append(r.gone, gone)
	return r.claimsOf(v, gone.id, body, ids)
}

// claimsOf adds to ids those claims on a document's values that its item still has.
// Another item may have taken some when this one had expired.
func (r *Reservation) claimsOf(v *lsm.Version, id, body []byte, ids []ClaimID) ([]ClaimID, error) {
	n := len(ids)
	ids = r.keys.Claims(ids, body)
	kept := ids[:n]
	for _, claim := range ids[n:] {
		var at found
		holder, err := r.lookUp(v, claim[:], nil, &at)
		if err != nil {
			return nil, err
		}
		if at.exists && !at.version.Deleted() && bytes.Equal(holder, id) {
			kept = append(kept, claim)
		}
	}
	return kept, nil
}

// Check says whether the batch may make its changes of claims, by what has expired now: nil,
// *TakenError or ErrChanged. rests is the newest sequence of the items and claims that
// were looked up: a refusal depends on them. The commit lock is held. What LookUp found
// in files must still be so; Check asks the memtables again.
func (r *Reservation) Check(v *lsm.Version, past lifetime.Past) (rests uint64, err error) {
	var newer item.Version
	changed := func(id []byte, was *found) bool {
		key := r.key(id)
		return v.LookupMemory(key.Lookup(), lsm.MaxSequence, &newer) && newer.Seq != was.version.Seq
	}
	for i := range r.items {
		it := &r.items[i]
		if changed(it.id, &it.found) || it.seen != (it.exists && lsm.Shown(&it.version, past)) {
			return 0, ErrChanged
		}
		rests = max(rests, it.sequence())
	}
	for i := range r.changes {
		c := &r.changes[i]
		if changed(c.id[:], &c.found) || c.lived != c.live(past) {
			return 0, ErrChanged
		}
		rests = max(rests, c.sequence())
	}
	for i := range r.gone {
		if changed(r.gone[i].id, &r.gone[i].found) || lsm.Shown(&r.gone[i].version, past) {
			return 0, ErrChanged
		}
	}
	for i := range r.changes {
		c := &r.changes[i]
		if c.twice >= 0 {
			return rests, r.taken(c, c.twice, string(r.items[c.taker].id))
		}
		if c.taker < 0 || !c.live(past) || c.holder == string(r.items[c.taker].id) {
			continue
		}
		if c.giver < 0 || c.holder != string(r.items[c.giver].id) {
			return rests, r.taken(c, c.taker, c.holder)
		}
	}
	return rests, nil
}

// live says whether the claim exists and is neither deleted nor expired.
func (c *change) live(past lifetime.Past) bool {
	return c.exists && !c.orphan && !c.version.Deleted() && !past.Gone(&c.version)
}

// taken returns the error for an item that cannot have a claim, because holder has it.
func (r *Reservation) taken(c *change, at int, holder string) error {
	return &TakenError{Op: r.items[at].op, Paths: slices.Clone(r.keys.Paths(c.id)), Holder: holder}
}

// Len returns how many versions the batch writes for its claims.
func (r *Reservation) Len() int { return len(r.changes) + len(r.gone) }

// Version returns version i, below Len, without its sequence: those of the claims, then
// the tombstones of items that lost their claims. modified is the time stamp of the batch.
func (r *Reservation) Version(i int, modified int64) (item.Key, item.Version) {
	if n := i - len(r.changes); n >= 0 {
		return r.key(r.gone[n].id), lifetime.Tombstone(modified, r.follows)
	}
	c := &r.changes[i]
	key := r.key(c.id[:])
	if c.taker < 0 {
		return key, item.Version{Modified: modified, Flags: item.Tombstone}
	}
	it := &r.items[c.taker]
	return key, item.Version{Modified: modified, Expires: lifetime.Stored(modified, it.ttl), Flags: item.Claim, Body: it.id}
}

// MostBytes is an upper bound of the memory for the claims that an operation changes on an
// item: key and id are the lengths of its partition key and id.
func (k *Keys) MostBytes(key, id int) int64 {
	return int64(k.Len()) * 2 * int64(key+len(ClaimID{})+id)
}
