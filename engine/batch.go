package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/cleavestore/cleave/internal/docpatch"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/writebatch"
	"github.com/cleavestore/cleave/partmap"
)

// Batch collects operations on items of one logical partition. Container.Commit carries
// them out in order: all of them or none. No reader ever sees only some of them.
//
// Limits are checked as operations are added: an add that is refused leaves the batch as
// it was. Documents and ids are copied. A Batch serves one goroutine at a time and must
// not be copied. After Reset it can be used again without allocating. NewBatch makes one; the
// zero Batch is of no container, and refuses everything.
type Batch struct {
	// Durability of the batch, if not zero, replaces the store's default. Interval is not
	// possible here.
	Durability Durability

	c       *Container
	pk      PartitionKey
	refused error // why every call fails: see usable
	writes  writebatch.Batch
	alone   bool    // stands for a single write: the limits of batches do not apply
	charge  float64 // RU of the commits since begin, failed ones too
}

// verb is a kind of operation.
type verb = writebatch.Verb

const (
	verbCreate  = writebatch.Create
	verbUpsert  = writebatch.Upsert
	verbReplace = writebatch.Replace
	verbPut     = writebatch.Put
	verbDelete  = writebatch.Delete
	verbPatch   = writebatch.Patch
)

// BatchError names the operation because of which a batch was not carried out. It comes as
// a *BatchError, and matches what Err matches.
//
//	Index int    // of the operation in the batch, from 0; of a Check among the checks
//	Op    string // "create", "upsert", "replace", "put", "delete", "patch" or "check"
//	Err   error  // cause
type BatchError = writebatch.Error

// NewBatch returns an empty batch for a logical partition. If the key is invalid, every
// add and Commit returns an error.
func (c *Container) NewBatch(pk PartitionKey) *Batch {
	b := new(Batch)
	b.begin(c, pk)
	return b
}

// begin makes an empty batch ready for a container and a partition key.
func (b *Batch) begin(c *Container, pk PartitionKey) {
	pk = c.keys.Own(pk)
	b.c, b.pk, b.refused = c, pk, c.checkPartitionKey(pk)
	if b.refused == nil {
		epk := pk.EPK()
		b.bind(c, pk, &epk)
	}
}

// beginAlone is begin for a batch that stands for a single write.
func (b *Batch) beginAlone(c *Container, pk PartitionKey) {
	b.begin(c, pk)
	b.alone = true
	b.writes.Unbounded()
}

// bind is begin for a key that is valid, of the version of the container.
func (b *Batch) bind(c *Container, pk PartitionKey, epk *partmap.EPK) {
	b.c, b.pk = c, pk
	limits := &c.def.Limits
	b.writes.Begin((*batchHost)(b), writebatch.Rules{
		Operations: limits.BatchOperations, Bytes: limits.BatchBytes, Unique: c.unique, Replicated: c.def.Replicated, Follows: c.life.Follows(),
	}, pk.Encoded(), epk)
}

// batchHost is what a batch asks its container: it implements writebatch.Container.
type batchHost Batch

// Past says which items have expired. An entry has a time of its own.
func (h *batchHost) Past() lifetime.Past { return h.c.life.Past(h.c.db.clockMillis()) }

// Patched returns a document with a patch applied.
func (h *batchHost) Patched(ctx context.Context, id, doc []byte, seq uint64, p *docpatch.Patch) (patched []byte, ttl int64, err error) {
	return (*Batch)(h).patched(ctx, id, doc, ETag(seq), p)
}

// batches is a pool for calls that use a batch internally.
var batches = sync.Pool{New: func() any { return new(Batch) }}

// release empties the batch and returns it to the pool.
func (b *Batch) release() {
	b.Reset()
	b.empty()
	batches.Put(b)
}

// empty drops what a batch in the pool must not keep.
func (b *Batch) empty() {
	b.writes.Release()
	b.c, b.pk, b.Durability, b.alone, b.charge = nil, PartitionKey{}, Durability{}, false, 0
}

// Create adds the writing of a new item; if the item exists, Commit fails with ErrExists.
// An add returns those errors of a single write that concern the document, ErrKeyMismatch
// if the document is of another logical partition, and a *LimitError past
// Limits.BatchOperations or Limits.BatchBytes. An IfMatch is compared when the batch is
// committed. WriteOptions.Durability and Charge are refused here: see Batch.Durability
// and Meta.Charge.
func (b *Batch) Create(doc []byte, o *WriteOptions) error { return b.addDocument(verbCreate, doc, o) }

// Upsert adds the writing of an item, whether or not it exists.
func (b *Batch) Upsert(doc []byte, o *WriteOptions) error { return b.addDocument(verbUpsert, doc, o) }

// Replace adds the writing of an item that must exist.
func (b *Batch) Replace(doc []byte, o *WriteOptions) error {
	return b.addDocument(verbReplace, doc, o)
}

// Put adds the writing of an item of an opaque container, whether or not it
// exists.
func (b *Batch) Put(id string, body []byte, o *WriteOptions) error {
	return b.addBytes(verbPut, id, body, o)
}

// Delete adds the deletion of an item that must exist. The container may be of either
// kind.
func (b *Batch) Delete(id string, o *WriteOptions) error { return b.addBytes(verbDelete, id, nil, o) }

// Check adds a condition: the item has this etag or, if the etag is 0, there is none. If it
// does not hold, Commit fails with ErrPrecondition. Conditions come before all operations of
// the batch and write nothing, so the batch may also write the item. They count as operations
// in the limits, and in Len, but have no Meta. So a transaction can be carried out as a batch
// of the etags that it has read and of its writes: where a log orders the batches of many
// writers, for instance.
func (b *Batch) Check(id string, etag ETag) error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.c.checkID(id); err != nil {
		return err
	}
	return b.writes.Check(bytesOf(id), uint64(etag))
}

// usable returns why every call fails: the key is invalid, or there is no container.
func (b *Batch) usable() error {
	if b.c == nil {
		return invalidf("a Batch that NewBatch has not made")
	}
	return b.refused
}

// Len returns the number of operations.
func (b *Batch) Len() int { return b.writes.Len() }

// Size returns the bytes of the operations' keys, ids and documents, which
// Limits.BatchBytes bounds.
func (b *Batch) Size() int64 { return b.writes.Size }

// Charge returns what the commits of the batch have cost, in request units, those that
// failed included, since it was made; Reset does not change that. The Meta of each
// operation has its part.
func (b *Batch) Charge() float64 { return b.charge }

// Key returns the partition key that the batch is for.
func (b *Batch) Key() PartitionKey { return b.pk }

// Reset empties the batch. Its key and durability stay.
func (b *Batch) Reset() { b.writes.Reset() }

func (b *Batch) addDocument(v verb, doc []byte, o *WriteOptions) error {
	if err := b.usable(); err != nil {
		return err
	}
	r := requests.Get().(*request)
	defer r.release()
	if err := b.checkDocument(v, o); err != nil {
		return err
	}
	if err := b.scan(r, doc); err != nil {
		return err
	}
	return b.add(v, r.doc.ID, doc, r.ttl, o)
}

// checkDocument returns why the batch cannot take a document with this verb, or nil.
func (b *Batch) checkDocument(v verb, o *WriteOptions) error {
	if o != nil && o.Key.Valid() && b.c.keys.Own(o.Key) != b.pk {
		return fmt.Errorf("%w: WriteOptions.Key is %s, the batch is for %s", ErrKeyMismatch, o.Key, b.pk)
	}
	return b.c.checkDocument(v.Precondition(), b.pk)
}

// scan scans a document into the request. Its partition key must be the batch's.
func (b *Batch) scan(r *request, doc []byte) error {
	_, err := b.c.scanDocument(r, doc, b.pk)
	return err
}

func (b *Batch) addBytes(v verb, id string, body []byte, o *WriteOptions) error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.c.checkBytes(v, b.pk, id, body); err != nil {
		return err
	}
	return b.add(v, bytesOf(id), body, b.c.defaultTTL(), o)
}

// add adds an operation, or refuses it.
func (b *Batch) add(v verb, id, body []byte, ttl int64, o *WriteOptions) error {
	var op writebatch.Op
	if err := b.c.fill(&op, v, ttl, o); err != nil {
		return err
	}
	return b.writes.Add(op, id, body)
}

// fill sets everything but the data of an operation. ttl is that of the document or of the
// container.
func (c *Container) fill(op *writebatch.Op, v verb, ttl int64, o *WriteOptions) (err error) {
	*op = writebatch.Op{Verb: v, TTL: ttl}
	if o == nil {
		return nil
	}
	if v != verbDelete {
		if op.TTL, err = c.ttl(o, ttl); err != nil {
			return err
		}
		op.GivenTTL = o.TTL != 0
	}
	if o.Charge != nil {
		return invalidf("WriteOptions.Charge: an operation of a batch or transaction has none before the whole is committed")
	}
	if o.Durability.mode != durabilityDefault {
		return invalidf("WriteOptions.Durability: the operations of a batch or transaction have that of the whole")
	}
	if o.hasTriggers() {
		return invalidf("WriteOptions.PreTrigger, PostTrigger: an operation of a batch or transaction runs no triggers")
	}
	op.IfMatch = uint64(o.IfMatch)
	return nil
}
