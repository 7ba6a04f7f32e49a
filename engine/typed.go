package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/cost"
)

// Codec turns values into documents and back. A document says its id and its
// partition key itself, so T has fields for both. Implementations are safe for
// concurrent use.
type Codec[T any] interface {
	// Marshal returns the document of a value, in memory that does not change until the
	// call that asked for it has returned.
	Marshal(value T) ([]byte, error)
	// Unmarshal returns the value of a document. It must not keep the bytes.
	Unmarshal(doc []byte) (T, error)
}

// TypedContainer gives the items of a container as values of T. It is safe for
// concurrent use.
type TypedContainer[T any] struct {
	c     *Container
	codec Codec[T]
}

// TypedItem is a value with the description of its item.
type TypedItem[T any] struct {
	Meta
	Value T
}

// Typed returns the container's items as values of T. A nil codec stands for
// encoding/json.
func Typed[T any](c *Container, codec Codec[T]) TypedContainer[T] {
	if codec == nil {
		codec = jsonCodec[T]{}
	}
	return TypedContainer[T]{c: c, codec: codec}
}

// jsonCodec is the codec of encoding/json.
type jsonCodec[T any] struct{}

func (jsonCodec[T]) Marshal(value T) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[T]) Unmarshal(doc []byte) (value T, err error) {
	err = json.Unmarshal(doc, &value)
	return value, err
}

// Container returns the container itself.
func (t TypedContainer[T]) Container() *Container { return t.c }

// Create is Container.Create. An error of the codec comes as it is, and nothing
// is written.
func (t TypedContainer[T]) Create(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.c.Create)
}

// Upsert is Container.Upsert.
func (t TypedContainer[T]) Upsert(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.c.Upsert)
}

// Replace is Container.Replace.
func (t TypedContainer[T]) Replace(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.c.Replace)
}

// Read is Container.Read.
func (t TypedContainer[T]) Read(ctx context.Context, pk PartitionKey, id string) (out TypedItem[T], err error) {
	borrowErr := t.c.Borrow(ctx, pk, id, func(it Item) error {
		out, err = t.item(it)
		return nil
	})
	if borrowErr == ErrNotFound {
		out.Charge = cost.Failed
	}
	if borrowErr != nil {
		return out, borrowErr
	}
	return out, err
}

// ReadIf is Container.ReadIf.
func (t TypedContainer[T]) ReadIf(ctx context.Context, pk PartitionKey, id string, not ETag) (TypedItem[T], error) {
	it, err := t.c.ReadIf(ctx, pk, id, not)
	if err != nil {
		return TypedItem[T]{Meta: it.Meta}, err
	}
	return t.item(it)
}

// ReadMany is Container.ReadMany. An error of the codec ends it.
func (t TypedContainer[T]) ReadMany(ctx context.Context, items []ItemIdentity) iter.Seq2[TypedReadManyResult[T], error] {
	return func(yield func(TypedReadManyResult[T], error) bool) {
		for r, err := range t.c.ReadMany(ctx, items) {
			out := TypedReadManyResult[T]{TypedItem: TypedItem[T]{Meta: r.Meta}, Found: r.Found}
			if err == nil && r.Found {
				out.TypedItem, err = t.item(r.Item)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// TypedReadManyResult is a ReadManyResult with a value of T. Without Found the value is zero.
type TypedReadManyResult[T any] struct {
	TypedItem[T]
	Found bool
}

// Delete is Container.Delete.
func (t TypedContainer[T]) Delete(ctx context.Context, pk PartitionKey, id string, o *WriteOptions) error {
	return t.c.Delete(ctx, pk, id, o)
}

// Patch is Container.Patch.
func (t TypedContainer[T]) Patch(ctx context.Context, pk PartitionKey, id string, p *Patch, o *WriteOptions) (Meta, error) {
	return t.c.Patch(ctx, pk, id, p, o)
}

// Count is Container.Count.
func (t TypedContainer[T]) Count(ctx context.Context, s Scope, f Filter) (int64, error) {
	return t.c.Count(ctx, s, f)
}

// Scan is Container.Scan. An error of the codec ends it.
func (t TypedContainer[T]) Scan(ctx context.Context, pk PartitionKey, ids IDRange, o *ScanOptions) iter.Seq2[TypedItem[T], error] {
	return t.items(t.c.Scan(ctx, pk, ids, o))
}

// ScanAll is Container.ScanAll. An error of the codec ends it.
func (t TypedContainer[T]) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[TypedItem[T], error] {
	return t.items(t.c.ScanAll(ctx, o))
}

// Query is Container.Query.
func (t TypedContainer[T]) Query(ctx context.Context, s Scope, q Query) *TypedResult[T] {
	return &TypedResult[T]{t: t, r: t.c.Query(ctx, s, q)}
}

// TypedResult is a QueryResult whose items are values of T. It serves one goroutine.
type TypedResult[T any] struct {
	t TypedContainer[T]
	r *QueryResult
}

// All is QueryResult.All. With Fields, T is the type of the documents that Fields make. An
// error of the codec names the item and ends the loop; Continue then leads to the next
// item.
func (r *TypedResult[T]) All() iter.Seq2[TypedItem[T], error] { return r.t.items(r.r.All()) }

// Continue is QueryResult.Continue.
func (r *TypedResult[T]) Continue() string { return r.r.Continue() }

// Stats is QueryResult.Stats.
func (r *TypedResult[T]) Stats() QueryStats { return r.r.Stats() }

func (t TypedContainer[T]) items(items iter.Seq2[Item, error]) iter.Seq2[TypedItem[T], error] {
	return func(yield func(TypedItem[T], error) bool) {
		for it, err := range items {
			var out TypedItem[T]
			if err == nil {
				out, err = t.item(it)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

func (t TypedContainer[T]) item(it Item) (TypedItem[T], error) {
	value, err := t.codec.Unmarshal(it.Body)
	switch {
	case err == nil:
	case !it.Key.Valid():
		return TypedItem[T]{}, fmt.Errorf("result of a group: %w", err)
	default:
		return TypedItem[T]{}, fmt.Errorf("item %s of %s: %w", it.ID, it.Key, err)
	}
	return TypedItem[T]{Meta: it.Meta, Value: value}, nil
}

func (t TypedContainer[T]) write(ctx context.Context, value T, o *WriteOptions, write func(context.Context, []byte, *WriteOptions) (Meta, error)) (Meta, error) {
	doc, err := t.codec.Marshal(value)
	if err != nil {
		return Meta{}, err
	}
	return write(ctx, doc, o)
}
