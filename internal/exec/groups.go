package exec

import (
	"bytes"
	"context"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
)

// maxGroupOrder is the largest number of groups of which only the first are made: for
// more it is cheaper to make all.
const maxGroupOrder = 10_000

// runGroups gives the results of groups and aggregates. With a limit it makes the first
// groups only, if an index tells which these are.
func (e *Execution) runGroups(yield func(*Row) bool) error {
	var sought *continuation.Digest // of the group to begin behind
	if e.After != nil && e.After.Short != nil {
		sought = &e.After.Short.OrderSum
	} else if e.After != nil {
		e.groupAfter, e.groupBegun = string(e.After.Order), true
	}
	for {
		missing := e.left + min(e.skip, int(^uint(0)>>1)-e.left)
		if e.groupsWanted = 0; missing < maxGroupOrder && sought == nil {
			e.groupsWanted = missing + 1 // one group may give no result
		}
		tested, found := e.documents.Load(), 0
		all, end, err := e.makeGroups()
		if err != nil {
			return err
		}
		for _, key := range all.Keys() {
			if e.groupBegun && key <= e.groupAfter {
				continue
			}
			if end != nil && key >= string(end) {
				break
			}
			e.groupAfter, e.groupBegun = key, true
			if sought != nil {
				if continuation.DigestOf([]byte(key)) == *sought {
					sought = nil
				}
				continue
			}
			found++
			var ok bool
			if e.group.Body, ok = all.Append(nil, key); !ok {
				continue
			}
			if err := e.give(&e.group, Position{Order: []byte(key)}, yield); err != nil {
				return err
			}
		}
		if end == nil && sought != nil {
			return continuation.ErrGone
		}
		if end == nil {
			return nil
		}
		e.reach = reachOn(e.reach, max(missing-found, 1), found, (e.documents.Load()-tested)/int64(len(e.units)))
	}
}

// makeGroups makes the groups behind e.groupAfter: about the first e.groupsWanted of them
// if that is not 0, and all if end is nil. Groups from the key end on may be missing or
// not whole.
func (e *Execution) makeGroups() (all *query.Grouper, end []byte, err error) {
	var mu sync.Mutex
	all = e.Select.Grouper()
	first, err := e.groupOrder()
	if err != nil {
		return nil, nil, err
	}
	err = e.each(0, len(e.units), func() (func(context.Context, int) error, func() error) {
		groups := e.Select.Grouper()
		t := e.tester()
		var order *indexOrder
		if first != nil {
			mine := *first
			order = &mine
		}
		accept := func(k *item.Key, v *item.Version, known bool) ([]byte, bool, error) {
			if !t.match(k, v, known) {
				return nil, false, e.failed()
			}
			groups.Add(t.values())
			return nil, false, checkGroups(groups)
		}
		work := func(ctx context.Context, i int) error {
			if e.counts {
				done, left, countErr := e.countUnit(ctx, &e.units[i], groups, t)
				if left != nil {
					mu.Lock()
					end = earlier(end, left)
					mu.Unlock()
				}
				if done || countErr != nil {
					return countErr
				}
			}
			return e.scan(ctx, &e.units[i], nil, 0, order, t, accept, func(*Row) bool { return true })
		}
		return work, func() error {
			t.done()
			mu.Lock()
			defer mu.Unlock()
			if order != nil && order.leftOut {
				end = earlier(end, order.end)
			}
			all.Merge(groups)
			return checkGroups(all)
		}
	})
	return all, end, err
}

// earlier returns the lesser of two keys, of which nil is the greatest.
func earlier(a, b []byte) []byte {
	if a == nil || b != nil && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// groupOrder returns the index order by the first path of the groups, if it tells which
// documents are of the groups that are wanted; else nil.
func (e *Execution) groupOrder() (*indexOrder, error) {
	if e.ordered == nil || e.counts || e.groupsWanted == 0 {
		return nil, nil
	}
	o := *e.ordered
	o.groups, o.most = true, max(e.groupsWanted, e.reach)
	o.reach = o.most
	paths := 0
	for x := &o; x != nil; x = x.next {
		paths++
	}
	if paths == len(e.Select.Grouper().Grouped()) {
		o.several = e.groupsWanted
	}
	if e.groupBegun {
		if !o.beginAt([]byte(e.groupAfter), true, e.h.Levels()) {
			return nil, ErrBadContinuation
		}
	}
	return &o, nil
}

// widen raises the number of candidates that are wanted to what so many groups have on average,
// if there is a group for all values of the paths together. There are not more groups than that.
func (w *orderWalk) widen(total int64) error {
	if w.o.several == 0 {
		return nil
	}
	groups := 1.0
	for o := w.o; o != nil; o = o.next {
		values, err := w.values(o.span)
		if err != nil {
			return err
		}
		groups *= float64(values + 1) // no value is one too
	}
	more := 1.1 * float64(w.o.several) * float64(total) / groups
	w.most = max(w.most, int(min(more, maxGroupOrder)))
	return nil
}

// fewTerms is the number of terms from which on values estimates.
const fewTerms = 1_000

// values returns about how many values the sources have in a span. It counts them if they are few: what an
// estimate has too many for each path and each source is multiplied.
func (w *orderWalk) values(span index.Span) (int64, error) {
	n := int64(0)
	for _, s := range w.sources {
		terms, err := s.r.Estimate(span)
		if err != nil {
			return 0, err
		}
		n += terms
	}
	if n > fewTerms {
		return n, nil
	}
	seen := make(map[string]bool)
	for _, s := range w.sources {
		for ok := s.cur.Seek(span.From); ok && string(s.cur.Key()) < string(span.To); ok = s.cur.Next() {
			seen[string(s.cur.Key())] = true
			w.sets.Terms++
		}
		if err := s.cur.Err(); err != nil {
			return 0, err
		}
	}
	return int64(len(seen)), nil
}

func checkGroups(g *query.Grouper) error {
	if g.Bytes() > Limits.GroupMemory {
		return &fault.LimitError{What: "groups of a query", Size: g.Bytes(), Limit: Limits.GroupMemory, Kind: fault.ErrTooLarge}
	}
	return nil
}
