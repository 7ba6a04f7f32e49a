package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/replica/command"
)

// tx is a transaction of one logical partition. It reads each item once, at the level strong, and keeps what is
// written. The batch that commits it checks all items that were read, so what it has seen was so at one moment: that of
// the commit.
type tx struct {
	c    *items
	ctx  context.Context
	key  engine.PartitionKey
	seen map[string]*version
	ids  []string // of seen, in the order of the first touch
	// charge is what the reads and the commit have cost, in request units.
	charge float64
}

// version is an item as the transaction sees it.
type version struct {
	before  engine.Item // of the cluster
	existed bool
	written bool
	body    []byte // nil: deleted
	o       engine.WriteOptions
}

func (v *version) exists() bool { return v.written && v.body != nil || !v.written && v.existed }

const defaultReruns = 16

// Transact implements gateway.Items. A transaction whose items have changed meanwhile runs again.
func (c *items) Transact(ctx context.Context, key engine.PartitionKey, o *engine.UpdateOptions, fn func(gateway.Tx) error) ([]engine.Meta, error) {
	if o == nil {
		o = &engine.UpdateOptions{}
	}
	reruns := defaultReruns
	if o.Reruns != 0 {
		reruns = max(o.Reruns, 0)
	}
	for range reruns + 1 {
		t := &tx{c: c, ctx: ctx, key: key, seen: make(map[string]*version)}
		var metas []engine.Meta
		failed := fn(t)
		err := failed
		if failed == nil {
			metas, err = t.commit()
		}
		if o.Charge != nil {
			*o.Charge += t.charge
		}
		if failed != nil {
			return nil, failed
		}
		if !errors.Is(err, engine.ErrPrecondition) && !errors.Is(err, engine.ErrExists) && !errors.Is(err, engine.ErrNotFound) {
			return metas, err
		}
	}
	return nil, fmt.Errorf("%w: a transaction has met others %d times", engine.ErrConflict, reruns+1)
}

// commit writes what the transaction has written.
func (t *tx) commit() ([]engine.Meta, error) {
	var ops []command.Operation
	writes := false
	for _, id := range t.ids {
		v := t.seen[id]
		op := command.Operation{Kind: command.Check, ID: id, IfMatch: v.before.ETag}
		switch {
		case !v.written, v.body == nil && !v.existed:
		case v.body == nil:
			op.Kind = command.Delete
		case v.existed:
			op.Kind, op.ID, op.Body, op.TTL = command.Replace, "", v.body, v.o.TTL
		default:
			op.Kind, op.ID, op.Body, op.TTL, op.IfMatch = command.Create, "", v.body, v.o.TTL, 0
		}
		writes = writes || op.Kind != command.Check
		ops = append(ops, op)
	}
	if !writes && len(ops) < 2 {
		return nil, nil // one read is of one moment
	}
	all, err := t.c.charged(t.ctx, &t.charge, t.key, ops...)
	if err != nil {
		return nil, err
	}
	metas := all[:0]
	for i := range all {
		if ops[i].Kind != command.Check {
			metas = append(metas, all[i])
		}
	}
	return metas, nil
}

// look returns an item as the transaction sees it.
func (t *tx) look(id string) (*version, error) {
	if v := t.seen[id]; v != nil {
		return v, nil
	}
	if err := t.c.checkID(t.ctx, t.key, id); err != nil {
		return nil, err
	}
	within, cancel := t.c.s.bound(t.ctx)
	defer cancel()
	it, err := t.c.s.newest(t.ctx).Read(within, t.c.name, t.key, id)
	if t.charge += it.Charge; errors.Is(err, engine.ErrNotFound) {
		t.charge += cost.Failed
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return nil, answer(t.ctx, err)
	}
	v := &version{before: it, existed: err == nil}
	t.seen[id] = v
	t.ids = append(t.ids, id)
	return v, nil
}

// Read implements gateway.Tx.
func (t *tx) Read(id string) (engine.Item, error) {
	v, err := t.look(id)
	switch {
	case err != nil:
		return engine.Item{}, err
	case !v.exists():
		return engine.Item{}, engine.ErrNotFound
	case v.written:
		return engine.Item{Meta: engine.Meta{Key: t.key, ID: id}, Body: bytes.Clone(v.body)}, nil
	}
	it := v.before
	it.Body = bytes.Clone(it.Body)
	return it, nil
}

// Scan implements gateway.Tx.
func (t *tx) Scan(engine.IDRange, *engine.ScanOptions) iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		yield(engine.Item{}, lacks("queries of scripts"))
	}
}

// Create implements gateway.Tx.
func (t *tx) Create(doc []byte, o *engine.WriteOptions) error { return t.write(command.Create, doc, o) }

// Replace implements gateway.Tx.
func (t *tx) Replace(doc []byte, o *engine.WriteOptions) error {
	return t.write(command.Replace, doc, o)
}

// Upsert implements gateway.Tx.
func (t *tx) Upsert(doc []byte, o *engine.WriteOptions) error { return t.write(command.Upsert, doc, o) }

func (t *tx) write(kind command.Kind, doc []byte, o *engine.WriteOptions) error {
	key, err := t.c.KeyOf(doc)
	if err != nil {
		return err
	}
	if key != t.key {
		return fmt.Errorf("%w: the document has %s, not %s", engine.ErrKeyMismatch, key, t.key)
	}
	v, err := t.look(idOf(doc))
	switch {
	case err != nil:
		return err
	case kind == command.Create && v.exists():
		return engine.ErrExists
	case kind == command.Replace && !v.exists():
		return engine.ErrNotFound
	}
	return v.put(bytes.Clone(doc), o)
}

// put keeps a write; body nil: a deletion.
func (v *version) put(body []byte, o *engine.WriteOptions) error {
	if o == nil {
		o = &engine.WriteOptions{}
	}
	if o.IfMatch != 0 && (v.written || !v.existed || v.before.ETag != o.IfMatch) {
		return engine.ErrPrecondition
	}
	v.written, v.body, v.o = true, body, *o
	return nil
}

// Delete implements gateway.Tx.
func (t *tx) Delete(id string, o *engine.WriteOptions) error {
	v, err := t.look(id)
	switch {
	case err != nil:
		return err
	case !v.exists():
		return engine.ErrNotFound
	}
	return v.put(nil, o)
}

// Patch implements gateway.Tx.
func (t *tx) Patch(id string, p *engine.Patch, o *engine.WriteOptions) error {
	it, err := t.Read(id)
	if err != nil {
		return err
	}
	if o != nil && o.IfMatch != 0 && o.IfMatch != it.ETag {
		return engine.ErrPrecondition
	}
	doc, err := p.Apply(t.ctx, it.Body, it.ETag)
	if err != nil {
		return err
	}
	if now := idOf(doc); now != id {
		return fmt.Errorf("%w: the id is changed from %q to %q", engine.ErrInvalid, id, now)
	}
	return t.write(command.Replace, doc, o)
}
