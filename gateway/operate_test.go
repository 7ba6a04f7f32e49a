package gateway

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/script"
)

// countedTx counts the items that scans show.
type countedTx struct {
	Tx
	shown int
}

func (t *countedTx) Scan(ids engine.IDRange, o *engine.ScanOptions) iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		for it, err := range t.Tx.Scan(ids, o) {
			t.shown++
			if !yield(it, err) {
				return
			}
		}
	}
}

// TestOperationEnds: an operation of a script ends with its context, which is that of the time of the script: a query
// that makes many rows, and a look through all documents.
func TestOperationEnds(t *testing.T) {
	var rows atomic.Int64
	var during atomic.Pointer[func()]
	s := start(t, &Options{Clock: func() time.Time {
		if f := during.Load(); f != nil {
			(*f)()
		}
		return time.Now()
	}})
	docs := s.items()
	const elements = 300
	list := strings.TrimSuffix(strings.Repeat("1,", elements), ",")
	for i := range 3 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a","list":[%s]}`, i, list), pk, `["a"]`)
	}
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	operate := func(ctx context.Context, op *script.Operation) (shown int) {
		_, err := k.items.Transact(t.Context(), engine.StringKey("a"), nil, func(tx Tx) error {
			counted := &countedTx{Tx: tx}
			of := &scriptTx{call: &call{Handler: s.h, ctx: t.Context()}, tx: counted, k: k, ids: make(map[string]string)}
			answer, err := of.operate(ctx, op)
			if err == nil && answer.Failure == nil {
				t.Errorf("%s %s has an answer", op.Verb, op.Query)
			}
			shown = counted.shown
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return shown
	}
	ctx, cancel := context.WithCancel(t.Context())
	count := func() {
		if rows.Add(1) == 10 {
			cancel()
		}
	}
	during.Store(&count)
	// The clock tells how many rows the query has made.
	operate(ctx, &script.Operation{Verb: "query", Query: "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list WHERE GetCurrentTimestamp() > 0"})
	during.Store(nil)
	if n := rows.Load(); n < 10 || n > elements*elements/2 {
		t.Errorf("the query has made %d rows of %d", n, 3*elements*elements)
	}
	for _, op := range []*script.Operation{
		{Verb: "query", Query: "SELECT * FROM c"},
		{Verb: opRead, Link: coll[1:] + "/docs/" + strings.Repeat("A", 20) + "AA=="}, // a resource id
	} {
		if n := operate(ctx, op); n != 1 {
			t.Errorf("%s %s: %d documents were looked at, want 1", op.Verb, op.Query, n)
		}
	}
}
