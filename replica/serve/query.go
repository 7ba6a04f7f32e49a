package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

const (
	// maxQueryBytes bounds the results in an answer to a query; the last one may go past it.
	maxQueryBytes = 1 << 20
	// queriesAtOnce is how many queries of a client are evaluated at a time; others wait.
	queriesAtOnce = 8
	// longContinuation is the length above which a short continuation comes beside the other.
	longContinuation = 1000
)

// queries are those of a client.
type queries struct {
	turns chan struct{} // has those that are being evaluated
	mu    sync.Mutex
	ends  map[uint64]context.CancelFunc // of all, by the numbers of their requests
}

// begin notes that a query has come. Its context ends with its time, or when the client does not wait any more. end is called when it
// is over.
func (q *queries) begin(ctx context.Context, number uint64) (_ context.Context, end func()) {
	ctx, cancel := context.WithTimeout(ctx, protocol.QueryTime)
	q.mu.Lock()
	q.ends[number] = cancel
	q.mu.Unlock()
	return ctx, func() {
		cancel()
		q.mu.Lock()
		delete(q.ends, number)
		q.mu.Unlock()
	}
}

// cancel ends a query that nobody waits for.
func (q *queries) cancel(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if end := q.ends[number]; end != nil {
		end()
	}
}

// turn waits until a query may be evaluated, and then takes one of turns. It waits so long that there is time left for the query.
// group.ErrBusy: others take long, and the client may ask another node.
func (q *queries) turn(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	late := time.NewTimer(protocol.QueryTime / 2)
	defer late.Stop()
	select {
	case q.turns <- struct{}{}:
		return nil
	case <-late.C:
		return fmt.Errorf("%d queries of this client are being evaluated: %w", cap(q.turns), group.ErrBusy)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// query answers a page of a query.
func (s *session) query(ctx context.Context, q *protocol.Request) {
	if err := s.queries.turn(ctx); err != nil {
		s.refuse(q, err)
		return
	}
	defer func() { <-s.queries.turns }()
	l, err := s.lookIn(q)
	if err != nil {
		s.refuse(q, err)
		return
	}
	var p protocol.Page
	err = evaluate(ctx, l.c, &q.Read, &p)
	s.seen(q, l, err, func(h *protocol.Head, dst []byte) []byte { return h.AppendPage(dst, &p) })
}

// lookIn is look for a query. It is about keys in a range, of which all is to be here: what other groups of the node have may be
// behind, or be no more.
func (s *session) lookIn(q *protocol.Request) (l look, err error) {
	if l.hold, err = s.h.Hold(q.Group); err != nil {
		return l, err
	}
	if !s.h.HasRange(q.Group, q.Read.Container, q.Read.Query.Range) {
		return l, host.ErrNoGroup
	}
	l.c, err = s.h.DB().Container(q.Read.Container)
	return l, err
}

// evaluate gets a page of a query. When its time is up the page has what there is until then, if anything.
func evaluate(ctx context.Context, c *engine.Container, r *protocol.ReadRequest, p *protocol.Page) error {
	var given map[string]json.RawMessage // so numbers keep their digits
	if len(r.Query.Parameters) > 0 {
		if err := json.Unmarshal([]byte(r.Query.Parameters), &given); err != nil {
			return fmt.Errorf("%w: parameters of the query: %w", engine.ErrInvalid, err)
		}
	}
	parameters := make(map[string]any, len(given))
	for name, text := range given {
		parameters[name] = text
	}
	query, err := engine.ParseQuery(r.Query.Text, parameters)
	if err != nil {
		return err
	}
	scope := engine.AllPartitions()
	if r.Key.Valid() {
		scope = engine.PrefixOf(r.Key)
	}
	if scope, err = scope.Between(r.Query.Range.Min.String(), r.Query.Range.Max.String()); err != nil {
		return err
	}
	limit, left := int(min(max(r.Limit, 1), protocol.MaxResults)), query.Limit
	p.Continue, p.Done = r.Query.Continue, true
	goesOn := func(text string) string { return text }
	if query.Continue = r.Query.Continue; left > 0 { // the query has a limit of its own
		var ok bool
		if left, query.Continue, ok = continuation.CutLimited(r.Query.Continue, left); !ok {
			return fmt.Errorf("%w: not what a query with a limit of %d gave", engine.ErrBadContinuation, query.Limit)
		} else if left == 0 {
			return nil
		}
		limit = min(limit, left)
		goesOn = func(text string) string { return continuation.Limited(left-len(p.Rows), text) }
	}
	if query.Limit = limit; limit != left {
		query.Limit++ // one more tells whether there are more
	}
	size := 0
	result := c.Query(ctx, scope, query)
	behind := func() {
		at := result.Continue()
		if p.Continue = goesOn(at); len(at) > longContinuation {
			p.Short = goesOn(result.ShortContinue())
		}
	}
	for it, failed := range result.All() {
		if errors.Is(failed, context.DeadlineExceeded) {
			if len(p.Rows) == 0 {
				return fmt.Errorf("the query has no result within %v: %w", protocol.QueryTime, failed)
			}
			p.Done = false
			behind()
			break
		}
		if failed != nil {
			return failed
		}
		if len(p.Rows) == limit || size > maxQueryBytes {
			p.Done = false
			break
		}
		p.Rows = append(p.Rows, protocol.Row{ETag: uint64(it.ETag), Body: bytes.Clone(it.Body)})
		size += len(it.Body)
		if len(p.Rows) == limit || size > maxQueryBytes {
			behind()
		}
	}
	stats := result.Stats()
	p.Documents, p.Bytes, p.Charge = uint64(stats.Documents), uint64(stats.Bytes), stats.Charge
	return nil
}
