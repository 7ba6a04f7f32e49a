package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavestore/cleave/internal/conflict"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/overlay"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/writebatch"
	"github.com/cleavestore/cleave/partmap"
)

// Tx is a transaction in one logical partition: it reads as of one sequence and
// sees its own writes, which take effect together when the function that was
// given to Update returns nil. It serves one goroutine, until that function
// returns; afterwards its methods return ErrClosed.
//
// What a transaction writes counts against Limits.BatchOperations, once for
// each item, and Limits.BatchBytes; a write beyond them is refused with a
// *LimitError and leaves the transaction as it was.
type Tx struct {
	ctx      context.Context
	snapshot Snapshot
	pk       PartitionKey
	epk      partmap.EPK // of pk
	over     bool
	charge   float64 // RU of its reads
	update   *update // nil in a View
}

// Key returns the partition key of the transaction.
func (tx *Tx) Key() PartitionKey { return tx.pk }

// Seq returns the sequence as of which the transaction reads. It sees every write to its
// logical partition up to it, none above, and its own writes.
func (tx *Tx) Seq() uint64 { return tx.snapshot.seq }

// Charge returns what the transaction has read so far, in request units, scans included.
// UpdateOptions.Charge has the writes too, and the tries that met a conflict.
func (tx *Tx) Charge() float64 { return tx.charge }

// spent notes what a read has cost.
func (tx *Tx) spent(charge float64) {
	if tx.charge += charge; tx.update != nil {
		tx.update.charge += charge
	}
}

// Read returns an item, or ErrNotFound. If the transaction itself has written the item,
// Read returns that write, without ETag, Seq and Modified.
func (tx *Tx) Read(id string) (Item, error) { return tx.ReadInto(id, nil) }

// ReadInto is Read with the document appended to buf, whose memory Item.Body
// shares.
func (tx *Tx) ReadInto(id string, buf []byte) (Item, error) {
	if tx.over {
		return Item{}, ErrClosed
	}
	if op := tx.own(id); op != nil {
		if op.Deletes() {
			return Item{}, ErrNotFound
		}
		n := len(buf)
		buf = append(buf, op.Body()...)
		return Item{Meta: Meta{Key: tx.pk, ID: id}, Body: buf[n:]}, nil
	}
	at := tx.snapshot.whole()
	if tx.charge >= mostOverdrawn {
		at.admission = mayWait
	}
	it, err := tx.snapshot.c.readWaiting(tx.ctx, tx.pk, &tx.epk, id, at, buf)
	tx.spent(it.Charge)
	if tx.update != nil && (err == nil || err == ErrNotFound) {
		tx.update.reads.Saw(id, conflict.Sighting{Seq: it.Seq, Exists: err == nil})
	}
	return it, err
}

// mostOverdrawn is how many RU a transaction reads, by Read, without being admitted again. Then
// it waits before each Read, as a scan does before each page but the first.
const mostOverdrawn = 1000

// own returns the transaction's write of an item, nil if there is none.
func (tx *Tx) own(id string) *writebatch.Op {
	if tx.update == nil {
		return nil
	}
	return tx.update.own(id)
}

// Scan returns the items with these ids, in the order of the ids. It includes items that
// the transaction has written before the loop began. At most one error comes, as the last
// pair. What lies outside of the range is not read, and a serializable transaction does not
// depend on it.
func (tx *Tx) Scan(ids IDRange, o *ScanOptions) iter.Seq2[Item, error] {
	within := ids.compile()
	return func(yield func(Item, error) bool) {
		if tx.over {
			yield(Item{}, ErrClosed)
			return
		}
		var opts ScanOptions
		if o != nil {
			opts = *o
		}
		charge := 0.0
		charged := opts.Charge
		opts.Charge = &charge
		defer func() {
			if charged != nil {
				*charged += charge
			}
			tx.spent(charge)
		}()
		m := overlay.Scan[Item]{
			Changes: tx.ownWithin(&within, opts.Reverse), Reverse: opts.Reverse, Limit: opts.Limit,
			ID: func(it *Item) string { return it.ID }, Yield: func(it Item) bool { return yield(it, nil) },
		}
		if opts.Limit > 0 {
			opts.Limit += len(m.Changes) // each may hide an item of the snapshot
		}
		u, scanned := tx.update, 0
		if u != nil { // before the scan: iter.Pull may end it after the commit
			scanned = u.reads.Scanned(within)
		}
		err := m.Run(tx.below(within, &opts))
		if m.Stopped && !tx.over && u != nil {
			u.reads.ScannedTo(scanned, m.Last, m.Reverse)
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// below scans the snapshot.
func (tx *Tx) below(ids item.IDRange, o *ScanOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := &tx.snapshot
		for it, err := range s.c.scanKey(tx.ctx, tx.pk, ids, o, s) {
			if tx.over { // iter.Pull: the sequence is not pinned any more
				err = ErrClosed
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// ownWithin returns a copy of the transaction's writes with these ids, in scan order.
func (tx *Tx) ownWithin(ids *item.IDRange, reverse bool) (own []overlay.Change[Item]) {
	if tx.update == nil {
		return nil
	}
	for i := range tx.update.writes.Ops {
		if op := &tx.update.writes.Ops[i]; ids.Holds(op.ID()) {
			n := len(op.ID())
			both := slices.Concat(op.ID(), op.Body())
			id := stringOf(both[:n])
			own = append(own, overlay.Change[Item]{ID: id, Deleted: op.Deletes(), Item: Item{Meta: Meta{Key: tx.pk, ID: id}, Body: both[n:]}})
		}
	}
	overlay.Sort(own, reverse)
	return own
}

// Create writes a new item. It returns ErrExists if the item exists, and refuses
// a document as Batch.Create does.
func (tx *Tx) Create(doc []byte, o *WriteOptions) error { return tx.writeDocument(verbCreate, doc, o) }

// Upsert writes an item, whether or not it exists. IfMatch must be the etag with which
// the transaction sees the item; an item that the transaction itself has written has
// none yet.
func (tx *Tx) Upsert(doc []byte, o *WriteOptions) error { return tx.writeDocument(verbUpsert, doc, o) }

// Replace writes an item that exists; ErrNotFound otherwise.
func (tx *Tx) Replace(doc []byte, o *WriteOptions) error {
	return tx.writeDocument(verbReplace, doc, o)
}

// Put writes an item of an opaque container, whether or not it exists.
func (tx *Tx) Put(id string, body []byte, o *WriteOptions) error {
	return tx.writeBytes(verbPut, id, body, o)
}

// Delete deletes an item; ErrNotFound if there is none.
func (tx *Tx) Delete(id string, o *WriteOptions) error { return tx.writeBytes(verbDelete, id, nil, o) }

func (tx *Tx) writable() error {
	if tx.over {
		return ErrClosed
	}
	if tx.update == nil {
		return fmt.Errorf("write in a View: %w", ErrReadOnly)
	}
	return nil
}

func (tx *Tx) writeDocument(v verb, doc []byte, o *WriteOptions) error {
	if err := tx.writable(); err != nil {
		return err
	}
	r := requests.Get().(*request)
	defer r.release()
	if err := tx.update.checkDocument(v, o); err != nil {
		return err
	}
	if err := tx.update.scan(r, doc); err != nil {
		return err
	}
	return tx.write(v, r.doc.ID, doc, r.ttl, o)
}

func (tx *Tx) writeBytes(v verb, id string, body []byte, o *WriteOptions) error {
	if err := tx.writable(); err != nil {
		return err
	}
	c := tx.update.c
	if err := c.checkBytes(v, tx.pk, id, body); err != nil {
		return err
	}
	return tx.write(v, bytesOf(id), body, c.defaultTTL(), o)
}

// write judges a write against what the transaction sees, and keeps it.
func (tx *Tx) write(v verb, id, body []byte, ttl int64, o *WriteOptions) error {
	u := tx.update
	var op writebatch.Op
	if err := u.c.fill(&op, v, ttl, o); err != nil {
		return err
	}
	if op.Conditional() {
		found, err := tx.sight(id)
		if err != nil {
			return err
		}
		if err := op.Check(&item.Version{Seq: found.Seq}, found.Exists, lifetime.Past{}); err != nil {
			return err
		}
	}
	if i, ok := u.written[stringOf(id)]; ok {
		return u.writes.Replace(i, op, body)
	}
	if err := u.writes.Add(op, id, body); err != nil {
		return err
	}
	n := u.Len() - 1
	u.written[stringOf(u.writes.Ops[n].ID())] = n // the id stays where it is until the reset
	return nil
}

// sight returns what the transaction sees of an item.
func (tx *Tx) sight(id []byte) (conflict.Sighting, error) {
	if op := tx.own(stringOf(id)); op != nil {
		return conflict.Sighting{Exists: !op.Deletes()}, nil
	}
	if found, ok := tx.update.reads.Seen(stringOf(id)); ok {
		return found, nil
	}
	buf := borrowed.Get().(*[]byte)
	defer borrowed.Put(buf)
	it, err := tx.ReadInto(tx.update.reads.Keep(id), (*buf)[:0])
	if err != nil && err != ErrNotFound {
		return conflict.Sighting{}, err
	}
	return conflict.Sighting{Seq: it.Seq, Exists: err == nil}, nil
}

// begin admits a transaction with all that it will do, unless it is begun anew, and takes
// the sequence at which it reads. end must be called afterwards.
func (c *Container) begin(ctx context.Context, pk PartitionKey, anew bool) (*Tx, error) {
	return inNewest(c, func(c *Container) (*Tx, error) { return c.beginNow(ctx, pk, anew) })
}

// beginNow is begin in the container's own state.
func (c *Container) beginNow(ctx context.Context, pk PartitionKey, anew bool) (*Tx, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	pk = c.keys.Own(pk)
	if err := c.checkPartitionKey(pk); err != nil {
		return nil, err
	}
	db := c.db
	epk := pk.EPK()
	how := mayRefuse
	if anew {
		how = mayPass
	}
	for {
		p, err := c.route(pk.Encoded(), &epk, how)
		if err != nil {
			return nil, err
		}
		at := db.env.Pins.Take(pins.Transaction, p.Visible.Load, db.opts.clock())
		if !p.Replaced() && !p.Dropped.Load() {
			return &Tx{ctx: ctx, pk: pk, epk: epk, snapshot: Snapshot{c: c, seq: at.Seq, pin: at, installEpoch: p.InstallEpoch, past: p.Past(), admission: mayPass}}, nil
		}
		// The successors may have flushed before the sequence was taken, or not show it yet.
		db.env.Pins.Release(at)
		if c.dropped.Load() {
			return nil, c.gone()
		}
	}
}

// end ends a transaction. The update keeps its memory for another try.
func (tx *Tx) end() {
	tx.over, tx.update = true, nil
	tx.snapshot.c.db.env.Pins.Release(tx.snapshot.pin)
}

// View calls fn with a transaction that reads a logical partition as of one
// sequence: all that was acknowledged before the call. Its writes fail with
// ErrReadOnly. View returns fn's error.
//
// Versions that the transaction can see are kept until fn returns, so fn should not take
// long. It may also use the store directly.
func (c *Container) View(ctx context.Context, pk PartitionKey, fn func(*Tx) error) error {
	if fn == nil {
		return invalidf("View: no function is given")
	}
	tx, err := c.begin(ctx, pk, false)
	if err != nil {
		return err
	}
	defer tx.end()
	return fn(tx)
}
