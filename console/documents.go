package console

import (
	"container/heap"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// keyRow is a hot or large logical partition.
type keyRow struct {
	Key       string             `json:"key"`
	Place     float64            `json:"place"` // in the key space, 0 to 1
	Partition engine.PartitionID `json:"partition"`
	Units     float64            `json:"ru_per_s,omitempty"`
	Error     float64            `json:"error_ru_per_s,omitempty"`
	Ops       float64            `json:"ops_per_s,omitempty"`
	Versions  int64              `json:"versions,omitempty"`
	Bytes     int64              `json:"bytes,omitempty"`
}

// keysView is the answer of api/keys.
type keysView struct {
	Hot     []keyRow     `json:"hot"`
	Limited bool         `json:"limited"` // whether keys have limits of their throughput
	Refused []refusedRow `json:"refused"` // those with the most refused calls first
	Largest []keyRow     `json:"largest"`
	Looked  int64        `json:"looked"`            // logical partitions that were compared
	Partial bool         `json:"partial"`           // the time did not suffice for all
	Problem string       `json:"problem,omitempty"` // why the search ended before its end
	Taken   int64        `json:"taken"`             // when, in milliseconds since the Unix epoch
	Limit   int64        `json:"limit"`             // bytes of a logical partition, at most
	Refresh float64      `json:"again_in"`          // seconds until the largest are looked for again
}

// Bounds of the search for the largest logical partitions.
const (
	largestRows  = 10
	largestTime  = 2 * time.Second
	largestEvery = 30 * time.Second
)

// largestKeys keeps the largest logical partitions of the containers that a page asked
// for lately.
type largestKeys struct {
	mu   sync.Mutex
	of   map[string]*keysView
	busy bool
}

func (h *handler) serveKeys(r *http.Request) (any, error) {
	return h.container(r, r.URL.Query().Get("name"), func(_ *engine.DB, c *engine.Container) (any, error) {
		found, err := h.findLargest(r.Context(), c)
		if err != nil {
			return nil, err
		}
		v := *found
		v.Hot = []keyRow{}
		if v.Limited, v.Refused, err = h.refused.find(r.Context(), c); err != nil {
			return nil, err
		}
		for _, k := range c.Hot(largestRows) {
			v.Hot = append(v.Hot, keyRow{
				Key: k.Key.String(), Place: placeOf(k.Key.EPK().String()), Partition: k.Partition,
				Units: finite(k.Units), Error: finite(k.Error), Ops: finite(k.Ops),
			})
		}
		return v, nil
	})
}

// findLargest returns the largest logical partitions of a container, as they were a moment
// ago. One request at a time looks for them; others get what there is.
func (h *handler) findLargest(ctx context.Context, c *engine.Container) (*keysView, error) {
	l := &h.largest
	l.mu.Lock()
	have := l.of[c.Name()]
	if have == nil {
		have = &keysView{Largest: []keyRow{}, Partial: true, Limit: c.Def().Limits.LogicalPartitionBytes}
	}
	if l.busy || time.Since(time.UnixMilli(have.Taken)) < largestEvery {
		l.mu.Unlock()
		return have, nil
	}
	l.busy = true
	l.mu.Unlock()
	v, err := lookForLargest(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if err != nil && (ctx.Err() != nil || errors.Is(err, engine.ErrClosed)) {
		return nil, err
	}
	if err != nil { // damage does not go away when it is read again soon
		v.Partial, v.Problem = true, err.Error()
	}
	if l.of == nil || len(l.of) > watchedContainers {
		l.of = make(map[string]*keysView)
	}
	l.of[c.Name()] = v
	return v, nil
}

// lookForLargest returns what it has found also with an error.
func lookForLargest(ctx context.Context, c *engine.Container) (v *keysView, err error) {
	limited, cancel := context.WithTimeout(ctx, largestTime)
	defer cancel()
	v = &keysView{Largest: []keyRow{}, Limit: c.Def().Limits.LogicalPartitionBytes, Refresh: largestEvery.Seconds()}
	var top sizes
	defer func() {
		for len(top) > 0 {
			v.Largest = append([]keyRow{heap.Pop(&top).(keyRow)}, v.Largest...)
		}
		v.Taken = time.Now().UnixMilli()
	}()
	for l, next := range c.LogicalPartitions(limited) {
		if errors.Is(next, context.DeadlineExceeded) && ctx.Err() == nil {
			v.Partial = true
			break
		}
		if next != nil {
			return v, next
		}
		v.Looked++
		if len(top) == largestRows && top[0].Bytes >= l.Bytes {
			continue
		}
		key, keyErr := l.Key()
		if keyErr != nil {
			return v, keyErr
		}
		heap.Push(&top, keyRow{Key: key.String(), Place: placeOf(key.EPK().String()), Partition: l.Partition, Versions: l.Versions, Bytes: l.Bytes})
		if len(top) > largestRows {
			heap.Pop(&top)
		}
	}
	return v, nil
}

// sizes is a heap with the smallest first.
type sizes []keyRow

func (s sizes) Len() int           { return len(s) }
func (s sizes) Less(i, j int) bool { return s[i].Bytes < s[j].Bytes }
func (s sizes) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sizes) Push(x any)        { *s = append(*s, x.(keyRow)) }
func (s *sizes) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// pageView is a page of a list that is read from the store.
type pageView[T any] struct {
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // for "from"; empty: this is the end
}

// serveLogical lists logical partitions in the order of the key space.
func (h *handler) serveLogical(r *http.Request) (any, error) {
	q := r.URL.Query()
	_, limit, err := page(q, 500)
	if err != nil {
		return nil, err
	}
	return h.container(r, q.Get("name"), func(_ *engine.DB, c *engine.Container) (any, error) {
		ctx, done, err := h.reading(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		v := pageView[keyRow]{Rows: []keyRow{}}
		for l, err := range c.LogicalPartitionsFrom(ctx, q.Get("from")) {
			if err != nil {
				return nil, err
			}
			key, err := l.Key()
			if err != nil {
				return nil, err
			}
			epk := key.EPK().String()
			if len(v.Rows) == limit {
				v.Next = epk
				break
			}
			v.Rows = append(v.Rows, keyRow{Key: key.String(), Place: placeOf(epk), Partition: l.Partition, Versions: l.Versions, Bytes: l.Bytes})
		}
		return v, nil
	})
}

// itemRow is an item.
type itemRow struct {
	Key      string  `json:"key"`
	ID       string  `json:"id"`
	ETag     string  `json:"etag"`
	Seq      uint64  `json:"seq"`
	Modified int64   `json:"modified"`
	Expires  int64   `json:"expires,omitempty"`
	Bytes    int     `json:"bytes"`
	Charge   float64 `json:"charge"`
	// Text is the document, or its beginning in a list. Base64 is it where it is no text.
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
	Cut    bool   `json:"cut,omitempty"` // this is the beginning only
}

// shownInList is how much of a document a list shows, in bytes.
const shownInList = 240

func rowOf(it *engine.Item, most int) itemRow {
	row := itemRow{ID: it.ID, ETag: it.ETag.String(), Seq: it.Seq, Modified: milliseconds(it.Modified), Expires: milliseconds(it.Expires), Bytes: len(it.Body), Charge: it.Charge}
	if it.Key.Valid() {
		row.Key = it.Key.String()
	}
	body := it.Body
	if len(body) > most {
		row.Cut = true
		for i := 1; i < utf8.UTFMax && most > 0 && !utf8.RuneStart(body[most]); i++ {
			most--
		}
		body = body[:most]
	}
	if utf8.Valid(body) {
		row.Text = string(body)
	} else {
		row.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	return row
}

// serveItems lists the items of a logical partition.
func (h *handler) serveItems(r *http.Request) (any, error) {
	q := r.URL.Query()
	_, limit, err := page(q, 200)
	if err != nil {
		return nil, err
	}
	key, err := engine.ParseKey(q.Get("key"))
	if err != nil {
		return nil, pageapi.BadRequest(err.Error())
	}
	return h.container(r, q.Get("name"), func(_ *engine.DB, c *engine.Container) (any, error) {
		ctx, done, err := h.reading(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		v := pageView[itemRow]{Rows: []itemRow{}}
		for it, err := range c.Scan(ctx, key, engine.IDRange{From: q.Get("from")}, &engine.ScanOptions{Limit: limit + 1}) {
			if err != nil {
				return nil, err
			}
			if len(v.Rows) == limit {
				v.Next = it.ID
				break
			}
			v.Rows = append(v.Rows, rowOf(&it, shownInList))
		}
		return v, nil
	})
}

func (h *handler) serveItem(r *http.Request) (any, error) {
	q := r.URL.Query()
	key, err := engine.ParseKey(q.Get("key"))
	if err != nil {
		return nil, pageapi.BadRequest(err.Error())
	}
	return h.container(r, q.Get("name"), func(_ *engine.DB, c *engine.Container) (any, error) {
		ctx, done, err := h.reading(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		it, err := c.Read(ctx, key, q.Get("id"))
		if err != nil {
			return nil, err
		}
		return rowOf(&it, 4<<20), nil
	})
}

// queryRequest is the body of api/query.
type queryRequest struct {
	Name       string         `json:"name"`
	Query      string         `json:"query"`
	Parameters map[string]any `json:"parameters"`
	Key        string         `json:"key"` // of the scope: a key or its first levels; empty: everything
	Continue   string         `json:"continue"`
	PlanOnly   bool           `json:"plan_only"`
}

// queryView is the answer of api/query.
type queryView struct {
	Plan      engine.QueryPlan   `json:"plan"`
	PlanParts int                `json:"plan_partitions"` // how many there are; the plan has the first ones
	Ran       bool               `json:"ran"`
	Rows      []itemRow          `json:"rows"`
	Columns   []string           `json:"columns,omitempty"`
	Stats     *engine.QueryStats `json:"stats,omitempty"`
	Elapsed   float64            `json:"elapsed_ms"`
	Continue  string             `json:"continue,omitempty"`
	Error     *failure           `json:"error,omitempty"` // met after some results
}

// Bounds of the results of a query.
const (
	queryRows  = 100
	queryBytes = 2 << 20
	queryParts = 200
)

func (h *handler) serveQuery(r *http.Request) (any, error) {
	var body queryRequest
	if err := pageapi.Decode(r, &body); err != nil {
		return nil, err
	}
	q, err := engine.ParseQuery(body.Query, body.Parameters)
	if err != nil {
		return nil, err
	}
	scope := engine.AllPartitions()
	if body.Key != "" {
		key, keyErr := engine.ParseKey(body.Key)
		if keyErr != nil {
			return nil, pageapi.BadRequest(keyErr.Error())
		}
		scope = engine.PrefixOf(key)
	}
	left := q.Limit // of the query's own limit, with the page; 0: it has none
	if q.Continue = body.Continue; left > 0 {
		var ok bool
		if left, q.Continue, ok = continuation.CutLimited(body.Continue, left); !ok || left == 0 {
			return nil, fmt.Errorf("%w: not what a query with a limit of %d gave", engine.ErrBadContinuation, q.Limit)
		}
	}
	if q.Limit = left; left == 0 || left > queryRows {
		q.Limit = queryRows
	}
	return h.container(r, body.Name, func(_ *engine.DB, c *engine.Container) (any, error) {
		ctx, done, err := h.reading(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		v := queryView{Rows: []itemRow{}}
		if v.Plan, err = c.Explain(ctx, scope, q); err != nil {
			return nil, err
		}
		v.PlanParts = len(v.Plan.Partitions)
		v.Plan.Partitions = cut(v.Plan.Partitions, 0, queryParts)
		if body.PlanOnly {
			return v, nil
		}
		for _, f := range q.Fields {
			v.Columns = append(v.Columns, f.As)
		}
		result := c.Query(ctx, scope, q)
		size := 0
		for it, err := range result.All() {
			if err != nil {
				if len(v.Rows) == 0 {
					return nil, err
				}
				f := pageapi.FailureOf(err)
				v.Error = &f
				break
			}
			v.Rows = append(v.Rows, rowOf(&it, 64<<10))
			if size += len(it.Body); size > queryBytes {
				break
			}
		}
		stats := result.Stats()
		v.Ran, v.Stats, v.Elapsed = true, &stats, float64(stats.Elapsed)/float64(time.Millisecond)
		v.Continue = result.Continue()
		switch {
		case left > 0 && len(v.Rows) >= left:
			v.Continue = ""
		case left > 0 && v.Continue != "":
			v.Continue = continuation.Limited(left-len(v.Rows), v.Continue)
		}
		return v, nil
	})
}
