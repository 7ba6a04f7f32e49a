package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/protocol"
)

// queryTime is how long one node is waited for that evaluates a query.
const queryTime = protocol.QueryTime + time.Second

// Query is a query of one logical partition, of those whose keys begin alike, or of a range of the key space.
type Query struct {
	Container string
	Key       engine.PartitionKey // of a logical partition, or the first levels of the keys of several; the zero key: of all
	Range     partmap.Range       // what lies outside is left out; with a Key the zero range stands for all
	Text      string              // SQL, see docs/sql.md
	// Parameters are what encoding/json can write; their names begin with @.
	Parameters map[string]any
	Limit      int    // of the page, at most protocol.MaxResults
	Continue   string // Page.Continue or Page.Short of the page before; "": from the beginning
}

// Query returns a page of a query in the session of the client: see View.Query.
func (c *Client) Query(ctx context.Context, level protocol.Level, q *Query) (p protocol.Page, end partmap.EPK, err error) {
	return c.View(level).Query(ctx, q)
}

// Query returns a page of the results that one group has, and where that group ends, or where the keys end that begin with
// Key. A page has as many as Limit
// says or fewer, and some 1 MiB at most. Page.Done says that there are no more in the group: what lies in Range
// behind end is asked for by another call. Its Query may have the same Continue, also if the group was split
// since that page: results do not come twice. So a query that has an order, groups or a limit of
// its own is right only within one group. Each page sees the group at the moment at which it is read. Errors: those of engine.ParseQuery
// and of queries, engine.ErrBadContinuation, engine.ErrNoContainer; context.DeadlineExceeded too if a node has found nothing
// within protocol.QueryTime; that of the context, with the last answer.
func (v View) Query(ctx context.Context, q *Query) (p protocol.Page, end partmap.EPK, err error) {
	r := &protocol.ReadRequest{Container: q.Container, Key: q.Key, Limit: uint64(max(q.Limit, 1))}
	r.Query = protocol.Search{Range: q.Range, Text: q.Text, Continue: q.Continue}
	if q.Key.Valid() {
		if r.Query.Range, err = q.Key.Range(); err != nil {
			return p, end, err
		}
		if q.Range != (partmap.Range{}) {
			r.Query.Range = r.Query.Range.Common(q.Range)
		}
		if r.Query.Range.Empty() {
			return protocol.Page{Done: true}, q.Range.Max, nil
		}
	}
	if r.Query.Range.Empty() {
		return p, end, fmt.Errorf("%w: a query has a key or a range", engine.ErrInvalid)
	}
	if len(q.Parameters) > 0 {
		text, failed := json.Marshal(q.Parameters)
		if failed != nil {
			return p, end, fmt.Errorf("%w: parameters of the query: %w", engine.ErrInvalid, failed)
		}
		r.Query.Parameters = string(text)
	}
	answer, err := v.read(ctx, protocol.Query, r)
	if err != nil {
		return p, end, err
	}
	p, err = answer.Page()
	return p, r.Query.Range.Max, err
}

// within returns the part of a range that a group has.
func within(r partmap.Range, g *groupState) partmap.Range {
	if g.Range.Max.Compare(&r.Max) < 0 {
		r.Max = g.Range.Max
	}
	return r
}
