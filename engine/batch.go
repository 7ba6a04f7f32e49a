package engine

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// Batch collects operations on items of one logical partition. Container.Commit carries
// them out in order: all of them or none. No reader ever sees only some of them.
//
// Limits are checked as operations are added: an add that is refused leaves the batch as
// it was. Documents and ids are copied. A Batch serves one goroutine at a time and must
// not be copied. After Reset it can be used again without allocating.
type Batch struct {
	// Durability of the batch, if not zero, replaces the store's default. Interval is not
	// possible here.
	Durability Durability

	c       *Container
	pk      PartitionKey
	refused error            // why every call fails: the key is invalid
	epk     partmap.EPK      // of pk
	ops     []batchOp        // beyond the length: buffers for reuse
	size    int64            // bytes of keys, ids and bodies
	patches int              // operations that are patches
	alone   bool             // stands for a single write: the limits of batches do not apply
	charge  float64          // RU of the commits since begin, failed ones too
	record  []byte           // scratch: the record of the log
	order   []int32          // scratch: operations by id, then by index
	found   []presentVersion // scratch: the present version that each operation found
}

// batchOp is an operation of a batch.
type batchOp struct {
	verb     verb
	ifMatch  ETag
	ttl      int64  // milliseconds, 0: for ever
	explicit bool   // the ttl was given for this write
	patch    *Patch // of verbPatch; the body is its result, once that is known
	failed   error  // why the patch cannot be applied
	data     []byte // the id, then the body
	idLen    int
	earlier  int32 // operation before it on the same item, -1 if there is none
	final    bool  // no operation after it is on the same item
}

func (op *batchOp) id() []byte   { return op.data[:op.idLen] }
func (op *batchOp) body() []byte { return op.data[op.idLen:] }

// verb is a kind of operation.
type verb uint8

const (
	verbCreate verb = iota
	verbUpsert
	verbReplace
	verbPut
	verbDelete
	verbPatch
)

var verbNames = [...]string{"create", "upsert", "replace", "put", "delete", "patch"}

// precondition returns what the verb requires of the present version.
func (v verb) precondition() precondition {
	switch v {
	case verbCreate:
		return absent
	case verbReplace, verbDelete, verbPatch:
		return present
	}
	return anything
}

// BatchError names the operation because of which a batch was not carried out.
type BatchError struct {
	Index int    // of the operation in the batch, from 0
	Op    string // "create", "upsert", "replace", "put", "delete" or "patch"
	Err   error
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("operation %d of the batch, %s: %v", e.Index+1, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// NewBatch returns an empty batch for a logical partition. If the key is invalid, every
// add and Commit returns an error.
func (c *Container) NewBatch(pk PartitionKey) *Batch {
	b := new(Batch)
	b.begin(c, pk)
	return b
}

// begin makes an empty batch ready for a container and a partition key.
func (b *Batch) begin(c *Container, pk PartitionKey) {
	b.c, b.pk, b.refused = c, pk, c.checkPartitionKey(pk)
	if b.refused == nil {
		b.epk = partmap.HashEncoded(pk.Encoded())
	}
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
	if cap(b.ops) > definition.DefaultBatchOperations {
		b.ops = nil
	}
	clear(b.found)
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

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

// Size returns the bytes of the operations' keys, ids and documents, which
// Limits.BatchBytes bounds.
func (b *Batch) Size() int64 { return b.size }

// Charge returns what the commits of the batch have cost, in request units, those that
// failed included, since it was made; Reset does not change that. The Meta of each
// operation has its part.
func (b *Batch) Charge() float64 { return b.charge }

// Key returns the partition key that the batch is for.
func (b *Batch) Key() PartitionKey { return b.pk }

// Reset empties the batch. Its key and durability stay.
func (b *Batch) Reset() {
	for i := range b.ops {
		b.ops[i].patch = nil
		if cap(b.ops[i].data) > keptScratch {
			b.ops[i].data = nil
		}
	}
	if cap(b.record) > keptScratch {
		b.record = nil
	}
	b.ops, b.size, b.patches = b.ops[:0], 0, 0
}

// keptScratch is the size above which a buffer is not kept for reuse.
const keptScratch = 64 << 10

func (b *Batch) addDocument(v verb, doc []byte, o *WriteOptions) error {
	if b.refused != nil {
		return b.refused
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
	if o != nil && o.Key.Valid() && o.Key != b.pk {
		return fmt.Errorf("%w: WriteOptions.Key is %s, the batch is for %s", ErrKeyMismatch, o.Key, b.pk)
	}
	return b.c.checkDocument(v.precondition(), b.pk)
}

// scan scans a document into the request. Its partition key must be the batch's.
func (b *Batch) scan(r *request, doc []byte) error {
	_, err := b.c.scanDocument(r, doc, b.pk)
	return err
}

func (b *Batch) addBytes(v verb, id string, body []byte, o *WriteOptions) error {
	if b.refused != nil {
		return b.refused
	}
	if err := b.c.checkBytes(v, b.pk, id, body); err != nil {
		return err
	}
	return b.add(v, bytesOf(id), body, b.c.defaultTTL(), o)
}

// add adds an operation, or refuses it.
func (b *Batch) add(v verb, id, body []byte, ttl int64, o *WriteOptions) error {
	var op batchOp
	if err := op.fill(b.c, v, id, ttl, o); err != nil {
		return err
	}
	return b.addFilled(op, id, body)
}

// addFilled is add for an operation that has everything but its data.
func (b *Batch) addFilled(op batchOp, id, body []byte) error {
	limits := &b.c.def.Limits
	if len(b.ops) >= limits.BatchOperations {
		return &LimitError{What: "batch", Unit: "operations", Size: int64(len(b.ops)) + 1, Limit: int64(limits.BatchOperations), Kind: ErrTooLarge}
	}
	size := b.opSize(id, body)
	if err := b.fits(size); err != nil {
		return err
	}
	if n := len(b.ops); n < cap(b.ops) {
		op.data = b.ops[:n+1][n].data[:0]
	}
	op.data = append(append(op.data, id...), body...)
	b.ops = append(b.ops, op)
	b.size += size
	return nil
}

// replace replaces an operation by another one on the same item.
func (b *Batch) replace(i int, op batchOp, body []byte) error {
	old := &b.ops[i]
	more := int64(len(body) - len(old.body()))
	if err := b.fits(more); err != nil {
		return err
	}
	op.data = append(old.data[:old.idLen], body...)
	*old = op
	b.size += more
	return nil
}

// fill sets everything but the data. ttl is that of the document or of the container.
func (op *batchOp) fill(c *Container, v verb, id []byte, ttl int64, o *WriteOptions) (err error) {
	*op = batchOp{verb: v, idLen: len(id), ttl: ttl, earlier: -1, final: true}
	if o == nil {
		return nil
	}
	if v != verbDelete {
		if op.ttl, err = c.ttl(o, ttl); err != nil {
			return err
		}
		op.explicit = o.TTL != 0
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
	op.ifMatch = o.IfMatch
	return nil
}

// opSize returns what an operation adds to Batch.size.
func (b *Batch) opSize(id, body []byte) int64 {
	return int64(len(b.pk.Encoded()) + len(id) + len(body))
}

// fits returns an error if the batch may not grow by this many bytes.
func (b *Batch) fits(more int64) error {
	if limit := b.c.def.Limits.BatchBytes; b.size+more > limit && !b.alone {
		return &LimitError{What: "batch", Size: b.size + more, Limit: limit, Kind: ErrTooLarge}
	}
	return nil
}

// key returns the sort key of an item of the batch.
func (b *Batch) key(id []byte) item.Key {
	return item.Key{Hash: b.epk.Head(), EPK: b.epk.Bytes(), PK: b.pk.Encoded(), ID: id}
}

// link sets earlier and final of every operation.
func (b *Batch) link() {
	b.order = b.order[:0]
	for i := range b.ops {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(x, y int32) int {
		if c := bytes.Compare(b.ops[x].id(), b.ops[y].id()); c != 0 {
			return c
		}
		return int(x - y)
	})
	for n, i := range b.order {
		op := &b.ops[i]
		op.earlier, op.final = -1, true
		if n > 0 {
			if before := b.order[n-1]; bytes.Equal(b.ops[before].id(), op.id()) {
				op.earlier, b.ops[before].final = before, false
			}
		}
	}
}

// conditional says whether the operation depends on the present version of its item.
func (op *batchOp) conditional() bool { return op.verb.precondition() != anything || op.ifMatch != 0 }
