package engine

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
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// execution is a query under way.
//
// It pins, of each physical partition in its scope, the sequence at which that
// is seen. The scope is so cut into units, which several goroutines work on.
// Partitions may be replaced meanwhile: a unit names a part of the key space,
// and goes on in whatever partitions have it.
type execution struct {
	r     *Result
	c     *Container
	s     *query.Select
	scope Scope
	keys  []PartitionKey // with which the keys of results begin; nil: any in the scope
	after *position      // results begin after it; nil: with the first
	skip  int            // results to pass over
	left  int            // results still wanted
	now   int64          // of a pass: see scanner.now

	ctx     context.Context
	units   []unit
	first   [1]unit      // memory of units
	look    *lookup      // nil: all documents in scope are read
	counts  bool         // groups are counted in indexes
	ordered *indexOrder  // nil: no index has the order
	wanted  []query.Path // whose values the kind of the query wants

	compiling sync.Once
	program   *query.Program // of the filter and wanted; see evaluator

	documents, bytes, matched, found atomic.Int64

	charging sync.Mutex
	charge   float64 // RU
}

// spend adds to the charge of the query.
func (e *execution) spend(charge float64) {
	e.charging.Lock()
	e.charge += charge
	e.charging.Unlock()
}

// unit is a part of the scope that is seen at one sequence.
type unit struct {
	key  PartitionKey // of the one logical partition that it is; else the zero key
	rng  partmap.Range
	at   uint64
	born uint64 // installations in the container when at was taken
	pin  bool   // at is pinned
	same bool   // it begins in the physical partition in which the unit before ends
}

// maxKeyUnits is the number of keys up to which each is a unit; for more, all of
// the physical partitions that hold them are looked at. Only tests change it.
var maxKeyUnits = 100

// plan decides how the query is answered.
func (e *execution) plan() error {
	var groups *query.Grouper
	switch {
	case e.s.Grouped():
		groups = e.s.Grouper()
		e.wanted = groups.Paths()
	case len(e.s.OrderBy) > 0:
		for _, o := range e.s.OrderBy {
			e.wanted = append(e.wanted, o.Path)
		}
	default:
		e.wanted = e.s.ColumnPaths()
	}
	all := e.s.Where.Op == query.All
	if policy := e.c.indexing.Load(); policy != nil {
		p := planner{policy: policy}
		look := &lookup{policy: policy}
		look.plan, look.exact = p.plan(e.s.Where, false)
		e.counts = groups != nil && e.countable(policy, groups) && look.exact
		if len(e.s.OrderBy) > 0 && !e.s.Grouped() && look.exact {
			if e.ordered = e.orderSpan(policy); e.ordered != nil && !e.ordered.all {
				e.ordered.rest = look.plan.without(e.ordered.span)
			}
		}
		if look.plan.op != planAll || e.counts || e.ordered != nil {
			e.look = look
		}
	}
	if e.r.q.NoScan && e.scans() && !(all && !e.s.Grouped() && len(e.s.OrderBy) == 0) {
		return fmt.Errorf("%w: %s", ErrNeedsScan, jsondoc.Clip(e.s.Where.String()))
	}
	return nil
}

// scans says that documents must be read one by one to find those wanted.
func (e *execution) scans() bool {
	if e.s.Where.Never() {
		return false
	}
	if e.look == nil {
		return true
	}
	p := planner{policy: e.look.policy, found: true}
	plan, _ := p.plan(e.s.Where, false)
	return plan.op == planAll && !e.counts && e.ordered == nil
}

// countable says whether the dictionaries of indexes have what the groups of
// the query need.
func (e *execution) countable(policy *index.Compiled, g *query.Grouper) bool {
	path, ok := g.OnlyPath()
	if !ok || path == nil {
		return ok
	}
	scalars, _ := policy.Covers(indexPath(path))
	return scalars
}

// orderSpan returns the terms of the first path of the order that candidates can
// have; nil if the index does not have that path.
func (e *execution) orderSpan(policy *index.Compiled) *indexOrder {
	first := e.s.OrderBy[0]
	path := indexPath(first.Path)
	if scalars, containers := policy.Covers(path); !scalars || !containers {
		return nil
	}
	o := &indexOrder{path: path, span: index.Exists(path), all: true, falling: first.Falling, single: len(e.s.OrderBy) == 1}
	name := first.Path.String()
	e.s.Where.Every(func(f *query.Filter) {
		if !o.all || f.Path.String() != name {
			return
		}
		p := planner{policy: policy}
		switch f.Op {
		case query.Eq, query.Range, query.Prefix:
			if n, _ := p.leaf(f); n.op == planSpans && len(n.spans) == 1 {
				o.span, o.all = n.spans[0], false
			}
		}
	})
	return o
}

// pin takes the units. Somebody is inside of a call on the container.
func (e *execution) pin() error {
	e.ctx, e.units = e.r.ctx, e.first[:0]
	within, err := e.scope.bounds()
	if err != nil {
		return err
	}
	if e.scope.kind == scopeOne {
		e.pinUnit(nil, e.scope.key, within)
		return nil
	}
	keys := e.keys
	if keys == nil {
		if keys, err = e.scope.keys(e.c); err != nil {
			return err
		}
	}
	if keys == nil {
		if n := len(e.c.routing.Load().parts); n > len(e.first) {
			e.units = make([]unit, 0, n)
		}
		e.pinRange(nil, within)
		return nil
	}
	// Indexes count all of a partition at once.
	each := e.scope.kind == scopeBase || !e.counts && len(keys) <= maxKeyUnits
	var last *partition
	for _, key := range keys {
		scope, err := PrefixOf(key).check(e.c)
		if err != nil {
			return err
		}
		rng, err := scope.bounds()
		if err != nil {
			return err
		}
		switch {
		case !each:
			last = e.pinAround(last, rng, within)
		case scope.kind == scopeOne:
			last = e.pinUnit(last, key, rng)
		default:
			last = e.pinRange(last, rng)
		}
	}
	return nil
}

// pinUnit takes a unit that begins where a range does, and ends with that or its
// physical partition. Last is the partition of the unit before, nil if there is
// none: units in one are seen at one sequence. It returns the partition of the new
// unit.
func (e *execution) pinUnit(last *partition, key PartitionKey, rng partmap.Range) *partition {
	var u unit
	if last != nil && last.rng.Contains(&rng.Min) {
		u = e.units[len(e.units)-1]
		if u.rng, u.same = rng, true; u.pin {
			e.c.db.pins.take(byQuery, func() uint64 { return u.at }, e.c.db.opts.clock())
		}
	} else {
		last, u = e.pinAt(rng)
		e.r.stats.Partitions++
	}
	if u.key = key; last.rng.Max.Compare(&u.rng.Max) < 0 {
		u.rng.Max = last.rng.Max
	}
	e.units = append(e.units, u)
	return last
}

// pinRange takes the units of a range.
func (e *execution) pinRange(last *partition, rest partmap.Range) *partition {
	for !rest.Empty() {
		last = e.pinUnit(last, PartitionKey{}, rest)
		rest.Min = e.units[len(e.units)-1].rng.Max
	}
	return last
}

// pinAround takes, of each physical partition that holds a part of a range, what
// lies within another one.
func (e *execution) pinAround(last *partition, rng, within partmap.Range) *partition {
	for {
		if last == nil || !last.rng.Contains(&rng.Min) {
			last = e.pinUnit(last, PartitionKey{}, rng)
			e.units[len(e.units)-1].rng = intersection(within, last.rng)
		}
		if rng.Max.Compare(&last.rng.Max) <= 0 {
			return last
		}
		rng.Min = last.rng.Max
	}
}

// pinAt returns the partition in which a range begins, and a unit of the range at
// the sequence that is seen there.
func (e *execution) pinAt(rng partmap.Range) (*partition, unit) {
	db := e.c.db
	u := unit{rng: rng, pin: e.r.snapshot == nil}
	for {
		rt := e.c.routing.Load()
		p := rt.parts[rt.table.Find(&rng.Min)]
		if !u.pin {
			u.at, u.born = e.r.snapshot.cutAt(&p.rng.Min)
			return p, u
		}
		u.born = p.born
		u.at = db.pins.take(byQuery, p.visible.Load, db.opts.clock())
		if !p.dropped.Load() || e.c.dropped.Load() {
			return p, u
		}
		// Who took its place may have flushed before the sequence was taken.
		db.pins.release(byQuery, u.at)
	}
}

// close ends the execution: nothing is held after it.
func (e *execution) close() {
	for i := range e.units {
		if u := &e.units[i]; u.pin {
			e.c.db.pins.release(byQuery, u.at)
		}
	}
	st := &e.r.stats
	st.Documents, st.Bytes, st.Matched = e.documents.Load(), e.bytes.Load(), e.matched.Load()
	st.Candidates, st.Charge = e.found.Load(), e.charge
}

// run gives the results to yield. It returns errStopped if the loop is over
// before the results are.
func (e *execution) run(yield func(Item, error) bool) error {
	switch {
	case e.s.Grouped():
		return e.runGroups(yield)
	case len(e.s.OrderBy) > 0:
		return e.runOrdered(yield)
	}
	return e.runByKey(yield)
}

// give passes over a result or gives it to yield.
func (e *execution) give(it Item, at position, yield func(Item, error) bool) error {
	if e.skip > 0 {
		e.skip--
		return nil
	}
	e.r.at, e.r.begun = at, true
	e.r.stats.Results++
	e.left--
	if !yield(it, nil) {
		return errStopped
	}
	if e.left == 0 {
		return errStopped
	}
	return nil
}

// tester looks at the documents of units, on one goroutine.
type tester struct {
	e         *execution
	eval      *query.Evaluator // nil: nothing has had to be evaluated so far
	prefix    []byte           // of the partition keys in the scope
	documents int64
	bytes     int64
	matched   int64
	charge    float64 // of documents that no scan has shown it
}

func (e *execution) tester() *tester {
	t := &tester{e: e}
	if len(e.wanted) > 0 {
		t.eval = e.evaluator()
	}
	if e.scope.kind == scopePrefix {
		t.prefix = e.scope.key.Encoded()
	}
	return t
}

// evaluator returns an evaluator of the filter and the wanted paths, which are
// made ready when it is needed first: indexes may tell all.
func (e *execution) evaluator() *query.Evaluator {
	e.compiling.Do(func() { e.program = query.Compile(e.s.Where, e.wanted) })
	return e.program.Evaluator()
}

// values returns the wanted values of the document that was matched last.
func (t *tester) values() []jsondoc.Value {
	if t.eval == nil {
		return nil
	}
	return t.eval.Wanted
}

// done adds what the tester has counted.
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

// match says whether a document is wanted, and finds the values that are.
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
	if !t.eval.Match(v.Body) && !known {
		return false
	}
	t.matched++
	return true
}

// scan goes through the documents of a unit in the order of their keys, those
// after a key if that is not nil. Accept is that of a scanner. With order only
// documents that can be among the first in it are shown.
func (e *execution) scan(ctx context.Context, u *unit, after *item.Key, limit int, order *indexOrder, accept accept, yield func(Item, error) bool) error {
	if e.s.Where.Never() {
		return nil
	}
	sc := scanners.Get().(*scanner)
	defer sc.release()
	sc.begin(ctx, e.c, e.r.snapshot, &ScanOptions{Limit: limit})
	sc.accept, sc.born, sc.now, sc.visited = accept, u.born, e.now, u.same
	if e.look != nil && (e.look.plan.op != planAll || order != nil) {
		c := candidatesPool.Get().(*candidates)
		c.ctx, c.lookup, c.few, c.order, c.stepwise = ctx, e.look, u.key.Valid(), order, limit > 0
		sc.candidates = c
		defer func() {
			e.found.Add(c.found)
			if order != nil && c.leftOut {
				order.leftOut = true
			}
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
		sc.bounded, sc.inclusive = true, false
		if at, err := partmap.EPKFromBytes(after.EPK); err == nil && !sc.onlyKey {
			part.Min = at
		}
	}
	defer func() { e.spend(sc.spent) }()
	var failure error
	stopped := false
	sc.runAt(sc.route(part), part, u.at, func(it Item, err error) bool {
		if err != nil {
			failure = err
			return false
		}
		stopped = !yield(it, nil)
		return !stopped
	})
	if failure == nil && stopped {
		failure = errStopped
	}
	return failure
}

// skips says whether a unit, or what of it, lies before a position: it returns
// the key after which the unit begins, nil if with its first.
func (e *execution) startOf(u *unit) (after *item.Key, skipped bool) {
	if e.after == nil {
		return nil, false
	}
	epk := e.after.pk.EPK()
	if u.key.Valid() {
		switch c := compareKeyPlaces(u.key, e.after.pk); {
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
	return &item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: e.after.pk.Encoded(), ID: bytesOf(e.after.id)}, false
}

// each works on all units, several at a time. Each goroutine makes a worker and
// gives it units, in their order, until one has an error.
func (e *execution) each(worker func() (work func(ctx context.Context, i int) error, done func() error)) error {
	n := min(runtime.GOMAXPROCS(0), len(e.units))
	if n <= 1 {
		work, done := worker()
		for i := range e.units {
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
			i := int(next.Add(1)) - 1
			if i >= len(e.units) {
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
	if err := e.r.ctx.Err(); err != nil {
		return err
	}
	for _, err := range failures {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(failures...)
}
