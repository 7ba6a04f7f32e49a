package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
)

// items is a container of the cluster. Container is that of the model, which has no items, and what the cluster indexes: KeyOf and
// Explain are its methods.
type items struct {
	*engine.Container
	s    *Store
	name string
	ttl  *atomic.Int64 // default time to live, a time.Duration
	*ranges
}

// Def implements gateway.Items. The cluster applies the default time to live, so no write has to say it.
func (c *items) Def() engine.ContainerDef {
	def := c.Container.Def()
	def.DefaultTTL, def.MutableTTL = time.Duration(c.ttl.Load()), true
	return def
}

// SetDefaultTTL implements gateway.Items. The groups follow when the nodes of their leaders hear of it.
func (c *items) SetDefaultTTL(ctx context.Context, ttl time.Duration) error {
	if err := c.s.owns(ctx); err != nil {
		return err
	}
	within, cancel := c.s.bound(ctx)
	defer cancel()
	switch err := c.s.c.SetDefaultTTL(within, c.name, cluster.SecondsOf(ttl)); {
	case errors.Is(err, engine.ErrInvalid):
		return lacks("a change of defaultTtl of a container that was made without mutable_ttl")
	case err != nil:
		return answer(ctx, err)
	}
	c.ttl.Store(int64(ttl))
	return nil
}

// SetIndexPolicy implements gateway.Items. The nodes follow when they hear of it, and results are right meanwhile.
func (c *items) SetIndexPolicy(ctx context.Context, p engine.IndexPolicy) error {
	if err := c.s.owns(ctx); err != nil {
		return err
	}
	within, cancel := c.s.bound(ctx)
	defer cancel()
	if err := c.s.c.SetIndexPolicy(within, c.name, p); err != nil {
		return answer(ctx, err)
	}
	return c.explainBy(ctx, p)
}

// explainBy has Explain go by an index policy.
func (c *items) explainBy(ctx context.Context, p engine.IndexPolicy) error {
	if cluster.SameIndex(c.Container.Def().Index, p) {
		return nil
	}
	_, err := c.Container.SetIndexPolicy(ctx, p)
	return err
}

// SetThroughput implements gateway.Items. No throughput is enforced.
func (c *items) SetThroughput(context.Context, float64) error { return nil }

// Read implements gateway.Items.
func (c *items) Read(ctx context.Context, key engine.PartitionKey, id string) (engine.Item, error) {
	if err := c.checkID(ctx, key, id); err != nil {
		return engine.Item{}, err
	}
	within, cancel := c.s.bound(ctx)
	defer cancel()
	it, err := c.s.view(ctx).Read(within, c.name, key, id)
	if errors.Is(err, engine.ErrNotFound) {
		it.Charge = cost.Failed
	}
	return it, answer(ctx, err)
}

// readAtOnce is how many items are read at once of those that a query names.
const readAtOnce = 16

// ReadMany implements gateway.Items.
func (c *items) ReadMany(ctx context.Context, wanted []engine.ItemIdentity) iter.Seq2[engine.ReadManyResult, error] {
	return func(yield func(engine.ReadManyResult, error) bool) {
		for len(wanted) > 0 {
			some := wanted[:min(readAtOnce, len(wanted))]
			wanted = wanted[len(some):]
			found, errs := make([]engine.ReadManyResult, len(some)), make([]error, len(some))
			var reads sync.WaitGroup
			for i, of := range some {
				reads.Go(func() {
					it, err := c.Read(ctx, of.Key, of.ID)
					if errors.Is(err, engine.ErrNotFound) {
						it.Key, it.ID, err = of.Key, of.ID, nil
					} else {
						found[i].Found = err == nil
					}
					found[i].Item, errs[i] = it, err
				})
			}
			reads.Wait()
			for i := range some {
				if !yield(found[i], errs[i]) || errs[i] != nil {
					return
				}
			}
		}
	}
}

// scanPage is how many items come at once of a logical partition.
const scanPage = 500

// Scan implements gateway.Items, for all items of a logical partition.
func (c *items) Scan(ctx context.Context, key engine.PartitionKey, _ engine.IDRange, _ *engine.ScanOptions) iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		after, more := "", true
		for more {
			within, cancel := c.s.bound(ctx)
			var page []engine.Item
			var err error
			page, more, err = c.s.newest(ctx).Scan(within, c.name, key, after, scanPage)
			cancel()
			if err != nil {
				yield(engine.Item{}, answer(ctx, err))
				return
			}
			for _, it := range page {
				if after = it.ID; !yield(it, nil) {
					return
				}
			}
		}
	}
}

// Create implements gateway.Items.
func (c *items) Create(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	return c.write(ctx, command.Create, doc, o)
}

// Replace implements gateway.Items.
func (c *items) Replace(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	return c.write(ctx, command.Replace, doc, o)
}

// Upsert implements gateway.Items.
func (c *items) Upsert(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	return c.write(ctx, command.Upsert, doc, o)
}

// write writes one document.
func (c *items) write(ctx context.Context, kind command.Kind, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	if o == nil {
		o = &engine.WriteOptions{}
	}
	key, err := c.KeyOf(doc)
	if err != nil {
		return engine.Meta{}, err
	}
	if o.Key.Valid() && o.Key != key {
		return engine.Meta{}, fmt.Errorf("%w: the document has %s, not %s", engine.ErrKeyMismatch, key, o.Key)
	}
	metas, err := c.charged(ctx, o.Charge, key, command.Operation{Kind: kind, Body: doc, TTL: o.TTL, IfMatch: o.IfMatch})
	if err != nil {
		return engine.Meta{}, err
	}
	return metas[0], nil
}

// Delete implements gateway.Items.
func (c *items) Delete(ctx context.Context, key engine.PartitionKey, id string, o *engine.WriteOptions) error {
	if err := c.checkID(ctx, key, id); err != nil {
		return err
	}
	if o == nil {
		o = &engine.WriteOptions{}
	}
	_, err := c.charged(ctx, o.Charge, key, command.Operation{Kind: command.Delete, ID: id, IfMatch: o.IfMatch})
	return err
}

// charged is batch, and adds what it costs to a sum, if there is one: what the nodes say of each operation, or that of a look at
// what a refused one met.
func (c *items) charged(ctx context.Context, sum *float64, key engine.PartitionKey, ops ...command.Operation) ([]engine.Meta, error) {
	metas, err := c.batch(ctx, key, ops...)
	switch {
	case sum == nil:
	case err != nil:
		*sum += cost.Failed
	default:
		for i := range metas {
			*sum += metas[i].Charge
		}
	}
	return metas, err
}

// batch carries out operations of one logical partition. If the answer was lost, it looks whether they are known to have been
// carried out.
func (c *items) batch(ctx context.Context, key engine.PartitionKey, ops ...command.Operation) ([]engine.Meta, error) {
	within, cancel := c.s.bound(ctx)
	defer cancel()
	metas, err := c.s.view(ctx).Batch(within, c.name, key, ops...)
	if errors.Is(err, client.ErrResults) {
		if found, ok := c.done(within, ctx, key, ops); ok {
			metas, err = found, nil
		}
	}
	for i := range metas {
		metas[i].Key = key
		if metas[i].ID = ops[i].ID; ops[i].ID == "" {
			metas[i].ID = idOf(ops[i].Body)
		}
	}
	return metas, answer(ctx, bare(err))
}

// done reports whether it is known of operations, which were decided one way or the other, that they were carried out. A document has a
// time and a resource id. So what is there byte for byte was written by the operation, or by one that does the same. The second
// makes no difference, unless the operation has a condition: two clients that increment a number send the same document, and one
// of them is refused. A deletion has one too: that the item is there.
func (c *items) done(within, ctx context.Context, key engine.PartitionKey, ops []command.Operation) (metas []engine.Meta, ok bool) {
	for i := range ops {
		o := &ops[i]
		if o.IfMatch != 0 || o.Kind == command.Check || o.Kind == command.Delete {
			return nil, false
		}
		it, err := c.s.newest(ctx).Read(within, c.name, key, idOf(o.Body))
		if err != nil || !bytes.Equal(it.Body, o.Body) {
			return nil, false
		}
		metas = append(metas, it.Meta)
	}
	return metas, true
}

// idOf returns the id of a document that KeyOf has read. Names of members differ by case: package encoding/json would take Id for it too.
func idOf(doc []byte) (id string) {
	var buf []byte
	jsondoc.Members(doc, func(name []byte, v jsondoc.Value) {
		if string(name) == "id" {
			id = string(v.Bytes(&buf))
		}
	})
	return id
}

// checkID returns the error for an id that no item can have, as the engine says it: an error that comes from a node says only its kind.
func (c *items) checkID(ctx context.Context, key engine.PartitionKey, id string) error {
	if 0 < len(id) && len(id) <= item.MaxID {
		return nil
	}
	_, err := c.Container.Read(ctx, key, id)
	return err
}

// bare returns a refusal without the number of the operation, which is not that of the client's operation.
func bare(err error) error {
	if of, ok := errors.AsType[*engine.UniqueKeyError](err); ok {
		return of
	}
	for _, kind := range []error{engine.ErrExists, engine.ErrNotFound, engine.ErrPrecondition} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// deletePage is how many items of a logical partition are deleted at once.
const deletePage = 100

// DeleteLogicalPartition implements gateway.Items. It deletes in several steps, and what is written meanwhile may stay.
func (c *items) DeleteLogicalPartition(ctx context.Context, key engine.PartitionKey, o *engine.WriteOptions) error {
	if o == nil {
		o = &engine.WriteOptions{}
	}
	var ops []command.Operation
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		_, err := c.charged(ctx, o.Charge, key, ops...)
		if errors.Is(err, engine.ErrNotFound) { // another request has deleted some: one by one
			for _, op := range ops {
				if err = c.Delete(ctx, key, op.ID, &engine.WriteOptions{Charge: o.Charge}); err != nil && !errors.Is(err, engine.ErrNotFound) {
					return err
				}
			}
			err = nil
		}
		ops = ops[:0]
		return err
	}
	for it, err := range c.Scan(ctx, key, engine.IDRange{}, nil) {
		if err != nil {
			return err
		}
		if o.Charge != nil {
			*o.Charge += it.Charge
		}
		if ops = append(ops, command.Operation{Kind: command.Delete, ID: it.ID}); len(ops) == deletePage {
			if err = flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// UpsertAll implements gateway.Items.
func (c *items) UpsertAll(ctx context.Context, key engine.PartitionKey, docs [][]byte) ([]engine.Meta, error) {
	ops := make([]command.Operation, len(docs))
	for i, doc := range docs {
		ops[i] = command.Operation{Kind: command.Upsert, Body: doc}
	}
	return c.batch(ctx, key, ops...)
}

var _ gateway.Items = (*items)(nil)
