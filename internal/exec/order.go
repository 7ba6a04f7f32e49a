package exec

import (
	"bytes"
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// An order that no index has is made in passes. Each pass goes over all units and
// keeps the first rows behind the last row of the pass before: as many as are wanted,
// or as fit into memory. A row holds its order key and its key, with the
// columns or, if the query has none, the document. If more than keptRows rows are
// wanted, a row holds only the keys, and the document is read again when the row is
// given out.
const (
	rowOverhead = 128
	keptRows    = 1000     // most rows that hold columns or documents
	rowText     = 32 << 10 // the memory of rows grows in steps of this size, in bytes
)

// orderRow is a row of a pass. Its sort key is the order key, EPK, encoded
// partition key and id, one behind the other. Sort keys compare as bytes.
type orderRow struct {
	key   []byte // the sort key
	order int    // length of the order key
	epk   int    // length of the EPK
	pk    int    // length of the encoded partition key
	unit  int
	// ver is the document, if the row keeps it: then Seq is not 0. If the query has
	// columns, they are its body.
	ver item.Version
}

func (r *orderRow) size() int64 { return int64(len(r.key)+len(r.ver.Body)) + rowOverhead }

func (r *orderRow) position() Position {
	pk, id := r.item()
	return Position{Order: r.key[:r.order], Key: pk, ID: id}
}

// item returns the key and the id of the row. They share the memory of the row, which
// is not written again.
func (r *orderRow) item() (partmap.Key, string) {
	at := r.order + r.epk
	return partmap.FromTrusted(r.key[at : at+r.pk]), idOf(r.key[at+r.pk:])
}

// topRows keeps the first of many rows: all rows before end, and none from end on.
// Rows have any size. It is a heap with the last row on top.
type topRows struct {
	rows   []orderRow
	bytes  int64
	most   int   // limit of rows
	memory int64 // limit of bytes; one row is kept even if it is larger
	// end is the key of the first of all rows that were left out; nil: none was.
	// A row behind end is not kept even if there is room: it would be given out before
	// the rows that were left out.
	end    []byte
	heaped bool   // rows are a heap; false: they have no order yet
	text   []byte // memory that rows share while heaped is false
}

// sharedRows are the topRows of several goroutines.
type sharedRows struct {
	mu sync.Mutex
	topRows
	leftOut bool // candidates that come after all rows were left out
	unsure  bool // candidates were taken that may not match
}

func (s *sharedRows) offer(r *orderRow) {
	s.mu.Lock()
	s.topRows.offer(r)
	s.mu.Unlock()
}

func (s *sharedRows) wants(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topRows.wants(key)
}

// last returns a key behind which no row is kept any more, nil if there is none yet.
func (s *sharedRows) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) < s.most {
		return s.end
	}
	s.heap()
	return s.rows[0].key
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (t *topRows) Len() int           { return len(t.rows) }
func (t *topRows) Less(i, j int) bool { return bytes.Compare(t.rows[i].key, t.rows[j].key) > 0 }
func (t *topRows) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }
func (t *topRows) Push(x any)         { t.rows = append(t.rows, x.(orderRow)) }
func (t *topRows) Pop() any {
	last := t.rows[len(t.rows)-1]
	t.rows = t.rows[:len(t.rows)-1]
	return last
}

// heap makes a heap of the rows.
func (t *topRows) heap() {
	if !t.heaped {
		heap.Init(t)
		t.heaped = true
	}
}

// wants says whether a row with this key would be kept, if there is memory.
// If it would not, the row counts as left out.
func (t *topRows) wants(key []byte) bool {
	if t.end != nil && bytes.Compare(key, t.end) >= 0 {
		return false
	}
	if len(t.rows) < t.most {
		return true
	}
	t.heap()
	if bytes.Compare(key, t.rows[0].key) < 0 {
		return true
	}
	t.end = bytes.Clone(key)
	return false
}

// offer adds a row if it is among the first. It copies the memory that r points to.
func (t *topRows) offer(r *orderRow) {
	if !t.wants(r.key) {
		return
	}
	if len(t.rows) > 0 && t.bytes+r.size() > t.memory {
		t.heap()
		if bytes.Compare(r.key, t.rows[0].key) > 0 {
			t.end = bytes.Clone(r.key)
			return
		}
	}
	own := append(append(t.room(len(r.key)+len(r.ver.Body)), r.key...), r.ver.Body...)
	row := *r
	row.key, row.ver.Body = own[:len(r.key):len(r.key)], own[len(r.key):]
	t.bytes += row.size()
	t.rows = append(t.rows, row)
	if t.heaped {
		heap.Fix(t, len(t.rows)-1)
	}
	for len(t.rows) > t.most || t.bytes > t.memory && len(t.rows) > 1 {
		t.drop()
	}
}

// room returns n bytes of memory for a row. Rows share larger blocks until the rows
// become a heap.
func (t *topRows) room(n int) []byte {
	if t.heaped {
		return make([]byte, 0, n)
	}
	if n > cap(t.text)-len(t.text) {
		t.text = make([]byte, 0, max(n, min(rowText, n*min(t.most-len(t.rows), rowText))))
	}
	at := len(t.text)
	t.text = t.text[:at+n]
	return t.text[at : at : at+n]
}

// drop leaves out the last row.
func (t *topRows) drop() {
	t.heap()
	t.bytes -= t.rows[0].size()
	t.end = t.rows[0].key
	last := len(t.rows) - 1
	t.rows[0] = t.rows[last]
	t.rows[last] = orderRow{}
	if t.rows = t.rows[:last]; last > 0 {
		heap.Fix(t, 0)
	}
}

// merge adds the rows of o.
func (t *topRows) merge(o *topRows) {
	if t.end == nil || o.end != nil && bytes.Compare(o.end, t.end) < 0 {
		t.end = o.end
	}
	t.rows, t.bytes = append(t.rows, o.rows...), t.bytes+o.bytes
	if t.end != nil {
		t.rows = slices.DeleteFunc(t.rows, func(r orderRow) bool {
			behind := bytes.Compare(r.key, t.end) >= 0
			if behind {
				t.bytes -= r.size()
			}
			return behind
		})
	}
	t.heaped = false
	for len(t.rows) > t.most {
		t.drop()
	}
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
	inclusive := e.Inclusive
	for first := true; ; first = false {
		e.to.Stats.Passes++
		// A pass goes by one time. An item that expired during the pass would make room
		// among the first candidates for one that the pass has already left out.
		e.now = e.h.Times()
		top, more, err := e.pass(&passStart{after, inclusive, first})
		if err != nil {
			return err
		}
		slices.SortFunc(top.rows, func(a, b orderRow) int { return bytes.Compare(a.key, b.key) })
		for i := range top.rows {
			row := &top.rows[i]
			if e.skip > 0 && !e.Select.Value {
				e.skip-- // it is a result: there is no need to read it
				continue
			}
			ok, err := rows.read(row)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := e.give(&rows.result, row.position(), yield); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		if len(top.rows) > 0 {
			after, inclusive = top.rows[len(top.rows)-1].key, false
		}
	}
}

// passStart is where a pass begins.
type passStart struct {
	after     []byte // a sort key; nil: with the first row of all
	inclusive bool   // with the row of after itself, not behind it
	first     bool   // it is the first pass of the query
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
func (e *Execution) most(ordered, first bool) int {
	most := e.left + min(e.skip, int(^uint(0)>>1)-e.left)
	switch {
	case e.Ahead == nil:
	case ordered:
		most = min(most, e.limit())
	case first:
		most = min(most, max(e.limit(), keptRows))
	}
	return most
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
func (e *Execution) pass(start *passStart) (rows *topRows, more bool, err error) {
	most := e.most(true, start.first)
	var all *topRows
	var mu sync.Mutex
	first, err := e.orderFrom(start, most)
	if err != nil {
		return nil, false, err
	}
	if first == nil {
		most = e.most(false, start.first)
	}
	tested := e.documents.Load()
	var left []byte // sort key from which on candidates were left out
	if first != nil {
		first.top = &sharedRows{topRows: topRows{most: most, memory: Limits.OrderMemory}}
		first.top.rows = make([]orderRow, 0, min(most, keptRows))
		all = &first.top.topRows
	}
	err = e.each(func() (func(context.Context, int) error, func() error) {
		t := e.tester()
		var order *indexOrder
		var top *topRows
		var wants func(key []byte) bool
		var offer func(*orderRow)
		if first != nil {
			mine := *first
			order, wants, offer = &mine, mine.top.wants, mine.top.offer
		} else {
			top = &topRows{most: most, memory: Limits.OrderMemory}
			wants, offer = top.wants, top.offer
		}
		rows := e.rowReader()
		var row orderRow
		var key []byte
		at := 0
		accept := func(k *item.Key, v *item.Version, known bool) ([]byte, bool, error) {
			if order != nil && order.key != nil && known {
				if !t.look(k, v) {
					return nil, false, nil
				}
				t.matched++
				key = append(key[:0], order.key...)
			} else {
				if !t.match(k, v, known) {
					return nil, false, nil
				}
				key = appendOrder(key[:0], e.Select, t.eval)
			}
			row = orderRow{order: len(key), epk: len(k.EPK), pk: len(k.PK), unit: at}
			key = append(append(append(key, k.EPK...), k.PK...), k.ID...)
			if start.behind(key) || !wants(key) {
				return nil, false, nil
			}
			if row.key = key; most <= keptRows {
				row.ver = *v
				row.ver.Body = rows.row(v.Body)
			}
			offer(&row)
			return nil, false, nil
		}
		work := func(ctx context.Context, i int) error {
			at = i
			return e.scan(ctx, &e.units[i], nil, 0, order, t, accept, func(*Row) bool { return true })
		}
		return work, func() error {
			t.done()
			if order != nil {
				order.top.mu.Lock()
				defer order.top.mu.Unlock()
				order.top.leftOut, order.top.unsure = order.top.leftOut || order.leftOut, order.top.unsure || order.unsure
				left = earlier(left, order.end)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if all == nil {
				all = top
			} else {
				all.merge(top)
			}
			return nil
		}
	})
	if err != nil {
		return nil, false, err
	}
	if left != nil {
		all.merge(&topRows{end: left})
	}
	if first != nil && first.top.unsure {
		e.reachOn(most-len(all.rows), len(all.rows), e.documents.Load()-tested)
		return all, all.end != nil || first.top.leftOut, nil
	}
	if first != nil && len(all.rows) == 0 {
		e.ordered = nil // the first candidates of the index have expired
	}
	return all, all.end != nil || first != nil && first.top.leftOut, nil
}

// reachOn sets how many candidates the next pass takes of an order in each unit, after
// one that has found some of what is wanted among so many documents: as many as should do
// for what is missing, if as many match.
func (e *Execution) reachOn(missing, found int, tested int64) {
	if found == 0 {
		e.reach = min(max(e.reach, missing), maxReach) * reachGrowth
		return
	}
	needed := 1.25 * float64(missing) * float64(tested) / float64(found) / float64(len(e.units))
	e.reach = int(min(max(needed, 16), maxReach))
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
		o.after.value = index.OfType(o.path, indexType(v.Kind))
	default:
		o.after.value = index.Equal(o.path, indexValue(*v))
		if o.after.value.Loose {
			o.after.value = index.HasPrefix(o.path, v.Text[:index.MaxString])
			o.after.whole = false
		}
	}
}

// appendOrder appends the order key of the document that was matched last.
func appendOrder(key []byte, s *query.Select, eval *query.Evaluator) []byte {
	for i, o := range s.OrderBy {
		from := len(key)
		key = query.AppendOrder(key, &eval.Wanted[i], false)
		if o.Falling {
			query.Invert(key[from:])
		}
	}
	return key
}

// rowReader reads the documents of rows.
type rowReader struct {
	e         *Execution
	eval      *query.Evaluator // nil: whole documents
	projector *query.Projector
	body      []byte // of the newest row
	result    Row
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
func (r *rowReader) read(row *orderRow) (ok bool, err error) {
	pk, id := row.item()
	if v := &row.ver; v.Seq != 0 {
		r.result = Row{Key: pk, ID: id, Seq: v.Seq, Modified: v.Modified, Expires: v.Expires, Charge: cost.Read(len(v.Body)), Body: v.Body}
		return len(v.Body) > 0, nil
	}
	u := &r.e.units[row.unit]
	r.result, ok, err = r.e.h.Read(r.e.ctx, pk, id, u.at, u.installEpoch)
	if ok && r.eval != nil {
		r.result.Body = bytes.Clone(r.row(r.result.Body))
	}
	return ok && len(r.result.Body) > 0, err
}
