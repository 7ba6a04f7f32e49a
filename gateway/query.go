package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/headertext"
	"github.com/cleavestore/cleave/gateway/internal/indexing"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/gateway/internal/recent"
	"github.com/cleavestore/cleave/gateway/internal/statement"
	"github.com/cleavestore/cleave/partmap"
)

const (
	defaultPage = 100  // results
	largestPage = 1000 // for clients that leave the size to the server
	pageBytes   = 4 << 20
	pageTime    = 2 * time.Minute // of a page of a query, which holds a place: pserve and pgate wait no longer for an answer
	// smallContainer is how many documents a container may have for its queries to give
	// results in the order of creation without an index for it: each page reads all that the
	// filter finds.
	smallContainer = 10_000
)

// pageSize returns how many results the client wants in a page.
func (c *call) pageSize() (int, *failure) {
	text := c.r.Header.Get("X-Ms-Max-Item-Count")
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < -1 || n == 0:
		return 0, badf("x-ms-max-item-count %q is neither a number from 1 nor -1", clip(text))
	case n == -1:
		return largestPage, nil
	}
	return min(n, 10_000), nil
}

// place is the part of a container that a request is about.
type place struct {
	key    engine.PartitionKey // of one logical partition, or a prefix; the zero key: a range
	within partmap.Range       // all of a logical partition
	all    bool                // the request names neither a key nor a range
}

// place reads which part of the container a request is about. With past it may name a
// physical partition that was split or merged: then it is about the keys that this one had.
//
// The results of a query are the same whichever partitions hold the keys, and not every
// client gets over a 410 there: @azure/cosmos 4.10.1 asks for the same range for ever.
func (c *call) place(k *container, past bool) (p place, err error) {
	p.within = partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	key, given, err := c.key(k)
	if err != nil {
		return p, err
	}
	h := c.r.Header
	id := h.Get("X-Ms-Documentdb-Partitionkeyrangeid")
	if id != "" {
		part, bad := k.namedRange(c.o.Clock(), id)
		lo, hi := part.Min, part.Max
		if bad != nil && past {
			if from, to, ok := k.items.PastRange(id); ok {
				lo, hi, bad = from, to, nil
			}
		}
		if bad != nil {
			return p, bad
		}
		if p.within, err = keyrange.Parse(2, lo, hi); err != nil {
			return p, err
		}
	}
	if p.key = key; given && key.Len() == len(k.record.Definition.PartitionKey.Paths) {
		p.within = partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
		return p, nil
	}
	first, last := h.Get("X-Ms-Start-Epk"), h.Get("X-Ms-End-Epk")
	if first != "" || last != "" {
		r, failed := keyrange.Parse(k.record.Definition.PartitionKey.Version, first, last)
		if failed != nil {
			return p, badf("x-ms-start-epk and x-ms-end-epk: %v", failed)
		}
		p.within = p.within.Common(r)
	}
	p.all = !given && id == "" && first == "" && last == ""
	return p, nil
}

// rangeID returns the id of the physical partition that has the place, or its beginning.
func (p *place) rangeID(now time.Time, k *container) string {
	if p.key.Valid() {
		return k.rangeID(now, p.key)
	}
	return k.rangeAt(now, &p.within.Min)
}

// scope returns the scope of the store for the place.
func (p *place) scope() (engine.Scope, error) {
	scope := engine.AllPartitions()
	if p.key.Valid() {
		scope = engine.PrefixOf(p.key)
	}
	if p.within == (partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}) {
		return scope, nil
	}
	return scope.Between(p.within.Min.String(), p.within.Max.String())
}

// queryItems answers a query over the items of a container.
func (c *call) queryItems(k *container) error {
	text, parameters, err := c.readQuery()
	if err != nil {
		return err
	}
	if bad := c.checkSession(); bad != nil {
		return bad
	}
	p, err := c.place(k, true)
	if err != nil {
		return err
	}
	c.rangeHeaders(k, p.rangeID(c.o.Clock(), k))
	size, bad := c.pageSize()
	if bad != nil {
		return bad
	}
	out, ok, err := c.readMany(k, &p, text, parameters, size)
	switch {
	case err != nil:
		return k.outcome(err)
	case ok:
		return c.answerPage(k, out)
	}
	if out, err = c.evaluate(k, &p, text, parameters, size); err != nil {
		return err
	}
	return c.answerPage(k, out)
}

// queryPlaces returns how many queries are evaluated at a time. Each may take 64 MiB for its groups and
// 32 MiB for the values of a row.
func queryPlaces() int64 { return max(8, 4*int64(runtime.GOMAXPROCS(0))) }

// evaluate evaluates one page of a query when it has a place, which it gives up before the page is sent:
// a client that reads slowly holds none. A query with functions waits for its process first: one that waits holds no place
// of queries.
func (c *call) evaluate(k *container, p *place, text string, parameters map[string]any, size int) (*page, error) {
	parameters = c.withFunctions(k, text, parameters)
	if err := c.functions.begin(); err != nil {
		return nil, err
	}
	if err := c.queries.Take(c.ctx, 1); err != nil {
		return nil, failf(http.StatusServiceUnavailable, "as many other queries are evaluated as may be at a time: %v", err)
	}
	defer c.queries.Give(1)
	outer := c.ctx
	within, cancel := context.WithTimeout(outer, pageTime)
	defer func() { c.ctx = outer; cancel() }()
	c.ctx = within
	if bad := c.answerable(); bad != nil { // others have filled the memory while it waited
		return nil, bad
	}
	s, err := k.parse(text, parameters)
	if err != nil {
		return nil, err
	}
	out, err := c.runQuery(k, p, s, size)
	if err != nil {
		return nil, k.outcome(err)
	}
	return out, nil
}

// page is a page of results.
type page struct {
	documents []byte // of a JSON array, without brackets
	count     int
	next      string // continuation; "": this is the last page
	stats     engine.QueryStats
	utilized  string // x-ms-cosmos-index-utilization; "": nobody asked
}

func (c *call) answerPage(k *container, p *page) error {
	h := c.w.Header()
	h.Set("x-ms-item-count", strconv.Itoa(p.count))
	if p.next != "" {
		h.Set("x-ms-continuation", p.next)
	}
	h.Set("x-ms-documentdb-query-metrics", headertext.Metrics(float64(p.stats.Elapsed.Microseconds())/1000, p.stats.Documents, int64(p.count), p.stats.Bytes))
	if p.utilized != "" {
		h.Set("x-ms-cosmos-index-utilization", p.utilized)
	}
	body := make([]byte, 0, len(p.documents)+100)
	body = append(append(append(body, `{"_rid":"`...), k.rid...), `","Documents":[`...)
	body = append(append(body, p.documents...), `],"_count":`...)
	body = append(strconv.AppendInt(body, int64(p.count), 10), '}')
	c.answer(http.StatusOK, body)
	return nil
}

// mayServe refuses what the service leaves to its clients.
func (c *call) mayServe(k *container, p *place, scope engine.Scope, s *statement.Statement) error {
	if p.key.Valid() && p.key.Len() == len(k.record.Definition.PartitionKey.Paths) || !p.all {
		return nil
	}
	crosses := isTrue(c.r.Header.Get("X-Ms-Documentdb-Query-Enablecrosspartition"))
	if crosses && (c.o.LiberalQueries || !s.Aggregated()) {
		return nil
	}
	plan, err := k.items.Explain(c.ctx, scope, s.Query)
	if err != nil {
		return err
	}
	if strings.HasPrefix(plan.Scope, "partition ") {
		return nil // the filter names the key
	}
	if !crosses {
		return badf("Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, " +
			"specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.")
	}
	f := badf("The provided cross partition query can not be directly served by the gateway. This is a first chance (internal) exception " +
		"that all newer clients will know how to handle gracefully. This exception is traced, but unless you see it bubble up as an " +
		"exception (which only happens on older SDK clients), then you can safely ignore this message.").withSub(subCrossPartition)
	f.extra = c.planText(k, s)
	return f
}

// runQuery runs one page of a query.
func (c *call) runQuery(k *container, p *place, s *statement.Statement, size int) (*page, error) {
	if p.within.Empty() {
		return &page{}, nil
	}
	scope, err := p.scope()
	if err != nil {
		return nil, err
	}
	if err = c.mayServe(k, p, scope, s); err != nil {
		return nil, err
	}
	q, text := s.Query, s.Text
	at := recent.Token{Order: recent.Stated, Left: q.Limit}
	sorted := s.Aggregated()
	if given := c.r.Header.Get("X-Ms-Continuation"); given != "" {
		var ok bool
		if at, ok = recent.ParseToken(given); !ok {
			return nil, badf("Invalid Continuation Token: x-ms-continuation %q is not what an answer gave", clip(given))
		}
	} else if !c.o.KeyOrder && s.MayOrder() && (c.o.CreationOrder || c.isSmall(k)) {
		at.Order = recent.Creation
	}
	if at.Order == recent.Creation && s.MayOrder() {
		if q, text, err = s.OrderedBy(document.RID); err != nil {
			return nil, err
		}
	}
	q.Continue = c.recent.Long(at.At)
	limit := size
	if at.Left > 0 {
		limit = min(size, at.Left)
	}
	// One result more tells whether there is another page. A query that is not sorted does
	// not look: after a full page it says that there may be one.
	if q.Limit = limit; sorted {
		q.Limit++
	}
	out := &page{}
	shape := s.Shape()
	r := k.items.Find(c.ctx, &Search{
		Place: Place{scope, p.key, p.within}, Query: q, Text: text, Parameters: s.Parameters, Named: !p.all, Page: limit,
		Sorted: sorted || at.Order == recent.Creation,
	})
	more := false
	for it, failed := range r.All() {
		if failed != nil {
			c.charge += r.Stats().Charge
			return nil, failed
		}
		if out.count == limit {
			more = true
			break
		}
		if out.count > 0 {
			out.documents = append(out.documents, ',')
		}
		where := shape
		if it.ETag == 0 && !s.Documents() { // of several documents
			where = nil
		}
		out.documents = k.appendResult(out.documents, it.Body, it.ETag, where)
		if out.count++; out.count == limit || len(out.documents) >= pageBytes {
			at.At = c.recent.Fit(c.r.Header.Get("X-Ms-Documentdb-Responsecontinuationtokenlimitinkb"), r)
			if out.count < limit && at.At == "" {
				continue
			}
			if len(out.documents) >= pageBytes && out.count < limit {
				more = true
				break
			}
			if !sorted {
				more = true
				break
			}
		}
	}
	out.stats = r.Stats()
	c.charge += out.stats.Charge
	if at.Left > 0 {
		at.Left -= out.count
		more = more && at.Left > 0
	}
	if more {
		out.next = at.String()
	}
	asked := s.Query
	asked.Limit = q.Limit
	return out, c.utilization(k, scope, asked, out)
}

// isSmall says whether a container is small enough, as far as is known, for the order of creation.
func (c *call) isSmall(k *container) bool {
	parts, _ := k.ranges(c.o.Clock(), true)
	var n int64
	for i := range parts {
		if parts[i].Items < 0 {
			return false
		}
		n += parts[i].Items
	}
	return n <= smallContainer
}

// utilization fills in which index patterns the query uses or lacks, if the client asks.
func (c *call) utilization(k *container, scope engine.Scope, q engine.Query, out *page) error {
	first, second := isTrue(c.r.Header.Get("X-Ms-Cosmos-Populateindexmetrics")), isTrue(c.r.Header.Get("X-Ms-Cosmos-Populateindexmetrics-V2"))
	if !first && !second {
		return nil
	}
	plan, err := k.items.Explain(c.ctx, scope, q)
	if err != nil {
		return err
	}
	text, err := indexing.Metrics(&plan)
	if out.utilized = string(text); first {
		out.utilized = base64.StdEncoding.EncodeToString(text)
	}
	return err
}
