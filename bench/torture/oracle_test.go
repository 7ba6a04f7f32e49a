package main

import (
	"context"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// world is a store with a story, and the oracle's view of it.
type world struct {
	containers
	t    *testing.T
	ctx  context.Context
	db   *engine.DB
	is   models
	feed *consumer
}

func newWorld(t *testing.T) *world {
	o := settings[0].opened(true)
	db, err := engine.Open(t.Context(), filepath.Join(t.TempDir(), "store"), &o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ctx: t.Context(), db: db, is: newModels(small, 3), feed: newConsumer(small, 3)}
	t.Cleanup(func() { db.Close() })
	if w.containers, err = openContainers(w.ctx, db, documents); err != nil {
		t.Fatal(err)
	}
	for i := range w.is {
		for range 120 {
			if err := w.step(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// step carries out the next operation of a lane.
func (w *world) step(lane int) error {
	l := w.is[lane]
	op := l.next()
	err := w.do(w.ctx, l, op)
	if err == nil {
		l.apply(op)
	}
	return err
}

// until carries out operations of a lane up to one of a verb, which is next.
func (w *world) until(lane int, v verb) operation {
	w.t.Helper()
	for range 2000 {
		if op := w.is[lane].next(); op.verb == v {
			return op
		}
		if err := w.step(lane); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("no operation %d", v)
	panic("not reached")
}

// check is what the oracle says of the store.
func (w *world) check() error {
	_, err := checkStore(w.ctx, w.db, w.is, w.is.at(), w.is.at(), w.feed, true)
	if err != nil {
		return err
	}
	for _, l := range w.is {
		if err := w.compareLane(w.ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// any is a document of a lane.
func (w *world) any(lane int) change {
	for _, c := range w.is[lane].docs {
		return c
	}
	w.t.Fatal("the lane is empty")
	panic("not reached")
}

// found is what the oracle says of a query of which change has changed each item, by its number.
func (w *world) found(change func(item engine.Item, n int) engine.Item) error {
	l := w.is[0]
	q := engine.Query{Where: engine.Exists("/n"), OrderBy: []engine.QueryOrder{{Path: "/n"}}}
	return l.compareFound(0, func(yield func(engine.Item, error) bool) {
		n := 0
		for item, err := range w.documents.Query(w.ctx, engine.OnePartition(l.key()), q).All() {
			if n++; !yield(change(item, n), err) {
				return
			}
		}
	})
}

// liar is a container that lies where a function is set.
type liar struct {
	container
	upsert  func(doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	create  func() (engine.Meta, error)
	replace func() (engine.Meta, error)
	scanned func(engine.Item) (engine.Item, bool)
	counted func(int64) int64
	asked   func(engine.Query) engine.Query
	changed func(engine.Change) []engine.Change
}

// withoutOptions is the container of documents, but for an upsert that overlooks its options.
func (w *world) withoutOptions() container {
	right := w.documents
	return &liar{container: right, upsert: func(doc []byte, _ *engine.WriteOptions) (engine.Meta, error) {
		return right.Upsert(w.ctx, doc, nil)
	}}
}

func (c *liar) Upsert(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	if c.upsert != nil {
		return c.upsert(doc, o)
	}
	return c.container.Upsert(ctx, doc, o)
}

func (c *liar) Create(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	if c.create != nil {
		return c.create()
	}
	return c.container.Create(ctx, doc, o)
}

func (c *liar) Replace(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	if c.replace != nil {
		return c.replace()
	}
	return c.container.Replace(ctx, doc, o)
}

func (c *liar) Scan(ctx context.Context, pk engine.PartitionKey, ids engine.IDRange, o *engine.ScanOptions) iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		for item, err := range c.container.Scan(ctx, pk, ids, o) {
			show := true
			if c.scanned != nil {
				item, show = c.scanned(item)
			}
			if show && !yield(item, err) {
				return
			}
		}
	}
}

func (c *liar) Count(ctx context.Context, s engine.Scope, f engine.Filter) (int64, error) {
	n, err := c.container.Count(ctx, s, f)
	if c.counted != nil {
		n = c.counted(n)
	}
	return n, err
}

func (c *liar) Query(ctx context.Context, s engine.Scope, q engine.Query) *engine.QueryResult {
	if c.asked != nil {
		q = c.asked(q)
	}
	return c.container.Query(ctx, s, q)
}

func (c *liar) Changes(ctx context.Context, s engine.Scope, from engine.ChangePosition, o *engine.ChangeOptions) iter.Seq2[engine.Change, error] {
	if c.changed == nil {
		return c.container.Changes(ctx, s, from, o)
	}
	return func(yield func(engine.Change, error) bool) {
		for ch, err := range c.container.Changes(ctx, s, from, o) {
			for _, shown := range c.changed(ch) {
				if !yield(shown, err) {
					return
				}
			}
		}
	}
}

// TestOracle plants faults of a store, each of which the oracle must call a
// violation.
func TestOracle(t *testing.T) {
	const opaque = 3 // a lane in the opaque container
	once := func(fn func(engine.Change) []engine.Change) func(engine.Change) []engine.Change {
		n := 0
		return func(ch engine.Change) []engine.Change {
			if n++; n == 30 {
				return fn(ch)
			}
			return []engine.Change{ch}
		}
	}
	feeds := func(w *world, l *liar) error {
		l.container = w.documents
		f := newConsumer(small, 3)
		if err := f.drain(w.ctx, containers{documents: l, opaque: w.opaque}, w.is); err != nil {
			return err
		}
		return f.compare(w.is)
	}
	faults := []struct {
		name  string
		plant func(w *world) error
	}{
		{"none", func(w *world) error { return w.check() }},
		{"a document is gone", func(w *world) error {
			if _, err := takeOne(w.ctx, w.db, w.is); err != nil {
				return err
			}
			return w.check()
		}},
		{"an opaque item is gone", func(w *world) error {
			if err := w.opaque.Delete(w.ctx, w.is[opaque].key(), w.any(opaque).id, nil); err != nil {
				return err
			}
			return w.check()
		}},
		{"an older version is back", func(w *world) error {
			c := w.any(0)
			c.count--
			if _, err := w.documents.Upsert(w.ctx, []byte(w.is[0].document(c)), nil); err != nil {
				return err
			}
			return w.check()
		}},
		{"a deleted document is back", func(w *world) error {
			op := w.until(0, remove)
			c := w.is[0].docs[op.changes[0].id]
			if err := w.step(0); err != nil {
				return err
			}
			if _, err := w.documents.Upsert(w.ctx, []byte(w.is[0].document(c)), nil); err != nil {
				return err
			}
			return w.check()
		}},
		{"a document that nobody wrote", func(w *world) error {
			c := w.any(0)
			doc := w.is[0].document(c)
			if _, err := w.documents.Upsert(w.ctx, []byte(doc[:len(doc)-2]+`X"}`), nil); err != nil {
				return err
			}
			return w.check()
		}},
		{"half a batch", func(w *world) error {
			op := w.until(0, batch)
			for len(op.changes) < 2 {
				if err := w.step(0); err != nil {
					return err
				}
				op = w.until(0, batch)
			}
			half := op
			half.changes = op.changes[:1]
			if err := w.do(w.ctx, w.is[0], half); err != nil {
				return err
			}
			most := w.is.at()
			most[0] += 2
			_, err := checkStore(w.ctx, w.db, w.is, w.is.at(), most, w.feed, true)
			return err
		}},
		{"the count of an index", func(w *world) error {
			w.documents = &liar{container: w.documents, counted: func(n int64) int64 { return n - 1 }}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"a query misses a document", func(w *world) error {
			newest := slices.MaxFunc(slices.Collect(maps.Values(w.is[0].docs)), func(a, b change) int { return a.count - b.count })
			w.documents = &liar{container: w.documents, asked: func(q engine.Query) engine.Query {
				q.Where = engine.And(q.Where, engine.Ne("/id", newest.id))
				return q
			}}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"a query finds too much", func(w *world) error {
			w.is[0].n += 1 << 20 // so that nothing is new enough
			w.documents = &liar{container: w.documents, asked: func(q engine.Query) engine.Query {
				q.Where = engine.Exists("/n")
				return q
			}}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"a query in the wrong order", func(w *world) error {
			w.documents = &liar{container: w.documents, asked: func(q engine.Query) engine.Query {
				q.OrderBy = []engine.QueryOrder{{Path: "/n", Desc: true}}
				return q
			}}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"a query finds one twice and misses another", func(w *world) error {
			var last engine.Item
			return w.found(func(item engine.Item, n int) engine.Item {
				if n != 2 {
					last = item
				}
				return last
			})
		}},
		{"a query finds an older version", func(w *world) error {
			return w.found(func(item engine.Item, n int) engine.Item {
				if n == 2 {
					c := w.is[0].docs[item.ID]
					c.count--
					item.Body = []byte(w.is[0].document(c))
				}
				return item
			})
		}},
		{"a unique value twice", func(w *world) error {
			w.until(0, takenKey)
			w.documents = &liar{container: w.documents, upsert: func([]byte, *engine.WriteOptions) (engine.Meta, error) { return engine.Meta{}, nil }}
			return w.step(0)
		}},
		{"a unique value of another holder", func(w *world) error {
			w.until(0, takenKey)
			w.documents = &liar{container: w.documents, upsert: func([]byte, *engine.WriteOptions) (engine.Meta, error) {
				return engine.Meta{}, &engine.UniqueKeyError{Holder: "nobody"}
			}}
			return w.step(0)
		}},
		{"a wrong etag is taken", func(w *world) error {
			w.until(0, swap)
			w.documents = w.withoutOptions()
			return w.step(0)
		}},
		{"a create over a document", func(w *world) error {
			w.until(0, existing)
			w.documents = &liar{container: w.documents, create: func() (engine.Meta, error) { return engine.Meta{}, nil }}
			return w.step(0)
		}},
		{"a replace of nothing", func(w *world) error {
			w.until(0, missing)
			w.documents = &liar{container: w.documents, replace: func() (engine.Meta, error) { return engine.Meta{}, nil }}
			return w.step(0)
		}},
		{"an item that does not expire", func(w *world) error {
			w.until(0, fleeting)
			w.documents = w.withoutOptions()
			if err := w.step(0); err != nil {
				return err
			}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"an item that expires too soon", func(w *world) error {
			w.documents = &liar{container: w.documents, scanned: func(item engine.Item) (engine.Item, bool) {
				if !item.Expires.IsZero() {
					item.Expires = item.Expires.Add(-time.Second)
				}
				return item, true
			}}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"an item that lost its expiry", func(w *world) error {
			w.documents = &liar{container: w.documents, scanned: func(item engine.Item) (engine.Item, bool) {
				item.Expires = time.Time{}
				return item, true
			}}
			return w.compareLane(w.ctx, w.is[0])
		}},
		{"a transaction reads something else", func(w *world) error {
			op := w.until(0, transaction)
			w.is[0].docs[op.changes[0].id] = change{id: op.changes[0].id, count: 1}
			return w.step(0)
		}},
		{"the feed loses a change", func(w *world) error {
			gone := w.any(0).id
			return feeds(w, &liar{changed: func(ch engine.Change) []engine.Change {
				if ch.ID == gone && ch.Key == w.is[0].key() {
					return nil
				}
				return []engine.Change{ch}
			}})
		}},
		{"the feed invents a document", func(w *world) error {
			return feeds(w, &liar{changed: once(func(ch engine.Change) []engine.Change {
				ch.Body = []byte(`{"id":"x"}`)
				return []engine.Change{ch}
			})})
		}},
		{"the feed changes the order", func(w *world) error {
			var held []engine.Change
			return feeds(w, &liar{changed: func(ch engine.Change) []engine.Change {
				if held == nil && ch.Key == w.is[0].key() {
					held = append(held, ch)
					return nil
				} else if len(held) == 1 && ch.Key == held[0].Key {
					held = append(held, ch)
					return []engine.Change{ch, held[0]}
				}
				return []engine.Change{ch}
			}})
		}},
		{"the feed of all versions loses a change", func(w *world) error {
			l := &liar{container: w.opaque, changed: once(func(engine.Change) []engine.Change { return nil })}
			f := newConsumer(small, 3)
			if err := f.drain(w.ctx, containers{documents: w.documents, opaque: l}, w.is); err != nil {
				return err
			}
			return f.compare(w.is)
		}},
		{"the feed showed what a crash took back", func(w *world) error {
			w.feed.last[0] = w.is[0].n + 1
			return w.check()
		}},
		{"a checkpoint without a document", func(w *world) error {
			dir := filepath.Join(w.t.TempDir(), "checkpoint")
			if _, err := w.db.Checkpoint(w.ctx, dir); err != nil {
				return err
			}
			err := withStore(w.ctx, dir, settings[0].options, func(db *engine.DB) error {
				_, err := takeOne(w.ctx, db, w.is)
				return err
			})
			if err != nil {
				return err
			}
			return checkCopy(w.ctx, dir, settings[0].options, w.is, w.is.at())
		}},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t)
			err := f.plant(w)
			if f.name == "none" {
				if err != nil {
					t.Error(err)
				}
			} else if !isViolation(err) {
				t.Errorf("the oracle says %v", err)
			}
		})
	}
}

// TestFeedLosesNoChange drops each change of the feed of all versions in turn, also those
// that a later one follows, and asks that the oracle sees it.
func TestFeedLosesNoChange(t *testing.T) {
	w := newWorld(t)
	for range 200 { // so that lanes are cleared too
		for i, l := range w.is {
			if l.opaque {
				if err := w.step(i); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var all []shown
	err := w.containers.feed(w.ctx, true, "start", w.is, false, func(p piece) error {
		all = append(all, p.Changes...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(changes []shown) error {
		f := newConsumer(small, 3)
		err := f.take(piece{Opaque: true, Changes: changes})
		for i, l := range w.is {
			if l.opaque && err == nil {
				err = f.compareLane(i, l)
			}
		}
		return err
	}
	if err := follow(all); err != nil {
		t.Fatal(err)
	}
	kinds := make(map[engine.ChangeKind]int)
	for i, ch := range all {
		kinds[ch.Kind]++
		if err := follow(slices.Delete(slices.Clone(all), i, i+1)); !isViolation(err) {
			t.Errorf("without change %d, %+v, the oracle says %v", i, ch, err)
		}
	}
	if len(kinds) != 4 {
		t.Errorf("of the kinds of changes there are %v", kinds)
	}
}
