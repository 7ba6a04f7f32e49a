package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
	"github.com/cleavestore/cleave/partmap"
)

// Execution is a running query.
//
// For each physical partition in its scope, it pins the sequence at which it
// reads. This divides the scope into units, which several goroutines process.
// Partitions may be replaced meanwhile: a unit is a part of the key space, and
// its scan goes on in the partitions that now hold this part.
type Execution struct {
	Query
	ctx    context.Context
	h      Host
	to     *Progress
	skip   int                             // results to leave out before the first
	left   int                             // results still wanted
	likely int                             // rows in the order of keys that are likely to be taken; 0: all
	pasts  func(partmap.EPK) lifetime.Past // of a pass: see scanner.pasts
	sorts  bool                            // an order by an index has read too many documents: passes sort

	units   []unit
	first   [1]unit      // memory of units
	look    *lookup      // nil: all documents in scope are read
	counts  bool         // groups are counted in indexes
	ordered *indexOrder  // nil: no index has the order
	reach   int          // candidates to take in an order if some of them may not match; 0: as many as are wanted
	wanted  []query.Path // paths whose values the query needs: for columns, order or groups

	compiling sync.Once
	program   *query.Program // of the filter and wanted; see evaluator

	documents, bytes, matched, found, terms atomic.Int64

	group        Row    // that yield is shown
	groupAfter   string // groups are wanted behind this key,
	groupBegun   bool   // if this is set; else from the first on
	groupsWanted int    // so many; 0: all

	admission sync.Once
	refused   error // what admission has found; nil: the query was admitted

	failure atomic.Pointer[error] // why a condition could not be tested

	charging sync.Mutex
	charge   float64 // RU
}

// spend adds to the charge of the query.
func (e *Execution) spend(charge float64) {
	e.charging.Lock()
	e.charge += charge
	e.charging.Unlock()
}

// admit refuses the query while the throughput of the partition that it reads first is
// consumed; then it has read nothing. Once it was admitted, it waits instead: a query that
// was refused after it had read would read the same again, and never end.
func (e *Execution) admit(p Part, u *unit) error {
	e.admission.Do(func() { e.refused = p.Admit(u.key.Encoded(), false) })
	return e.refused
}

// unit is a part of the scope that is read at one sequence.
type unit struct {
	key          partmap.Key // set if the unit is a single logical partition
	rng          partmap.Range
	at           uint64 // the sequence
	installEpoch uint64 // installations in the container when at was taken
	pinned       pins.Pin
	pin          bool // at is pinned
	same         bool // the unit begins in the physical partition in which the previous one ends

	opened *candidates // that scan reads; nil: it opens them
	part   Part        // whose candidates are opened
}

// plan decides how the query is answered.
func (e *Execution) plan() error {
	var groups *query.Grouper
	switch {
	case e.Select.Grouped():
		groups = e.Select.Grouper()
		e.wanted = groups.Paths()
	case len(e.Select.OrderBy) > 0:
		e.wanted = e.Select.OrderPaths()
	default:
		e.wanted = e.Select.ColumnPaths()
	}
	results := e.Select.Where.Op == query.All && !e.Select.Grouped() && len(e.Select.OrderBy) == 0 && !e.Sorts && !e.Sifts
	e.planBy(e.h.Policy(), groups)
	if e.NoScan && e.scans() && !results { // where each document is a result, it is not sought
		return fmt.Errorf("%w: %s", ErrNeedsScan, jsondoc.Clip(e.Select.Where.String()))
	}
	return nil
}

// planBy decides which conditions the indexes of a policy answer; a nil policy has none.
// groups are those of the query, nil for none.
func (e *Execution) planBy(policy *index.Compiled, groups *query.Grouper) {
	if policy != nil {
		p := termset.Planner{Policy: policy}
		look := &lookup{policy: policy}
		where, value := e.Select.Where, e.valuePath(policy)
		if value != nil && len(e.Select.OrderBy) == 0 && e.bounded() {
			where = &query.Filter{Op: query.And, Sub: []*query.Filter{where, {Op: query.Exists, Path: value}}}
		}
		if e.Array != nil && e.bounded() && !e.Select.ByElement {
			if _, containers := policy.Covers(termset.PathOf(e.Array)); containers {
				where = &query.Filter{Op: query.And, Sub: []*query.Filter{where, {Op: query.IsKind, Path: e.Array, Kinds: 1 << jsondoc.KindArray}}}
			}
		}
		look.plan, look.exact = p.Plan(where, false)
		look.composites = p.Names
		e.counts = groups != nil && e.countable(policy, groups) && look.exact
		var first []query.Order
		switch {
		case groups == nil:
			first = e.Select.OrderBy
		case e.Select.Limit > 0 && !e.counts && groups.Grouped() != nil:
			for _, path := range groups.Grouped() {
				first = append(first, query.Order{Path: path})
			}
		}
		if groups == nil && len(first) > 0 && !e.Select.ByElement {
			e.ordered = e.compositeOrder(policy, look.exact)
		}
		if len(first) > 0 && e.ordered == nil {
			e.ordered = e.orderSpan(policy, first)
			if e.ordered != nil && value != nil && termset.PathOf(value) == e.ordered.path {
				e.ordered.all = false
			}
			if e.ordered != nil && !e.ordered.all && !e.ordered.elements {
				e.ordered.rest = look.plan.Without(e.ordered.span)
			}
		}
		if look.plan.Op != termset.All || e.counts || e.ordered != nil {
			e.look = look
		}
	}
}

// valuePath returns the path of which the results are bare values: a document without a value there
// has no result. nil: there is none, all documents have a value, or the index does not tell.
func (e *Execution) valuePath(policy *index.Compiled) query.Path {
	if !e.Select.Value || e.Select.Grouped() || e.Select.Columns[0].Path.String() == "/id" {
		return nil
	}
	path := e.Select.Columns[0].Path
	if scalars, containers := policy.Covers(termset.PathOf(path)); !scalars || !containers {
		return nil
	}
	return path
}

// scans says whether documents must be read one by one to find the results.
func (e *Execution) scans() bool {
	if e.Select.Where.Never() {
		return false
	}
	if e.look == nil {
		return true
	}
	p := termset.Planner{Policy: e.look.policy, Found: true}
	plan, _ := p.Plan(e.Select.Where, false)
	return plan.Op == termset.All && !e.counts && (e.ordered == nil || !e.look.exact)
}

// countable says whether indexes alone can count the groups of the query.
func (e *Execution) countable(policy *index.Compiled, g *query.Grouper) bool {
	paths, apart := g.Apart()
	if _, one := g.OnlyPath(); !one && (!apart || len(paths) > maxApart) {
		return false
	}
	for _, path := range paths {
		if scalars, _ := policy.Covers(termset.PathOf(path)); !scalars {
			return false
		}
	}
	return true
}

// maxApart is the number of paths up to which aggregates are computed in indexes, path by
// path. Beyond that it is cheaper to read the documents once.
const maxApart = 4

// orderSpan returns an indexOrder by the paths of the query's order, or of its groups, with
// the span of the terms that candidates can have. It returns nil if the index does not
// cover the first path.
func (e *Execution) orderSpan(policy *index.Compiled, paths []query.Order) *indexOrder {
	path := termset.PathOf(paths[0].Path)
	if scalars, containers := policy.Covers(path); !scalars || !containers {
		return nil
	}
	o := &indexOrder{path: path, read: paths[0].Path, span: index.Exists(path), all: true, falling: paths[0].Falling, single: len(paths) == 1 && !e.Select.Grouped()}
	if e.Select.ByElement {
		// A document without elements has no row, and one that a condition on an element finds
		// has rows of the others too.
		o.all, o.elements = false, true
		return o
	}
	if len(paths) > 1 {
		o.next = e.orderSpan(policy, paths[1:])
	}
	name := paths[0].Path.String()
	e.Select.Where.Every(func(f *query.Filter) {
		if !o.all || f.Path.String() != name {
			return
		}
		p := termset.Planner{Policy: policy}
		switch f.Op {
		case query.Eq, query.Range, query.Prefix:
			if n, _ := p.Leaf(f); n.Op == termset.Spans && len(n.Spans) == 1 {
				o.span, o.all = n.Spans[0], false
			}
		}
	})
	return o
}

// pin makes the units and pins their sequences. The caller is inside a call on
// the container.
func (e *Execution) pin() error {
	e.units = e.first[:0]
	within, err := e.rangeOf(e.Scope.Key)
	if err != nil {
		return err
	}
	within, some := e.Scope.clip(within)
	if !some {
		return nil
	}
	levels := e.h.Levels()
	if e.Scope.one(levels) {
		e.pinUnit(nil, e.Scope.Key, within)
		return nil
	}
	keys := e.Scope.Keys
	if keys == nil {
		if n := e.h.Parts(); n > len(e.first) {
			e.units = make([]unit, 0, n)
		}
		e.pinRange(nil, within)
		return nil
	}
	// Indexes count the groups of a whole physical partition at once.
	each := e.Scope.Apart || !e.counts && len(keys) <= Limits.KeyUnits
	var last Part
	for _, key := range keys {
		rng, err := e.rangeOf(key)
		if err != nil {
			return err
		}
		if rng, some = e.Scope.clip(rng); !some {
			continue
		}
		switch {
		case !each:
			last = e.pinAround(last, rng, within)
		case key.Len() == levels:
			last = e.pinUnit(last, key, rng)
		default:
			last = e.pinRange(last, rng)
		}
	}
	return nil
}

// rangeOf returns the part of the key space of a key, or of a prefix of keys. For a whole
// key it begins and ends at its EPK; for the zero key it is all.
func (e *Execution) rangeOf(key partmap.Key) (partmap.Range, error) {
	if !key.Valid() {
		return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, nil
	}
	if key.Len() == e.h.Levels() {
		epk := key.EPK()
		return partmap.Range{Min: epk, Max: epk}, nil
	}
	r, err := key.Range()
	if err != nil {
		return r, fmt.Errorf("scope: %w", err)
	}
	return r, nil
}

// pinUnit adds a unit: the first part of rng, up to the end of the physical
// partition in which rng begins. last is the partition of the previous unit, nil
// if there is none: units in one partition share a sequence. pinUnit returns the
// partition of the new unit.
func (e *Execution) pinUnit(last Part, key partmap.Key, rng partmap.Range) Part {
	var u unit
	if has(last, &rng.Min) {
		u = e.units[len(e.units)-1]
		if u.rng, u.same = rng, true; u.pin {
			e.h.PinAgain(u.pinned)
		}
	} else {
		last, u = e.pinAt(rng)
		e.to.Stats.Partitions++
	}
	of := &last.Data().Range
	if u.key = key; of.Max.Compare(&u.rng.Max) < 0 {
		u.rng.Max = of.Max
	}
	e.units = append(e.units, u)
	return last
}

// has says whether a partition, which may be nil, has a place of the key space.
func has(p Part, at *partmap.EPK) bool { return p != nil && p.Data().Range.Contains(at) }

// pinRange adds the units of a range, one for each physical partition.
func (e *Execution) pinRange(last Part, rest partmap.Range) Part {
	for !rest.Empty() {
		last = e.pinUnit(last, partmap.Key{}, rest)
		rest.Min = e.units[len(e.units)-1].rng.Max
	}
	return last
}

// pinAround adds a unit for each physical partition that overlaps rng: the part of
// within in that partition. last already has its unit.
func (e *Execution) pinAround(last Part, rng, within partmap.Range) Part {
	for {
		if !has(last, &rng.Min) {
			last = e.pinUnit(last, partmap.Key{}, rng)
			if n := len(e.units) - 1; n > 0 {
				within.Min = e.units[n-1].rng.Max // a merge may have joined what the unit before has
			}
			e.units[len(e.units)-1].rng = within.Common(last.Data().Range)
		}
		of := &last.Data().Range
		if rng.Max.Compare(&of.Max) <= 0 {
			return last
		}
		rng.Min = of.Max
	}
}

// pinAt returns the partition in which rng begins, and a unit for rng at the
// sequence to read at there.
func (e *Execution) pinAt(rng partmap.Range) (p Part, u unit) {
	u.rng, u.pin = rng, e.Snapshot == nil
	p, u.pinned, u.installEpoch = locate(e.Snapshot, pins.Query, func() Part { return e.h.Find(rng.Min) })
	u.at = u.pinned.Seq
	return p, u
}

// Close ends the execution, releases its pins and fills in the statistics.
func (e *Execution) Close() {
	for i := range e.units {
		if u := &e.units[i]; u.pin {
			e.h.Unpin(u.pinned)
		}
	}
	st := &e.to.Stats
	st.Documents, st.Bytes, st.Matched = e.documents.Load(), e.bytes.Load(), e.matched.Load()
	st.Candidates, st.Terms, st.Charge = e.found.Load(), e.terms.Load(), e.charge
}

// Run passes the results to yield. all says that there are no others: neither yield nor
// the limit ended the loop.
func (e *Execution) Run(yield func(*Row) bool) (all bool, err error) {
	if err = e.results(yield); e.failure.Load() != nil {
		return false, *e.failure.Load()
	}
	if err == errStopped {
		return false, nil
	}
	return err == nil, err
}

// results passes the results to yield. It returns errStopped if yield or the limit
// ended the loop early.
func (e *Execution) results(yield func(*Row) bool) error {
	switch {
	case e.Select.Grouped():
		return e.runGroups(yield)
	case len(e.units) == 0: // no key that the filter allows lies in the scope
		return nil
	case len(e.Select.OrderBy) > 0:
		return e.runOrdered(yield)
	}
	return e.runByKey(yield)
}

// give skips a result, or passes it to yield.
func (e *Execution) give(row *Row, at Position, yield func(*Row) bool) error {
	if err := e.failed(); err != nil {
		return err
	}
	if e.skip > 0 {
		e.skip--
		return nil
	}
	e.to.at, e.to.begun = at, true
	e.to.Stats.Results++
	e.left--
	if !yield(row) || e.left == 0 {
		return errStopped
	}
	return nil
}

// tester tests the documents of units, on one goroutine.
type tester struct {
	e         *Execution
	eval      *query.Evaluator // nil: no document had to be evaluated so far
	prefix    []byte           // that partition keys in the scope have
	documents int64
	bytes     int64
	matched   int64
	missed    int64   // documents that were tested and have not matched
	charge    float64 // RU, of documents that were not read by a scan
}

func (e *Execution) tester() *tester {
	t := &tester{e: e}
	if len(e.wanted) > 0 {
		t.eval = e.evaluator()
	}
	if !e.Scope.one(e.h.Levels()) {
		t.prefix = e.Scope.Key.Encoded()
	}
	return t
}

// evaluator returns an evaluator of the filter and the wanted paths. The first
// call compiles them: often indexes answer the query without an evaluator.
func (e *Execution) evaluator() *query.Evaluator {
	e.compiling.Do(func() { e.program = query.Compile(e.Select.Where, e.wanted) })
	eval := e.program.Evaluator()
	eval.Ctx = e.ctx
	return eval
}

// values returns the wanted values of the document that was matched last.
func (t *tester) values() []jsondoc.Value {
	if t.eval == nil {
		return nil
	}
	return t.eval.Wanted
}

// done adds the tester's counts to those of the execution.
func (t *tester) done() {
	t.e.documents.Add(t.documents)
	t.e.bytes.Add(t.bytes)
	t.e.matched.Add(t.matched)
}

// look says whether a document is in scope, and counts it.
func (t *tester) look(k *item.Key, v *item.Version) bool {
	if len(k.PK) < len(t.prefix) || string(k.PK[:len(t.prefix)]) != string(t.prefix) {
		return false
	}
	t.documents++
	t.bytes += int64(len(v.Body))
	return true
}

// match says whether a document is in scope and matches the filter, and finds its
// wanted values. known says that it is already known to match.
func (t *tester) match(k *item.Key, v *item.Version, known bool) bool {
	if !t.look(k, v) {
		return false
	}
	if known && len(t.e.wanted) == 0 {
		t.matched++
		return true
	}
	if t.eval == nil {
		t.eval = t.e.evaluator()
	}
	t.eval.Seq = v.Seq
	if !t.eval.Match(v.Body) && !known {
		t.missed++
		if err := t.eval.Err; err != nil {
			t.e.failure.CompareAndSwap(nil, &err)
		}
		return false
	}
	t.matched++
	return true
}

// failed returns an error once a condition could not be tested: the results lack a document.
func (e *Execution) failed() error {
	if e.failure.Load() != nil {
		return errStopped
	}
	return nil
}

// scan yields the documents of a unit in key order. If after is not nil, it begins
// behind that key. For accept, which tests with t, see scanner.accept. With an order, scan
// yields only documents that can be among the first in that order.
func (e *Execution) scan(ctx context.Context, u *unit, after *item.Key, limit int, order *indexOrder, t *tester, accept accept, yield func(*Row) bool) error {
	if e.Select.Where.Never() {
		return nil
	}
	if order != nil {
		order.source = nil // that of the unit before may serve another query now
	}
	sc := scanners.Get().(*scanner)
	defer sc.release()
	sc.begin(ctx, e.h, &ScanOptions{Snapshot: e.Snapshot, Limit: limit})
	sc.accept, sc.installEpoch, sc.pasts, sc.visited = accept, u.installEpoch, e.pasts, u.same
	if e.likely > 0 {
		sc.most = min(e.likely, scanBatchItems)
	}
	if e.look != nil && (e.look.plan.Op != termset.All || order != nil) {
		c := u.opened
		if c == nil {
			c = e.candidates(u, order)
		}
		u.opened, u.part = nil, nil
		c.order, c.stepwise, c.tests, c.missed, c.seen = order, limit > 0, t, t.missed, t.documents
		c.begin(ctx)
		sc.candidates = c
		defer func() {
			e.found.Add(c.found)
			e.terms.Add(c.sets.Terms)
		}()
	}
	if u.key.Valid() {
		sc.pk, sc.onlyKey = u.key, true
		sc.bound.Set(&item.Key{Hash: u.rng.Min.Head(), EPK: u.rng.Min.Bytes(), PK: sc.pk.Encoded()})
		sc.bounded, sc.inclusive = true, true
	}
	part := u.rng
	if after != nil {
		sc.bound.Set(after)
		sc.bounded, sc.inclusive = true, e.Inclusive
		if at, err := partmap.EPKFromBytes(after.EPK); err == nil && !sc.onlyKey {
			part.Min = at
		}
	}
	p := sc.route(part)
	if err := e.admit(p, u); err != nil {
		return err
	}
	sc.begun = true
	defer func() { e.spend(sc.spent) }()
	_, err := sc.runAt(p, part, u.at, yield)
	return err
}

// candidates returns candidates for a unit, which are to be opened. order may be nil.
func (e *Execution) candidates(u *unit, order *indexOrder) *candidates {
	c := candidatesPool.Get().(*candidates)
	c.lookup, c.few, c.order, c.paged, c.units = e.look, u.key.Valid(), order, e.bounded(), len(e.units)
	return c
}

// startOf returns the key after which the query goes on in a unit, nil for the
// beginning of the unit. skipped: the whole unit lies before that position.
func (e *Execution) startOf(u *unit) (after *item.Key, skipped bool) {
	if e.After == nil {
		return nil, false
	}
	epk := e.After.Key.EPK()
	if u.key.Valid() {
		switch c := u.key.Compare(e.After.Key); {
		case c < 0:
			return nil, true
		case c > 0:
			return nil, false
		}
	} else if u.rng.Max.Compare(&epk) <= 0 {
		return nil, true
	} else if epk.Compare(&u.rng.Min) < 0 {
		return nil, false
	}
	return &item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: e.After.Key.Encoded(), ID: bytesOfID(e.After.ID)}, false
}

// each processes the units from one to another, several at a time. Each goroutine makes a
// worker, which takes the next unit until a worker has an error.
func (e *Execution) each(from, to int, worker func() (work func(ctx context.Context, i int) error, done func() error)) error {
	n := min(runtime.GOMAXPROCS(0), to-from)
	if n <= 1 {
		work, done := worker()
		for i := from; i < to; i++ {
			if err := work(e.ctx, i); err != nil {
				return err
			}
		}
		return done()
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var next atomic.Int64
	failures := make([]error, n)
	var group sync.WaitGroup
	loop := func(slot int) {
		work, done := worker()
		var err error
		for err == nil {
			i := from + int(next.Add(1)) - 1
			if i >= to {
				break
			}
			err = work(ctx, i)
		}
		if err == nil {
			err = done()
		}
		if failures[slot] = err; err != nil {
			cancel()
		}
	}
	for slot := 1; slot < n; slot++ {
		group.Go(func() { loop(slot) })
	}
	loop(0)
	group.Wait()
	if err := e.ctx.Err(); err != nil {
		return err
	}
	for _, err := range failures {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(failures...)
}
