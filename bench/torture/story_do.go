package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// container is what the story and the oracle ask of a container of the engine.
// Tests put one that lies in its place.
type container interface {
	Scan(ctx context.Context, pk engine.PartitionKey, ids engine.IDRange, o *engine.ScanOptions) iter.Seq2[engine.Item, error]
	Read(ctx context.Context, pk engine.PartitionKey, id string) (engine.Item, error)
	Count(ctx context.Context, scope engine.Scope, f engine.Filter) (int64, error)
	Query(ctx context.Context, scope engine.Scope, q engine.Query) *engine.QueryResult
	Changes(ctx context.Context, s engine.Scope, from engine.ChangePosition, o *engine.ChangeOptions) iter.Seq2[engine.Change, error]

	Upsert(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	Create(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	Replace(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	Put(ctx context.Context, pk engine.PartitionKey, id string, body []byte, o *engine.WriteOptions) (engine.Meta, error)
	Patch(ctx context.Context, pk engine.PartitionKey, id string, p *engine.Patch, o *engine.WriteOptions) (engine.Meta, error)
	Delete(ctx context.Context, pk engine.PartitionKey, id string, o *engine.WriteOptions) error
	DeleteLogicalPartition(ctx context.Context, pk engine.PartitionKey, o *engine.WriteOptions) error
	NewBatch(pk engine.PartitionKey) *engine.Batch
	Commit(ctx context.Context, b *engine.Batch) ([]engine.Meta, error)
	Update(ctx context.Context, pk engine.PartitionKey, fn func(*engine.Tx) error) error
}

// containers are the two that lanes lie in.
type containers struct{ documents, opaque container }

func (cs containers) of(l *lane) container {
	if l.opaque {
		return cs.opaque
	}
	return cs.documents
}

// openContainers returns the containers of a store, and creates them if they are
// not there.
func openContainers(ctx context.Context, db *engine.DB, def engine.ContainerDef) (cs containers, err error) {
	if cs.documents, err = db.EnsureContainer(ctx, "c", def); err != nil {
		return cs, err
	}
	cs.opaque, err = db.EnsureContainer(ctx, "o", engine.ContainerDef{Kind: engine.Opaque, ChangeRetention: changeRetention})
	return cs, err
}

// do carries out an operation in the store. A violation is an answer that is
// wrong beside the model, which is before the operation.
func (cs containers) do(ctx context.Context, l *lane, op operation) (err error) {
	c, pk := cs.of(l), l.key()
	var first change
	var doc []byte
	if len(op.changes) > 0 {
		first = op.changes[0]
		if first.count >= 0 {
			doc = []byte(l.document(first))
		}
	}
	write := func(o *engine.WriteOptions) error {
		if l.opaque {
			_, err := c.Put(ctx, pk, first.id, doc, o)
			return err
		}
		_, err := c.Upsert(ctx, doc, o)
		return err
	}
	switch op.verb {
	case clearLane:
		return c.DeleteLogicalPartition(ctx, pk, nil)
	case remove:
		if l.opaque {
			return c.Delete(ctx, pk, first.id, nil)
		}
		return c.Delete(ctx, pk, first.id, nil)
	case patch:
		p := new(engine.Patch).Set("/n", first.count).Set("/u", first.unique).Set("/ttl", first.lives()).Set("/text", first.text())
		_, err = c.Patch(ctx, pk, first.id, p, nil)
		return err
	case create:
		_, err = c.Create(ctx, doc, nil)
		return err
	case fleeting:
		if _, err = c.Upsert(ctx, doc, &engine.WriteOptions{TTL: time.Millisecond}); err == nil {
			time.Sleep(3 * time.Millisecond) // by the clock of the system, which is that of the store
		}
		return err
	case swap:
		item, err := c.Read(ctx, pk, first.id)
		if err != nil {
			return err
		}
		if err := refused(op, write(&engine.WriteOptions{IfMatch: item.ETag + 1}), engine.ErrPrecondition); err != nil {
			return err
		}
		return write(&engine.WriteOptions{IfMatch: item.ETag})
	case takenKey:
		_, err = c.Upsert(ctx, doc, nil)
		var taken *engine.UniqueKeyError
		if holder := l.holders[first.unique]; errors.As(err, &taken) && taken.Holder != holder {
			return violation("lane %d, operation %d: unique value %d is said to be that of %s and is that of %s", l.number, op.n, first.unique, taken.Holder, holder)
		}
		return refused(op, err, engine.ErrUniqueKey)
	case existing:
		_, err = c.Create(ctx, doc, nil)
		return refused(op, err, engine.ErrExists)
	case missing:
		_, err = c.Replace(ctx, doc, nil)
		return refused(op, err, engine.ErrNotFound)
	case batch:
		b := c.NewBatch(pk)
		if err := l.several(b, op); err != nil {
			return err
		}
		_, err = c.Commit(ctx, b)
		return err
	case transaction:
		return c.Update(ctx, pk, func(tx *engine.Tx) error {
			for _, ch := range op.changes {
				item, err := tx.Read(ch.id)
				if err != nil && !errors.Is(err, engine.ErrNotFound) {
					return err
				}
				if is, there := l.docs[ch.id]; there != (err == nil) || there && string(item.Body) != l.document(is) {
					return violation("a transaction reads %q: %.80q, %v; the model has it: %t, of operation %d", ch.id, item.Body, err, there, is.count)
				}
			}
			return l.several(tx, op)
		})
	default:
		return write(nil)
	}
}

// refused says whether a call that must be refused was.
func refused(op operation, err, want error) error {
	if err == nil {
		return violation("operation %d was to be refused (%v) and was not", op.n, want)
	}
	if errors.Is(err, want) {
		return nil
	}
	return err
}

// several adds the changes of an operation to a batch or a transaction.
func (l *lane) several(to interface {
	Put(id string, body []byte, o *engine.WriteOptions) error
	Upsert(doc []byte, o *engine.WriteOptions) error
	Delete(id string, o *engine.WriteOptions) error
}, op operation) (err error) {
	for _, c := range op.changes {
		switch {
		case c.count < 0:
			err = to.Delete(c.id, nil)
		case l.opaque:
			err = to.Put(c.id, []byte(l.document(c)), nil)
		default:
			err = to.Upsert([]byte(l.document(c)), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readLane reads a lane. A document that no change of the lane writes is a
// violation.
func (cs containers) readLane(ctx context.Context, l *lane) (f found, err error) {
	f.docs = make(map[string]change)
	for item, err := range cs.of(l).Scan(ctx, l.key(), engine.IDRange{}, nil) {
		if err != nil {
			return f, err
		}
		made, ok := l.changeOf(item.ID, item.Body)
		if !ok {
			return f, violation("lane %d: nobody has written %s as %.80q, %d bytes", l.number, item.ID, item.Body, len(item.Body))
		}
		if s := made.lives(); !l.opaque && s > 0 != !item.Expires.IsZero() || !item.Expires.IsZero() && item.Expires.Sub(item.Modified) != time.Duration(s)*time.Second {
			return f, violation("lane %d: %s expires at %v, written at %v to live %d seconds", l.number, item.ID, item.Expires, item.Modified, s)
		}
		f.docs[item.ID] = made
		f.sum += made.sum()
	}
	return f, nil
}

// compareLane compares a lane with its model.
func (cs containers) compareLane(ctx context.Context, l *lane) error {
	f, err := cs.readLane(ctx, l)
	if err != nil {
		return err
	}
	if !f.is(l) {
		return violation("lane %d is not the model after operation %d: %s", l.number, l.n, difference(f.docs, l.docs))
	}
	return cs.compareAnswers(ctx, l)
}

// compareAnswers compares what indexes answer with the model.
func (cs containers) compareAnswers(ctx context.Context, l *lane) error {
	if l.opaque {
		return nil
	}
	scope := engine.OnePartition(l.key())
	n, err := cs.documents.Count(ctx, scope, engine.Exists("/n"))
	if err != nil {
		return err
	}
	if int(n) != len(l.docs) {
		return violation("lane %d: the index counts %d documents, the model %d", l.number, n, len(l.docs))
	}
	least := l.n - l.IDs/4
	q := engine.Query{Where: engine.Range("/n", engine.Incl(least), engine.Unbounded()), OrderBy: []engine.QueryOrder{{Path: "/n"}}}
	if err := l.compareFound(least, cs.documents.Query(ctx, scope, q).All()); err != nil {
		return err
	}
	for id, c := range l.docs {
		n, err := cs.documents.Count(ctx, scope, engine.Eq("/u", c.unique))
		if err != nil {
			return err
		}
		if n != 1 {
			return violation("lane %d: the unique value %d of %s has %d documents", l.number, c.unique, id, n)
		}
		break
	}
	return nil
}

// compareFound compares what a query for the documents of operation least and later ones finds,
// by their operations in ascending order: each once, as it was written.
func (l *lane) compareFound(least int, found iter.Seq2[engine.Item, error]) error {
	want := make(map[string]change)
	for id, c := range l.docs {
		if c.count >= least {
			want[id] = c
		}
	}
	n, last := len(want), least
	for item, err := range found {
		if err != nil {
			return err
		}
		c, there := want[item.ID]
		if is, ok := l.changeOf(item.ID, item.Body); !there || !ok || is != c {
			return violation("lane %d: a query for n from %d on finds %s of operation %d, which is one of those left: %t, of operation %d", l.number, least, item.ID, is.count, there, c.count)
		}
		if c.count < last {
			return violation("lane %d: a query for n from %d on, in order, finds %s of operation %d after one of %d", l.number, least, item.ID, c.count, last)
		}
		last = c.count
		delete(want, item.ID)
	}
	if len(want) > 0 {
		return violation("lane %d: a query for n from %d on misses %d documents of %d", l.number, least, len(want), n)
	}
	return nil
}
