package engine

import (
	"context"
	"iter"
)

// TypedTx is a Tx whose items are values of T. What has no method of its own here is that of
// the Tx. It serves one goroutine, until the function that it was given to returns.
type TypedTx[T any] struct {
	*Tx // itself, for items that are not values of T
	t   TypedContainer[T]
}

// Update is Container.Update.
func (t TypedContainer[T]) Update(ctx context.Context, pk PartitionKey, fn func(TypedTx[T]) error) error {
	return t.untyped.Update(ctx, pk, t.inTx(fn))
}

// UpdateWith is Container.UpdateWith.
func (t TypedContainer[T]) UpdateWith(ctx context.Context, pk PartitionKey, o *UpdateOptions, fn func(TypedTx[T]) error) ([]Meta, error) {
	return t.untyped.UpdateWith(ctx, pk, o, t.inTx(fn))
}

// View is Container.View.
func (t TypedContainer[T]) View(ctx context.Context, pk PartitionKey, fn func(TypedTx[T]) error) error {
	return t.untyped.View(ctx, pk, t.inTx(fn))
}

// In returns a transaction with the items as values of T, for instance that of a trigger.
func (t TypedContainer[T]) In(tx *Tx) TypedTx[T] { return TypedTx[T]{Tx: tx, t: t} }

func (t TypedContainer[T]) inTx(fn func(TypedTx[T]) error) func(*Tx) error {
	if fn == nil {
		return nil // refused like any other
	}
	return func(tx *Tx) error { return fn(t.In(tx)) }
}

// Read is Tx.Read.
func (x TypedTx[T]) Read(id string) (TypedItem[T], error) {
	return x.t.item(x.Tx.Read(id))
}

// Scan is Tx.Scan. An error of the codec ends it.
func (x TypedTx[T]) Scan(ids IDRange, o *ScanOptions) iter.Seq2[TypedItem[T], error] {
	return mapped(x.Tx.Scan(ids, o), x.t.item)
}

// Create is Tx.Create. An error of the codec comes as it is, and nothing is written.
func (x TypedTx[T]) Create(value T, o *WriteOptions) error { return x.t.add(value, o, x.Tx.Create) }

// Upsert is Tx.Upsert.
func (x TypedTx[T]) Upsert(value T, o *WriteOptions) error { return x.t.add(value, o, x.Tx.Upsert) }

// Replace is Tx.Replace.
func (x TypedTx[T]) Replace(value T, o *WriteOptions) error { return x.t.add(value, o, x.Tx.Replace) }

// TypedBatch is a Batch whose documents are values of T. What has no method of its own here
// is that of the Batch.
type TypedBatch[T any] struct {
	*Batch // itself, for documents that are not values of T
	t      TypedContainer[T]
}

// NewBatch is Container.NewBatch.
func (t TypedContainer[T]) NewBatch(pk PartitionKey) TypedBatch[T] {
	return TypedBatch[T]{Batch: t.untyped.NewBatch(pk), t: t}
}

// Commit is Container.Commit.
func (t TypedContainer[T]) Commit(ctx context.Context, b TypedBatch[T]) ([]Meta, error) {
	return t.untyped.Commit(ctx, b.Batch)
}

// Create is Batch.Create. An error of the codec comes as it is, and nothing is added.
func (b TypedBatch[T]) Create(value T, o *WriteOptions) error {
	return b.t.add(value, o, b.Batch.Create)
}

// Upsert is Batch.Upsert.
func (b TypedBatch[T]) Upsert(value T, o *WriteOptions) error {
	return b.t.add(value, o, b.Batch.Upsert)
}

// Replace is Batch.Replace.
func (b TypedBatch[T]) Replace(value T, o *WriteOptions) error {
	return b.t.add(value, o, b.Batch.Replace)
}

func (t TypedContainer[T]) add(value T, o *WriteOptions, add func([]byte, *WriteOptions) error) error {
	doc, err := t.codec.Marshal(value)
	if err != nil {
		return err
	}
	return add(doc, o)
}

// TypedChange is a Change whose item is a value of T. The value is zero if the change left
// no item: see ChangeKind.
type TypedChange[T any] struct {
	TypedItem[T]
	Kind     ChangeKind
	Previous uint64 // as in Change

	change Change
}

// Position is Change.Position.
func (ch *TypedChange[T]) Position() ChangePosition { return ch.change.Position() }

// Changes is Container.Changes. An error of the codec ends it.
func (t TypedContainer[T]) Changes(ctx context.Context, s Scope, from ChangePosition, o *ChangeOptions) iter.Seq2[TypedChange[T], error] {
	return mapped(t.untyped.Changes(ctx, s, from, o), func(ch Change, err error) (TypedChange[T], error) {
		out := TypedChange[T]{TypedItem: TypedItem[T]{Meta: ch.Meta}, Kind: ch.Kind, Previous: ch.Previous}
		if err == nil && ch.Kind < ChangeDeleted {
			out.TypedItem, err = t.item(ch.Item, nil)
		}
		ch.Body = nil
		out.change = ch
		return out, err
	})
}
