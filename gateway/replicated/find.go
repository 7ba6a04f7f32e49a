package replicated

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/protocol"
)

// rows are the results of a query over one group after the other. A continuation is the place in the key space from which groups
// are asked, an exclamation mark, and the continuation that they are given.
type rows struct {
	c   *items
	ctx context.Context
	s   *gateway.Search

	at           partmap.EPK
	inner, short string // behind the last page of a group
	here         bool   // the place is that behind the last result that was given
	stats        engine.QueryStats
}

// Find implements gateway.Items.
func (c *items) Find(ctx context.Context, s *gateway.Search) gateway.Rows {
	return &rows{c: c, ctx: ctx, s: s}
}

// Continue implements gateway.Rows: "" if the last result is not the last one that has come with others.
func (r *rows) Continue() string { return r.text(r.inner) }

// ShortContinue implements gateway.Rows.
func (r *rows) ShortContinue() string {
	if r.short != "" {
		return r.text(r.short)
	}
	return r.text(r.inner)
}

func (r *rows) text(inner string) string {
	if !r.here {
		return ""
	}
	return r.at.String() + "!" + inner
}

// Stats implements gateway.Rows.
func (r *rows) Stats() engine.QueryStats { return r.stats }

// query returns what is asked, in the range that has its keys.
func (r *rows) query() (*client.Query, error) {
	q := &client.Query{Container: r.c.name, Text: r.s.Text, Parameters: r.s.Parameters}
	for name := range r.s.Parameters {
		if strings.HasPrefix(name, "udf.") {
			return nil, lacks("user-defined functions")
		}
	}
	place := r.s.Place
	if !r.s.Named {
		// The filter may name the key, or its first levels.
		whole := r.s.Query
		whole.Continue = ""
		plan, err := r.c.Explain(r.ctx, r.s.Scope, whole)
		if err != nil {
			return nil, err
		}
		kind, text, _ := strings.Cut(plan.Scope, " ")
		if key, bad := engine.ParseKey(text); bad == nil && (kind == "partition" || kind == "prefix") {
			place.Key = key
		}
	}
	var err error
	if q.Range, err = r.c.rangeOf(&place); err != nil {
		return nil, err
	}
	q.Key = place.Key
	if text := r.s.Query.Continue; text != "" {
		place, inner, found := strings.Cut(text, "!")
		at, err := partmap.ParseEPK(place)
		if !found || err != nil {
			return nil, fmt.Errorf("%w: not what a query over a cluster gave", engine.ErrBadContinuation)
		}
		if q.Continue = inner; at.Compare(&q.Range.Min) > 0 {
			q.Range.Min = at
		}
	}
	return q, nil
}

// All implements gateway.Rows.
func (r *rows) All() iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		began := time.Now()
		defer func() { r.stats.Elapsed = time.Since(began) }()
		q, err := r.query()
		if err != nil {
			yield(engine.Item{}, err)
			return
		}
		given := 0
		for !q.Range.Empty() {
			// First the results of the page, and then those that tell whether there are more.
			if q.Limit = r.s.Page - given; q.Limit <= 0 {
				q.Limit = r.s.Query.Limit - given
			}
			if q.Limit <= 0 {
				return
			}
			p, end, err := r.page(q)
			if err != nil {
				yield(engine.Item{}, err)
				return
			}
			r.stats.Partitions++
			r.stats.Documents += int64(p.Documents)
			r.stats.Bytes += int64(p.Bytes)
			r.stats.Charge += p.Charge
			if q.Continue, r.short = p.Continue, p.Short; p.Done {
				q.Range.Min = end
			}
			r.at, r.inner = q.Range.Min, q.Continue
			for i, row := range p.Rows {
				given++
				r.here = i == len(p.Rows)-1
				if !yield(engine.Item{Meta: engine.Meta{ETag: engine.ETag(row.ETag)}, Body: row.Body}, nil) {
					return
				}
			}
		}
	}
}

// page asks one group.
func (r *rows) page(q *client.Query) (protocol.Page, partmap.EPK, error) {
	within, cancel := r.c.s.bound(r.ctx)
	defer cancel()
	p, end, err := r.c.s.view(r.ctx).Query(within, q)
	if err == nil && r.s.Sorted && end.Compare(&q.Range.Max) < 0 {
		// What groups have each for themselves is not the result.
		fault := &gateway.Fault{Status: http.StatusBadRequest, SubStatus: 1004, Message: "the query goes over several physical partitions: ask each, and put the results together"}
		if r.s.Named && r.s.Within != (partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}) {
			fault.Status, fault.SubStatus, fault.Message = http.StatusGone, 1002, "the partition key range was split"
		}
		return p, end, fault
	}
	return p, end, answer(r.ctx, err)
}
