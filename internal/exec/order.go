package exec

import (
	"bytes"
	"context"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
	"github.com/cleavestore/cleave/internal/toprows"
	"github.com/cleavestore/cleave/partmap"
)

// An order that no index has is made in passes. Each pass goes over all units and
// keeps the first rows behind the last row of the pass before: as many as are wanted,
// or as fit into memory. A row holds its order key and its key, with the
// columns or, if the query has none, the document. If more than Limits.KeptRows rows are
// wanted, a row holds only the keys, and the document is read again when the row is
// given out.
//
// Where the rows do not fit into memory, the work of passes grows with the square of their number. So if an index
// has the order, the passes that follow take as many rows of it as may hold documents, and read only these.

const (
	mostKept = 32 << 10 // the largest document that rows of its elements hold
	mostRead = 2        // documents that an order by an index may read for a row: as many as a sort that has room for all
)

// position returns the place of a row.
func position(r *toprows.Row) Position {
	pk, id := itemOf(r)
	return Position{Order: r.Key[:r.Order], Key: pk, ID: id}
}

// itemOf returns the key and the id of a row. They share the memory of the row, which is not
// written again.
func itemOf(r *toprows.Row) (partmap.Key, string) {
	at := r.Order + r.EPK
	return partmap.FromTrusted(r.Key[at : at+r.PK]), idOf(r.Key[at+r.PK:])
}

// runOrdered gives results in the order that the query asks for.
func (e *Execution) runOrdered(yield func(*Row) bool) error {
	var after []byte
	if e.After != nil {
		if err := e.checkOrder(e.After.Order); err != nil {
			return err
		}
		epk := e.After.Key.EPK()
		after = append(append(append(bytes.Clone(e.After.Order), epk.Bytes()...), e.After.Key.Encoded()...), e.After.ID...)
	}
	rows := e.rowReader()
	inclusive, least := e.Inclusive, 0
	for first := true; ; first = false {
		e.to.Stats.Passes++
		// A pass goes by one time. An item that expired during the pass would make room
		// among the first candidates for one that the pass has already left out.
		e.pasts = e.h.Pasts()
		top, more, err := e.pass(&passStart{after, inclusive, first, least})
		if err != nil {
			return err
		}
		list := top.Sorted()
		for i := range list {
			row := &list[i]
			if e.skip > 0 && !e.Select.Value {
				e.skip-- // it is a result: there is no need to read it
				continue
			}
			ok, err := rows.read(row)
			if err != nil {
				return err
			}
			if !ok {
				least = min(2*len(list), Limits.KeptRows) // those that follow may have no result either
				continue
			}
			if err := e.give(&rows.result, position(row), yield); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		if len(list) > 0 {
			after, inclusive = list[len(list)-1].Key, false
		}
	}
}

// passStart is where a pass begins.
type passStart struct {
	after     []byte // a sort key; nil: with the first row of all
	inclusive bool   // with the row of after itself, not behind it
	first     bool   // it is the first pass of the query
	least     int    // the pass keeps at least so many rows
}

// behind says whether a sort key lies before the start.
func (s *passStart) behind(key []byte) bool {
	if s.after == nil {
		return false
	}
	c := bytes.Compare(key, s.after)
	return c < 0 || c == 0 && !s.inclusive
}

// most returns how many rows a pass keeps. ordered says that an index has their order. If none
// has, a pass tests all documents, so that there should be few passes.
func (e *Execution) most(ordered bool, start *passStart) int {
	most := e.left + min(e.skip, int(^uint(0)>>1)-e.left)
	switch {
	case e.Ahead == nil:
	case ordered:
		most = min(most, e.limit())
	case start.first:
		most = min(most, max(e.limit(), Limits.KeptRows))
	}
	return max(most, start.least)
}

// checkOrder returns errBadContinuation if key is no order key of the query.
func (e *Execution) checkOrder(key []byte) error {
	for _, o := range e.Select.OrderBy {
		_, n := query.ReadOrder(key, o.Falling, false)
		if n == 0 {
			return ErrBadContinuation
		}
		key = key[n:]
	}
	if len(key) > 0 {
		return ErrBadContinuation
	}
	return nil
}

// pass returns the first rows from a start on. more says that other rows may follow them.
func (e *Execution) pass(start *passStart) (rows *toprows.Rows, more bool, err error) {
	most := e.most(true, start)
	steps := most > maxIndexOrder && e.steps(start)
	if steps {
		most = Limits.KeptRows
	}
	var all *toprows.Rows
	var mu sync.Mutex
	first, err := e.orderFrom(start, most)
	if err != nil {
		return nil, false, err
	}
	if first == nil {
		most = e.most(false, start)
	}
	tested := e.documents.Load()
	var left []byte  // sort key from which on candidates were left out
	var leftOut bool // candidates that come after all rows were left out
	var unsure bool  // candidates were taken that may not match
	if first != nil {
		first.top = &toprows.Shared{Rows: toprows.Rows{Most: most, Memory: Limits.OrderMemory}}
		first.top.Reserve(min(most, Limits.KeptRows))
		all = &first.top.Rows
		defer func() {
			for i := range e.units {
				e.drop(&e.units[i])
			}
		}()
	}
	worker := func() (func(context.Context, int) error, func() error) {
		t := e.tester()
		var order *indexOrder
		var top *toprows.Rows
		var wants func(key []byte) bool
		var offer func(*toprows.Row)
		if first != nil {
			mine := *first
			order, wants, offer = &mine, mine.top.Wants, mine.top.Offer
		} else {
			top = &toprows.Rows{Most: most, Memory: Limits.OrderMemory}
			wants, offer = top.Wants, top.Offer
		}
		// Rows that give no result take no place, unless an index has the order: it goes on behind the last of them.
		sifts := e.Select.Value && first == nil
		rows := e.rowReader()
		var row toprows.Row
		var key []byte
		at := 0
		// put offers the row of a document with the order key that key has. It returns false if
		// later ones are not wanted either.
		put := func(k *item.Key, v *item.Version) bool {
			row = toprows.Row{Order: len(key), EPK: len(k.EPK), PK: len(k.PK), Unit: at}
			key = append(append(append(key, k.EPK...), k.PK...), k.ID...)
			if start.behind(key) {
				return true
			}
			if !wants(key) {
				return false
			}
			// The rows of the elements of a document would hold it once each.
			hold := most <= Limits.KeptRows && !(e.Select.ByElement && len(v.Body) > mostKept)
			var body []byte
			if hold || sifts {
				body = rows.row(v.Body)
			}
			if sifts && len(body) == 0 {
				return true
			}
			if row.Key = key; hold {
				row.Ver = *v
				row.Ver.Body = body
			}
			offer(&row)
			return true
		}
		elements := query.ElementKeys{Falling: e.Select.OrderBy[0].Falling}
		accept := func(k *item.Key, v *item.Version, known bool) ([]byte, bool, error) {
			if order != nil && order.key != nil && known {
				if !t.look(k, v) {
					return nil, false, nil
				}
				t.matched++
				key = append(key[:0], order.key...)
			} else {
				if !t.match(k, v, known) {
					return nil, false, e.failed()
				}
				if e.Select.ByElement {
					for _, element := range elements.Of(&t.eval.Wanted[0]) {
						if key = append(key[:0], element...); !put(k, v) {
							break
						}
					}
					return nil, false, nil
				}
				key = e.Select.AppendOrder(key[:0], t.eval)
				if order != nil && order.source != nil {
					order.source.learn(key)
				}
			}
			put(k, v)
			return nil, false, nil
		}
		work := func(ctx context.Context, i int) error {
			at = i
			return e.scan(ctx, &e.units[i], nil, 0, order, t, accept, func(*Row) bool { return true })
		}
		return work, func() error {
			t.done()
			mu.Lock()
			defer mu.Unlock()
			if order != nil {
				leftOut, unsure = leftOut || order.leftOut, unsure || order.unsure
				left = earlier(left, order.end)
				return nil
			}
			if all == nil {
				all = top
			} else {
				all.Merge(top)
			}
			return nil
		}
	}
	for from, to := 0, len(e.units); from < len(e.units); from = to {
		if first != nil {
			if to, err = e.spread(first, from); err != nil {
				return nil, false, err
			}
		}
		if err = e.each(from, to, worker); err != nil {
			return nil, false, err
		}
	}
	if left != nil {
		all.Merge(&toprows.Rows{End: left})
	}
	switch {
	case unsure:
		e.reach = reachOn(e.reach, most-all.Len(), all.Len(), e.documents.Load()-tested)
	case first != nil && all.Len() == 0:
		e.ordered = nil // the first candidates of the index have expired
	}
	if steps && first != nil {
		e.sorts = e.documents.Load()-tested > mostRead*int64(all.Len())
	}
	return all, all.End != nil || leftOut, nil
}

// steps says whether a pass for many rows takes only the first of them, by an index: if a sort had no room for all, or if all
// documents of the container are results. In a smaller scope an index has terms of others too, and a sort may take less. It does
// not if that has read several documents for a row.
func (e *Execution) steps(start *passStart) bool {
	return e.ordered != nil && !e.sorts && (!start.first || e.Scope.all() && e.look.plan.Op == termset.All && e.look.exact)
}

// reachOn returns how many candidates the next pass takes of an order, after one that has taken
// reach of them, and has found some of what is wanted among so many documents: as many as should
// do for what is missing, if as many match.
func reachOn(reach, missing, found int, tested int64) int {
	if found == 0 {
		return min(max(reach, missing), maxReach) * reachGrowth
	}
	needed := 1.25 * float64(missing) * float64(tested) / float64(found)
	return int(min(max(needed, 16), maxReach))
}

// The reach of a pass grows by reachGrowth while nothing matches, and up to maxReach.
const (
	reachGrowth = 4
	maxReach    = 1 << 29
)

// maxIndexOrder is the largest number of results for which an index gives the order:
// for more results it is cheaper to sort.
const maxIndexOrder = 10_000

// orderFrom returns the index order for a pass; nil: the pass must sort.
func (e *Execution) orderFrom(start *passStart, most int) (*indexOrder, error) {
	if e.ordered == nil || most > maxIndexOrder {
		return nil, nil
	}
	o := *e.ordered
	o.most, o.reach = most, max(most, e.reach)
	if start.after == nil {
		return &o, nil
	}
	if !start.inclusive {
		o.most++ // the item at the point itself
		o.reach++
	}
	if !o.beginAt(start.after, false, e.h.Levels()) {
		return nil, ErrBadContinuation
	}
	return &o, nil
}

// beginAt makes the order, and those that follow it, begin behind a sort key. whole says
// that it is the key of a group. It returns false if it is no such key.
func (o *indexOrder) beginAt(after []byte, whole bool, levels int) bool {
	var v query.Value
	n := 0
	if o.composite != nil {
		n = o.beginComposite(after)
	} else if v, n = query.ReadOrder(after, o.falling, whole); n > 0 {
		o.begin(&v)
		o.after.order = after[:n]
	}
	if n == 0 {
		return false
	}
	rest := after[n:]
	if o.next != nil {
		next := *o.next
		if !next.beginAt(rest, whole, levels) {
			return false
		}
		o.next = &next
	}
	if !o.single {
		o.after.whole = false
		return true
	}
	width := levels * item.MaxEPK / item.MaxLevels
	if len(rest) < width {
		return false
	}
	epk, err := partmap.EPKFromBytes(rest[:width])
	if err != nil {
		return false
	}
	pk := partmap.PrefixLen(rest[width:], levels)
	o.after.key = item.Key{Hash: epk.Head(), EPK: rest[:width], PK: rest[width : width+pk], ID: rest[width+pk:]}
	return true
}

// begin makes the order begin at a value. Where terms do not tell which candidates have
// that value, it begins at the first that may.
func (o *indexOrder) begin(v *query.Value) {
	o.after = &orderPoint{whole: true}
	switch v.Kind {
	case jsondoc.KindUndefined:
	case jsondoc.KindArray, jsondoc.KindObject:
		o.after.value = index.OfType(o.path, termset.TypeOf(v.Kind))
	default:
		o.after.value = index.Equal(o.path, termset.ValueOf(*v))
		if o.after.value.Loose {
			o.after.value = index.HasPrefix(o.path, v.Text) // without the string that has no more than the prefix
			o.after.whole = false
		}
	}
}

// rowReader reads the documents of rows.
type rowReader struct {
	e         *Execution
	eval      *query.Evaluator // nil: whole documents
	projector *query.Projector
	body      []byte // of the newest row
	result    Row
	item      []byte // key of the result, if the next row may be one of the same document
}

func (e *Execution) rowReader() *rowReader {
	r := &rowReader{e: e}
	if len(e.Select.Columns) > 0 {
		r.eval = query.Compile(&query.Filter{}, e.Select.ColumnPaths()).Evaluator()
		r.projector = e.Select.Projector()
	}
	return r
}

// row returns the columns of a document, in memory that the next call uses again, or
// without columns the document itself. It is empty if the only column has no value.
func (r *rowReader) row(body []byte) []byte {
	if r.eval == nil {
		return body
	}
	r.eval.Match(body)
	r.body, _ = r.projector.Append(r.body[:0], r.eval.Wanted)
	return r.body
}

// read sets result to the result of a row; ok is false if there is none: the document
// has expired, or its only column has no value.
func (r *rowReader) read(row *toprows.Row) (ok bool, err error) {
	pk, id := itemOf(row)
	if v := &row.Ver; v.Seq != 0 {
		r.item = nil // the result is of another item from now on
		r.result = Row{Key: pk, ID: id, Seq: v.Seq, Modified: v.Modified, Expires: v.Expires, Charge: cost.Read(len(v.Body)), Body: v.Body}
		return len(v.Body) > 0, nil
	}
	if r.e.Select.ByElement {
		if bytes.Equal(r.item, row.Key[row.Order:]) {
			return true, nil
		}
		r.item = row.Key[row.Order:]
		defer func() {
			if !ok {
				r.item = nil
			}
		}()
	}
	u := &r.e.units[row.Unit]
	r.result, ok, err = r.e.h.Read(r.e.ctx, pk, id, u.at, u.installEpoch)
	if err == nil && r.e.Snapshot != nil { // what was not found may be gone since the snapshot was closed
		err = r.e.Snapshot.Check()
	}
	if ok = ok && err == nil; ok && r.eval != nil {
		r.result.Body = bytes.Clone(r.row(r.result.Body))
	}
	return ok && len(r.result.Body) > 0, err
}
