package raftlog

import (
	"fmt"

	"github.com/cleavestore/cleave/wal"
)

// replay makes a group out of what the manifest says of it and of its records, in order.
//
// It keeps the terms and places of all entries that it is given, those up to the base too: an append that lies
// before the base may have replaced entries behind it, at a time when the base was not there
// yet. Only at the end the entries up to the base are cut off. In memory are the newest ones, as many as later.
type replay struct {
	state      groupState
	hard       hardState // of the newest record that has one
	first      uint64    // index of the first entry, and of the next one if there is none; 0: no record yet
	tail       tail
	memory     int64 // bytes of the newest entries that are kept in memory
	installing *Base
}

// add adds a record that is at a place of the log.
func (r *replay) add(d *record, at wal.Ref) error {
	if r.installing != nil && d.kind != kindDone && d.kind != kindVoid {
		return fmt.Errorf("the installation of entry %d has not ended", r.installing.Index)
	}
	switch {
	case d.hard.term == 0:
	case d.hard.term < r.hard.term || d.hard.term == r.hard.term && r.hard.vote != 0 && d.hard.vote != r.hard.vote:
		return fmt.Errorf("hard state %+v after %+v", d.hard, r.hard)
	case d.kind == kindInstall:
		r.hard = hardState{d.hard.term, d.hard.vote, r.hard.commit}
	default:
		r.hard = hardState{d.hard.term, d.hard.vote, max(r.hard.commit, d.hard.commit)}
	}
	switch d.kind {
	case kindInstall:
		r.installing = &d.base
	case kindDone, kindVoid:
		return r.end(d)
	}
	if len(d.entries) == 0 {
		return nil
	}
	return r.append(d, at)
}

// end ends an installation. The record of its begin is there, or the base has come past it.
func (r *replay) end(d *record) error {
	in := r.installing
	r.installing = nil
	base := &r.state.base
	switch {
	case in == nil && d.base.Index > base.Index, in != nil && in.Index != d.base.Index:
		return fmt.Errorf("the end of an installation of entry %d that has not begun", d.base.Index)
	case d.kind == kindVoid:
		return nil
	case in != nil && in.Index > base.Index:
		*base = *in
	}
	r.first, r.tail = d.base.Index+1, tail{}
	return nil
}

// append appends entries.
func (r *replay) append(d *record, at wal.Ref) error {
	next := r.first + uint64(len(r.tail.slots))
	switch {
	case r.first == 0 || d.first < r.first || d.first > next:
		// The records before this one were dropped, or are of an older log that it replaces.
		if d.first > r.state.base.Index+1 {
			return fmt.Errorf("entry %d, the one before it is missing", d.first)
		}
		r.first, r.tail = d.first, tail{}
	}
	keep, term := int(d.first-r.first), uint64(0)
	if keep > 0 {
		term = r.tail.slots[keep-1].term
	}
	for _, e := range d.entries {
		if e.GetTerm() < term {
			return fmt.Errorf("entry %d of term %d after one of term %d", e.GetIndex(), e.GetTerm(), term)
		}
		term = e.GetTerm()
	}
	r.tail.replace(keep, d.entries, place{Ref: at})
	r.tail.shrink(r.memory, 0)
	return nil
}

// finish makes the group. An error says why it cannot be all that was acknowledged.
func (r *replay) finish(s *Store) (*Group, error) {
	base, noted := &r.state.base, r.state.hard
	if n := len(r.tail.slots); n > 0 && r.first <= base.Index {
		skip := min(base.Index+1-r.first, uint64(n))
		if at := r.tail.slots[skip-1].term; r.first+skip-1 == base.Index && at != base.Term {
			return nil, fmt.Errorf("entry %d is of term %d, the base says %d", base.Index, at, base.Term)
		}
		r.tail.cut(int(skip))
		r.first += skip
	}
	if r.hard.term == 0 {
		r.hard = noted
	}
	if r.hard.term < noted.term || r.hard.term == noted.term && noted.vote != 0 && r.hard.vote != noted.vote {
		return nil, fmt.Errorf("the hard state is %+v, the manifest notes %+v", r.hard, noted)
	}
	// The manifest may note a higher commit (see Group.Check), and what is in the base was
	// committed.
	r.hard.commit = max(r.hard.commit, noted.commit, base.Index)
	last, term := base.Index, base.Term
	if n := len(r.tail.slots); n > 0 {
		last, term = r.first+uint64(n)-1, r.tail.slots[n-1].term
		if first := r.tail.slots[0].term; r.first != base.Index+1 || first < base.Term {
			return nil, fmt.Errorf("the first entry is %d of term %d, the base %d of term %d", r.first, first, base.Index, base.Term)
		}
	}
	switch {
	case r.hard.commit > last:
		return nil, fmt.Errorf("entry %d was committed, the last one is %d", r.hard.commit, last)
	case r.hard.term < term:
		return nil, fmt.Errorf("the last entry is of term %d, the hard state of %d", term, r.hard.term)
	}
	g := s.newGroup(&r.state)
	g.mu.hard, g.mu.committed, g.mu.installing = r.hard, r.hard.commit, r.installing
	g.mu.tail = r.tail
	return g, nil
}
