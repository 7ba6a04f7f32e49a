package engine

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/trigger"
)

// A write that names triggers is an Update: the triggers and the write fill the batch of one
// transaction, which is committed as one record. So there is nothing new to recover. Before
// that record is durable, a crash, an error or a panic leaves neither the write nor anything
// of its triggers; after it, all is there.

// Trigger is a function that runs in the transaction of a write, if the write names it in
// WriteOptions.PreTrigger or PostTrigger. It does not run by itself.
type Trigger struct {
	Type TriggerType
	// On are the operations that may name the trigger. 0: all. An Upsert or Put may create
	// or replace, so its triggers must be for both.
	On TriggerOperation
	// Run is called with the context of the write. If it returns an error, nothing is
	// written and the write fails with a *TriggerError; so it does if Run panics. Run is
	// called again if the transaction meets a conflict: it must not change anything outside
	// the transaction that may not be changed twice. It may run on several goroutines at
	// once.
	Run func(ctx context.Context, call *TriggerCall) error
}

// TriggerType says when a trigger runs: PreTrigger or PostTrigger.
//
//	func (TriggerType) String() string
type TriggerType = trigger.Type

// Types of triggers.
const (
	PreTrigger  = trigger.Pre  // before the write, which it may change
	PostTrigger = trigger.Post // after the write, in the same transaction
)

// TriggerOperation is a set of what writes do: OnCreate|OnReplace.
//
//	func (TriggerOperation) String() string // create or replace
type TriggerOperation = trigger.Operations

// What writes do.
const (
	OnCreate  = trigger.Create  // the item did not exist
	OnReplace = trigger.Replace // the item existed; patches too
	OnDelete  = trigger.Delete
)

// TriggerCall is what a trigger gets. It is valid until the trigger returns.
type TriggerCall struct {
	// Tx is the transaction of the write. The trigger may read and write any items of the
	// logical partition with it. These writes run no triggers.
	Tx  *Tx
	On  TriggerOperation // what the write does: one of OnCreate, OnReplace, OnDelete
	ID  string           // of the item
	Old *Item            // as the write found it; nil: there was none
	// Document is what is written, nil for a Delete; of a Patch it is the result. It must
	// not be modified. A pre-trigger may assign another one, with the same partition key
	// and id.
	Document []byte
}

// RegisterTrigger makes a trigger known under a name; ErrExists if the name is taken. The
// trigger stays until the store is closed: functions are not stored, so a program registers
// them after each Open. A container that takes the place of this one, a copy or one that is
// created later, has triggers of its own.
func (c *Container) RegisterTrigger(name string, t Trigger) error {
	if err := c.triggers.Register(name, trigger.Trigger[*TriggerCall](t)); err != nil {
		return fmt.Errorf("container %q: %w", c.name, err)
	}
	return nil
}

// mayDo says what an operation can do, by verb.
var mayDo = [...]TriggerOperation{verbCreate: OnCreate, verbUpsert: OnCreate | OnReplace, verbReplace: OnReplace, verbPut: OnCreate | OnReplace, verbDelete: OnDelete, verbPatch: OnReplace}

// hasTriggers says whether the write names triggers.
func (o *WriteOptions) hasTriggers() bool {
	return o != nil && (o.PreTrigger != "" || o.PostTrigger != "")
}

// triggered is a write that names triggers.
type triggered struct {
	verb      verb
	id        string
	body      []byte
	patch     *Patch
	pre, post trigger.Named[*TriggerCall]
	options   WriteOptions // of the operation in the transaction
}

// writeTriggeredDocument is writeDocument with triggers.
func (c *Container) writeTriggeredDocument(ctx context.Context, doc []byte, o *WriteOptions, v verb) (Meta, error) {
	if err := c.checkDocument(v.Precondition(), o.Key); err != nil {
		return Meta{}, err
	}
	r := requests.Get().(*request)
	defer r.release()
	pk, err := c.scanDocument(r, doc, o.Key)
	if err != nil {
		return Meta{}, err
	}
	return c.writeTriggered(ctx, keyOf(string(pk)), o, &triggered{verb: v, id: string(r.doc.ID), body: doc})
}

// writeTriggered carries out a write that names triggers.
func (c *Container) writeTriggered(ctx context.Context, pk PartitionKey, o *WriteOptions, w *triggered) (meta Meta, err error) {
	if w.pre, w.post, err = c.triggers.Find(o.PreTrigger, o.PostTrigger, mayDo[w.verb]); err != nil {
		return Meta{}, fmt.Errorf("container %q: %w", c.name, err)
	}
	w.options.IfMatch, w.options.TTL = o.IfMatch, o.TTL
	u := updates.Get().(*update)
	defer u.release()
	opts := UpdateOptions{Serializable: true, Durability: o.Durability}
	err = u.run(ctx, c, pk, opts, func(tx *Tx) error { return w.run(ctx, tx) })
	if o.charged(u.charge); err == nil {
		meta = u.commit.metas()[u.written[w.id]]
	}
	meta.Charge = u.charge
	return meta, err
}

// run does the write and its triggers in a transaction.
func (w *triggered) run(ctx context.Context, tx *Tx) error {
	c, v, id := tx.update.c, w.verb, bytesOf(w.id)
	old, err := tx.Read(w.id)
	if err != nil && err != ErrNotFound {
		return err
	}
	call := TriggerCall{Tx: tx, On: OnCreate, ID: w.id, Document: w.body}
	if err == nil {
		call.On, call.Old = OnReplace, &old
	}
	if err = v.Precondition().Check(uint64(w.options.IfMatch), &item.Version{Seq: old.Seq}, err == nil, lifetime.Past{}); err != nil {
		return err
	}
	if v == verbDelete {
		call.On = OnDelete
	} else if v == verbPatch {
		v = verbReplace
		if call.Document, _, err = tx.update.patched(ctx, id, old.Body, old.ETag, &w.patch.of); err != nil {
			return err
		}
	}
	if err = w.pre.Run(ctx, &call); err != nil {
		return err
	}
	doc, ttl := call.Document, c.defaultTTL()
	switch {
	case c.def.Kind == Opaque:
		err = c.checkBytes(v, tx.pk, w.id, doc)
	case v != verbDelete:
		ttl, err = tx.update.checkChanged(id, doc)
	}
	if v == verbDelete && doc != nil {
		err = invalidf("TriggerCall.Document is set for a delete")
	}
	if err != nil {
		return w.pre.Failed(err)
	}
	if err = tx.write(v, id, doc, ttl, &w.options); err != nil {
		return err
	}
	if err = w.post.Run(ctx, &call); err == nil && !bytes.Equal(call.Document, doc) {
		err = w.post.Failed(invalidf("TriggerCall.Document is set after the write"))
	}
	return err
}
