package measure

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/partmap"
)

// ErrNotFound is what Store.Read returns for a document that does not exist.
var ErrNotFound = errors.New("document not found")

// ErrThrottled is what a Store returns when it did nothing because of a limit on
// its throughput: such operations are counted apart.
var ErrThrottled = errors.New("throttled")

// Store is what is measured. It is safe for concurrent use, and keeps nothing
// of the arguments of a call after it.
type Store interface {
	// Upsert writes a document, whether or not it exists.
	Upsert(ctx context.Context, key partmap.Key, id string, doc []byte) error
	// Read returns a document, or ErrNotFound. buf is empty; its memory is used
	// if there is room.
	Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error)
	// Scan calls visit with the documents of a logical partition in the order
	// of their ids, beginning at the id from, at most limit of them (0: all).
	// visit keeps nothing of a document.
	Scan(ctx context.Context, key partmap.Key, from string, limit int, visit func(doc []byte)) error
}

// Querier is a Store that answers queries.
type Querier interface {
	// Query calls visit with each row that answers a query, of one logical
	// partition if the key is valid, else of all. visit keeps nothing of a row.
	Query(ctx context.Context, key partmap.Key, text string, visit func(row []byte)) error
}

// nothing is a store that does nothing and contains what it is asked for.
type nothing struct{}

func (nothing) Upsert(context.Context, partmap.Key, string, []byte) error { return nil }

func (nothing) Read(_ context.Context, _ partmap.Key, id string, buf []byte) ([]byte, error) {
	if id[len(id)-1] == absentMark {
		return buf, ErrNotFound
	}
	return append(append(append(buf, `{"id":"`...), id...), `"}`...), nil
}

func (nothing) Scan(_ context.Context, _ partmap.Key, _ string, _ int, visit func([]byte)) error {
	visit(nothingThere)
	return nil
}

var nothingThere = []byte(`{}`)

func (nothing) Query(_ context.Context, _ partmap.Key, _ string, visit func(row []byte)) error {
	visit([]byte("0"))
	return nil
}
