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

// TypedContainer gives the items of a container as values of T. What has no method of its
// own here is that of the Container. It is safe for concurrent use.
type TypedContainer[T any] struct {
	*untyped
	codec Codec[T]
}

// untyped lets a TypedContainer embed a Container and have the method Container.
type untyped = Container

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
	return TypedContainer[T]{c, codec}
}

// jsonCodec is the codec of encoding/json.
type jsonCodec[T any] struct{}

func (jsonCodec[T]) Marshal(value T) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[T]) Unmarshal(doc []byte) (value T, err error) {
	err = json.Unmarshal(doc, &value)
	return value, err
}

// Container returns the container itself.
func (t TypedContainer[T]) Container() *Container { return t.untyped }

// Create is Container.Create. An error of the codec comes as it is, and nothing
// is written.
func (t TypedContainer[T]) Create(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.untyped.Create)
}

// Upsert is Container.Upsert.
func (t TypedContainer[T]) Upsert(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.untyped.Upsert)
}

// Replace is Container.Replace.
func (t TypedContainer[T]) Replace(ctx context.Context, value T, o *WriteOptions) (Meta, error) {
	return t.write(ctx, value, o, t.untyped.Replace)
}

// Load is Container.Load. An error of the codec is an InputError.
func (t TypedContainer[T]) Load(ctx context.Context, values iter.Seq2[T, error], o *LoadOptions) (LoadStats, error) {
	if values == nil {
		return t.untyped.Load(ctx, nil, o) // refused
	}
	return t.untyped.Load(ctx, mapped(values, func(value T, err error) (doc []byte, _ error) {
		if err == nil {
			doc, err = t.codec.Marshal(value)
		}
		return doc, err
	}), o)
}

// Read is Container.Read.
func (t TypedContainer[T]) Read(ctx context.Context, pk PartitionKey, id string) (out TypedItem[T], err error) {
	borrowErr := t.Borrow(ctx, pk, id, func(it Item) error {
		out, err = t.item(it, nil)
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
	return t.item(t.untyped.ReadIf(ctx, pk, id, not))
}

// ReadMany is Container.ReadMany. An error of the codec ends it.
func (t TypedContainer[T]) ReadMany(ctx context.Context, items []ItemIdentity) iter.Seq2[TypedReadManyResult[T], error] {
	return mapped(t.untyped.ReadMany(ctx, items), func(r ReadManyResult, err error) (TypedReadManyResult[T], error) {
		out := TypedReadManyResult[T]{TypedItem: TypedItem[T]{Meta: r.Meta}, Found: r.Found}
		if err == nil && r.Found {
			out.TypedItem, err = t.item(r.Item, nil)
		}
		return out, err
	})
}

// TypedReadManyResult is a ReadManyResult with a value of T. Without Found the value is zero.
type TypedReadManyResult[T any] struct {
	TypedItem[T]
	Found bool
}

// Scan is Container.Scan. An error of the codec ends it.
func (t TypedContainer[T]) Scan(ctx context.Context, pk PartitionKey, ids IDRange, o *ScanOptions) iter.Seq2[TypedItem[T], error] {
	return mapped(t.untyped.Scan(ctx, pk, ids, o), t.item)
}

// ScanAll is Container.ScanAll. An error of the codec ends it.
func (t TypedContainer[T]) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[TypedItem[T], error] {
	return mapped(t.untyped.ScanAll(ctx, o), t.item)
}

// Query is Container.Query.
func (t TypedContainer[T]) Query(ctx context.Context, s Scope, q Query) *TypedResult[T] {
	return &TypedResult[T]{t: t, r: t.untyped.Query(ctx, s, q)}
}

// TypedResult is a QueryResult whose items are values of T. It serves one goroutine.
type TypedResult[T any] struct {
	t TypedContainer[T]
	r *QueryResult
}

// All is QueryResult.All. With Fields, T is the type of the documents that Fields make. An
// error of the codec names the item and ends the loop; Continue then leads to the next
// item.
func (r *TypedResult[T]) All() iter.Seq2[TypedItem[T], error] { return mapped(r.r.All(), r.t.item) }

// Continue is QueryResult.Continue.
func (r *TypedResult[T]) Continue() string { return r.r.Continue() }

// Stats is QueryResult.Stats.
func (r *TypedResult[T]) Stats() QueryStats { return r.r.Stats() }

// mapped returns what to makes of each pair, up to the first error.
func mapped[A, B any](pairs iter.Seq2[A, error], to func(A, error) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for a, err := range pairs {
			b, failed := to(a, err)
			if !yield(b, failed) || failed != nil {
				return
			}
		}
	}
}

// item returns what a read returned as a value of T.
func (t TypedContainer[T]) item(it Item, failed error) (TypedItem[T], error) {
	if failed != nil {
		return TypedItem[T]{Meta: it.Meta}, failed
	}
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
