package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/internal/queryplan"
	"github.com/cleavestore/cleave/partmap"
)

// startTimed is a gateway on a store whose clock the test turns.
func startTimed(t *testing.T, o Options) (*server, *cleavetest.Store) {
	t.Helper()
	c := cleavetest.New(t, cleavetest.At(time.Unix(1_700_000_000, 0)))
	o.Clock = c.Now
	h, err := New(t.Context(), c.DB(), &o)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, db: c.DB(), h: h, s: httptest.NewServer(h)}
	t.Cleanup(s.s.Close)
	return s, c
}

type operationResult struct {
	StatusCode    int
	SubStatusCode int
	ETag          string
	ResourceBody  struct {
		ID string
		N  int
	}
	RetryAfterMilliseconds int64
}

func (s *server) batch(want int, docs, body string, head ...string) (out []operationResult) {
	s.t.Helper()
	r := s.do(want, "POST", docs, body, append([]string{"x-ms-cosmos-is-batch-request", "True"}, head...)...)
	if err := json.Unmarshal(r.body, &out); err != nil {
		s.t.Fatalf("%v: %s", err, r.body)
	}
	return out
}

func statuses(rs []operationResult) (out []int) {
	for _, r := range rs {
		out = append(out, r.StatusCode)
	}
	return out
}

// TestBatch: the operations of a batch are carried out together or not at all.
func TestBatch(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	atomic := []string{"x-ms-cosmos-batch-atomic", "True", pk, `["a"]`}
	got := s.batch(200, docs, `[
		{"operationType":"Create","resourceBody":{"id":"1","pk":"a","n":1}},
		{"operationType":"Upsert","resourceBody":{"id":"2","pk":"a","n":2}},
		{"operationType":"Read","id":"1"},
		{"operationType":"Replace","id":"1","resourceBody":{"id":"1","pk":"a","n":10}},
		{"operationType":"Patch","id":"2","resourceBody":{"operations":[{"op":"incr","path":"/n","value":5}]}},
		{"operationType":"Read","id":"2"},
		{"operationType":"Delete","id":"1"}]`, atomic...)
	if want := []int{201, 201, 200, 200, 200, 200, 204}; !slices.Equal(statuses(got), want) {
		t.Errorf("%v, want %v", statuses(got), want)
	}
	if got[2].ResourceBody.N != 1 || got[5].ResourceBody.N != 7 || got[5].ETag == "" {
		t.Errorf("read %+v and %+v", got[2], got[5])
	}
	s.do(404, "GET", docs+"/1", "", pk, `["a"]`)
	// The second operation fails, so the first is not carried out.
	got = s.batch(207, docs, `[{"operationType":"Create","resourceBody":{"id":"3","pk":"a"}},
		{"operationType":"Create","resourceBody":{"id":"2","pk":"a"}},
		{"operationType":"Delete","id":"2"}]`, atomic...)
	if want := []int{424, 409, 424}; !slices.Equal(statuses(got), want) {
		t.Errorf("%v, want %v", statuses(got), want)
	}
	got = s.batch(207, docs, `[{"operationType":"Delete","id":"2"},{"operationType":"Replace","id":"2","ifMatch":"\"00000000\"","resourceBody":{"id":"2","pk":"a"}}]`, atomic...)
	if got[1].StatusCode == 200 || got[0].StatusCode != 424 {
		t.Errorf("%v", statuses(got))
	}
	s.do(404, "GET", docs+"/3", "", pk, `["a"]`)
	etag := s.do(200, "GET", docs+"/2", "", pk, `["a"]`).head.Get("etag")
	for not, want := range map[string]int{etag: 304, "*": 304, `"00000000"`: 200, "": 200} { // as a read by itself
		one := fmt.Sprintf(`[{"operationType":"Read","id":"2","partitionKey":"[\"a\"]","ifNoneMatch":%q}]`, not)
		s.do(want, "GET", docs+"/2", "", pk, `["a"]`, "If-None-Match", not)
		if got := s.batch(200, docs, one, atomic...); got[0].StatusCode != want {
			t.Errorf("read if not %s: %v, want %d", not, statuses(got), want)
		}
		if got := s.batch(200, docs, one); got[0].StatusCode != want {
			t.Errorf("read if not %s in a bulk: %v, want %d", not, statuses(got), want)
		}
	}
	head := append([]string{"x-ms-cosmos-is-batch-request", "True"}, atomic...)
	for _, bad := range []string{`[]`, `{}`, `[{"operationType":"Drop"}]`, `[` + strings.Repeat(`{"operationType":"Read","id":"2"},`, 100) + `{"operationType":"Read","id":"2"}]`} {
		s.do(400, "POST", docs, bad, head...)
	}
}

// leaderless is a container of a cluster that finds no leader in the middle of a transaction.
type leaderless struct{ Items }

func (l leaderless) Transact(ctx context.Context, key engine.PartitionKey, o *engine.UpdateOptions, fn func(Tx) error) ([]engine.Meta, error) {
	return l.Items.Transact(ctx, key, o, func(tx Tx) error { return fn(leaderlessTx{tx}) })
}

type leaderlessTx struct{ Tx }

func (leaderlessTx) Read(string) (engine.Item, error) {
	return engine.Item{}, &Fault{Status: 503, RetryAfter: time.Second, Message: "no leader"}
}

// TestBatchOfAway: what keeps a store from carrying out a batch is the answer to the batch, which clients send again, and not that to one
// of its operations.
func TestBatchOfAway(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	k.items = leaderless{k.items}
	r := s.do(503, "POST", docs, `[{"operationType":"Create","resourceBody":{"id":"1","pk":"a"}},{"operationType":"Read","id":"2"}]`,
		"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True", pk, `["a"]`)
	if after := r.head.Get("x-ms-retry-after-ms"); after != "1000" {
		t.Errorf("retry after %q", after)
	}
}

// TestBulk: the operations of a bulk are carried out each by itself, those on one item in
// their order.
func TestBulk(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-offer-throughput", "20000")
	var ops []string
	for i := range 30 {
		key := fmt.Sprintf(`[\"k%d\"]`, i%7)
		ops = append(ops,
			fmt.Sprintf(`{"operationType":"Upsert","partitionKey":"%s","resourceBody":{"id":"x","pk":"k%d","n":%d}}`, key, i%7, i),
			fmt.Sprintf(`{"operationType":"Create","partitionKey":"%s","resourceBody":{"id":"i%d","pk":"k%d"}}`, key, i, i%7))
	}
	ops = append(ops, `{"operationType":"Create","partitionKey":"[\"k0\"]","resourceBody":{"id":"i0","pk":"k0"}}`,
		`{"operationType":"Read","partitionKey":"[\"k1\"]","id":"none"}`,
		`{"operationType":"Create","partitionKey":"[\"k1\"]","resourceBody":{"id":"y","pk":"other"}}`,
		`{"operationType":"Delete","partitionKey":"[\"k2\"]","id":"i2"}`)
	bulk := "[" + strings.Join(ops, ",") + "]"
	got := s.batch(207, docs, bulk, "x-ms-cosmos-batch-continue-on-error", "True")
	if tail := statuses(got)[60:]; !slices.Equal(tail, []int{409, 404, 400, 204}) {
		t.Errorf("the last four: %v", tail)
	}
	for i := range 30 {
		if first := i < 7; got[2*i].StatusCode != map[bool]int{true: 201, false: 200}[first] || got[2*i+1].StatusCode != 201 {
			t.Errorf("item %d: %v", i, statuses(got[2*i:2*i+2]))
		}
	}
	for i := range 7 { // the last upsert of each key stays
		r := s.do(200, "GET", docs+"/x", "", pk, fmt.Sprintf(`["k%d"]`, i))
		last := i
		for last+7 < 30 {
			last += 7
		}
		if n := r.member(t, "n"); n != float64(last) {
			t.Errorf("key %d has %v, want %d", i, n, last)
		}
	}
	// Without leave to go on, what follows a failure is not carried out.
	got = s.batch(207, docs, `[{"operationType":"Read","partitionKey":"[\"k1\"]","id":"none"},
		{"operationType":"Create","partitionKey":"[\"k1\"]","resourceBody":{"id":"late","pk":"k1"}}]`)
	if want := []int{404, 424}; !slices.Equal(statuses(got), want) {
		t.Errorf("%v, want %v", statuses(got), want)
	}
	if r := s.do(410, "POST", docs, bulk, "x-ms-cosmos-is-batch-request", "True", "x-ms-documentdb-partitionkeyrangeid", "777"); r.sub() != "1002" {
		t.Errorf("sub-status %q", r.sub())
	}
}

// unreadable is a container whose reads have an error.
type unreadable struct {
	Items
	with error
}

func (r unreadable) Read(context.Context, engine.PartitionKey, string) (engine.Item, error) {
	return engine.Item{}, r.with
}

// TestRetryOfOperation: an operation of a bulk that is to be tried again says after how many milliseconds, rounded up as those of a request:
// before that it would be refused once more.
func TestRetryOfOperation(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	items := k.items
	for _, c := range []struct {
		err    error
		status int
		after  int64
	}{
		{&engine.ThrottledError{RetryAfter: 1500 * time.Microsecond}, 429, 2},
		{&engine.ThrottledError{}, 429, 1},
		{&Fault{Status: 503, RetryAfter: 100 * time.Millisecond, Message: "no leader"}, 503, 100},
		{engine.ErrBusy, 503, 0},
	} {
		k.items = unreadable{items, c.err}
		got := s.batch(207, docs, `[{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}]`)
		if got[0].StatusCode != c.status || got[0].RetryAfterMilliseconds != c.after {
			t.Errorf("%v: %+v, want %d after %d", c.err, got[0], c.status, c.after)
		}
	}
}

// TestPlan: a client that may not merge by itself gets a plan, with the ranges that the
// filter leaves.
func TestPlan(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-offer-throughput", "20000")
	plan := func(query string) (p queryplan.Plan) {
		t.Helper()
		r := s.do(200, "POST", docs, query, "x-ms-cosmos-is-query-plan-request", "True", "Content-Type", "application/query+json",
			"x-ms-cosmos-query-version", "1.4", "x-ms-cosmos-supported-query-features", "OrderBy, Aggregate")
		if err := json.Unmarshal(r.body, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(`{"query":"SELECT c.a FROM c WHERE c.n > @n ORDER BY c.a DESC OFFSET 2 LIMIT 3","parameters":[{"name":"@n","value":7}]}`)
	if i := p.Info; !slices.Equal(i.OrderBy, []string{"Descending"}) || i.Offset == nil || *i.Offset != 2 || *i.Limit != 3 ||
		!strings.Contains(i.RewrittenQuery, "orderByItems") || !strings.Contains(i.RewrittenQuery, queryplan.FilterPlaceholder) {
		t.Errorf("%+v", i)
	}
	if len(p.Ranges) != 1 || p.Ranges[0].Min != "" || p.Ranges[0].Max != "FF" {
		t.Errorf("ranges of a query over everything: %+v", p.Ranges)
	}
	one := plan(`{"query":"SELECT * FROM c WHERE c.pk = 'a'"}`)
	key := partmap.String("a").EPK()
	if len(one.Ranges) != 1 || one.Ranges[0].Min == "" && one.Ranges[0].Max == "FF" {
		t.Errorf("a query of one key has the ranges %+v", one.Ranges)
	} else if r, err := keyrange.Parse(2, one.Ranges[0].Min, one.Ranges[0].Max); err != nil || !r.Contains(&key) {
		t.Errorf("the range %+v does not have the key: %v", one.Ranges, err)
	}
	s.do(400, "POST", docs, `{"query":"SELECT FROM"}`, "x-ms-cosmos-is-query-plan-request", "True", "Content-Type", "application/query+json")
	// A query that a client must merge is refused, with the plan.
	for i := range 3 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"%d"}`, i, i), pk, fmt.Sprintf(`["%d"]`, i))
	}
	r := s.do(400, "POST", docs, `{"query":"SELECT VALUE COUNT(1) FROM c"}`, "x-ms-documentdb-query", "True",
		"Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True")
	if r.sub() != "1004" || !strings.Contains(string(r.body), "additionalErrorInfo") {
		t.Errorf("sub-status %q: %s", r.sub(), r.body)
	}
}

// TestRangeFeed: a client that has some partition key ranges is shown those that are new, and
// no other twice; one that asks for no changes is shown all.
func TestRangeFeed(t *testing.T) {
	s := start(t, nil)
	s.items("x-ms-offer-throughput", "30000")
	const ranges = "/dbs/d/colls/c/pkranges"
	read := func(after string) (ids []string, etag string) {
		t.Helper()
		head := []string{"A-IM", "Incremental Feed"}
		if after != "" {
			head = append(head, "If-None-Match", after)
		}
		r := s.do(200, "GET", ranges, "", head...)
		var page struct{ PartitionKeyRanges []keyRange }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, p := range page.PartitionKeyRanges {
			ids = append(ids, p.ID)
		}
		return ids, r.head.Get("etag")
	}
	first, etag := read("")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	split := func(i int) {
		t.Helper()
		job, err := inEngine(k).Split(t.Context(), inEngine(k).Partitions()[i].ID, nil)
		if err == nil {
			err = job.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	split(0)
	second, later := read(etag)
	if len(second) != 2 || slices.Contains(first, second[0]) || slices.Contains(first, second[1]) {
		t.Errorf("after a split of one of %v the news are %v", first, second)
	}
	split(2)
	if third, _ := read(later); len(third) != 2 || slices.Contains(second, third[0]) || slices.Contains(first, third[0]) {
		t.Errorf("after another split the news are %v", third)
	}
	if both, _ := read(etag); len(both) != 4 {
		t.Errorf("after two splits the news are %v", both)
	}
	if all, _ := read(`"unknown"`); len(all) != len(first)+2 {
		t.Errorf("a client with an unknown etag is shown %v", all)
	}
	if r := s.do(200, "GET", ranges, ""); r.head.Get("x-ms-item-count") != fmt.Sprint(len(first)+2) {
		t.Errorf("all ranges: %s", r.head.Get("x-ms-item-count"))
	}
}

// TestEPKRanges: queries and feeds of ranges of the key space show together what there is, each
// item once.
func TestEPKRanges(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-offer-throughput", "20000")
	for i := range 40 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"%d"}`, i, i), pk, fmt.Sprintf(`["%d"]`, i))
	}
	cuts := []string{"", "0A", "1D00", "2AFFFF", "FF"}
	var queried, fed []string
	for i := 1; i < len(cuts); i++ {
		head := []string{"x-ms-start-epk", cuts[i-1], "x-ms-end-epk", cuts[i], "x-ms-read-key-type", "EffectivePartitionKeyRange"}
		part, _ := s.query(docs, "SELECT * FROM c", head...)
		queried = append(queried, ids(t, part)...)
		r := s.do(200, "GET", docs, "", append(head, "A-IM", "Incremental Feed", "x-ms-max-item-count", "-1")...)
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		fed = append(fed, ids(t, page.Documents)...)
		if len(part) == 0 || len(part) == 40 {
			t.Errorf("%d items from %q to %q", len(part), cuts[i-1], cuts[i])
		}
	}
	for what, got := range map[string][]string{"queries": queried, "feeds": fed} {
		slices.Sort(got)
		if n := len(got); n != 40 || len(slices.Compact(got)) != 40 {
			t.Errorf("%s: %d items: %v", what, n, got)
		}
	}
	s.do(400, "GET", docs, "", "A-IM", "Incremental Feed", "x-ms-start-epk", "ZZ", "x-ms-end-epk", "FF")
}

// TestAllVersions: the feed of all versions shows what was there between and what was
// deleted, for a container that keeps it.
func TestAllVersions(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":60}}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"plain","partitionKey":{"paths":["/pk"]}}`)
	const docs = "/dbs/d/colls/c/docs"
	feed := []string{"A-IM", "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version", "2021-09-15"}
	s.do(400, "GET", "/dbs/d/colls/plain/docs", "", feed...)
	begin := s.do(304, "GET", docs, "", append(feed, "If-None-Match", "*")...).head.Get("etag")
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1}`, pk, `["a"]`)
	s.do(200, "PUT", docs+"/1", `{"id":"1","pk":"a","n":2}`, pk, `["a"]`)
	s.do(204, "DELETE", docs+"/1", "", pk, `["a"]`)
	r := s.do(200, "GET", docs, "", append(feed, "If-None-Match", begin)...)
	var page struct {
		Documents []struct {
			Current  struct{ N int }
			Metadata struct {
				OperationType string
				ID            string
				PartitionKey  map[string]string
				LSN           uint64
			}
		}
	}
	if err := json.Unmarshal(r.body, &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	last := uint64(0)
	for _, d := range page.Documents {
		got = append(got, fmt.Sprintf("%s %d", d.Metadata.OperationType, d.Current.N))
		if d.Metadata.LSN <= last {
			t.Errorf("LSN %d after %d", d.Metadata.LSN, last)
		}
		last = d.Metadata.LSN
	}
	if want := []string{"create 1", "replace 2", "delete 0"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if m := page.Documents[2].Metadata; m.ID != "1" || m.PartitionKey["pk"] != "a" {
		t.Errorf("the delete is of %+v", m)
	}
	if again := s.do(304, "GET", docs, "", append(feed, "If-None-Match", r.head.Get("etag"))...); again.head.Get("etag") == "" {
		t.Error("a feed without news has no position")
	}
}

// TestSessions: a session token of a write is answered; one of the future is not.
func TestSessions(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	token := s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`).head.Get("x-ms-session-token")
	if token == "" {
		t.Fatal("no session token")
	}
	s.do(200, "GET", docs+"/1", "", pk, `["a"]`, "x-ms-session-token", token)
	at := strings.LastIndexByte(token, '#')
	if r := s.do(404, "GET", docs+"/1", "", pk, `["a"]`, "x-ms-session-token", token[:at+1]+"99999999"); r.sub() != "1002" {
		t.Errorf("a session ahead: sub-status %q", r.sub())
	}
	// Only at the level session is a token asked for; a malformed one is refused at each, also by a write.
	s.do(200, "GET", docs+"/1", "", pk, `["a"]`, "x-ms-session-token", token[:at+1]+"99999999", "x-ms-consistency-level", "Eventual")
	s.do(201, "POST", docs, `{"id":"2","pk":"a"}`, pk, `["a"]`, "x-ms-session-token", token[:at+1]+"99999999")
	for _, level := range []string{"Strong", "Session", "Eventual"} {
		s.do(400, "GET", docs+"/1", "", pk, `["a"]`, "x-ms-session-token", "nonsense", "x-ms-consistency-level", level)
		s.do(400, "POST", docs, `{"id":"3","pk":"a"}`, pk, `["a"]`, "x-ms-session-token", "nonsense", "x-ms-consistency-level", level)
	}
}

// TestThrottling: beyond the provisioned throughput requests are answered 429 with a time
// after which they go through.
func TestThrottling(t *testing.T) {
	s, c := startTimed(t, Options{Throttle: true})
	docs := s.items("x-ms-offer-throughput", "400")
	var refused *reply
	for i := 0; i < 1000 && refused == nil; i++ {
		id := fmt.Sprint(i)
		r := s.send(s.signed("POST", docs, []byte(fmt.Sprintf(`{"id":%q,"pk":"a"}`, id)), pk, `["a"]`))
		switch r.status {
		case 201:
		case 429:
			refused = r
		default:
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if refused == nil {
		t.Fatal("1,000 writes in no time at 400 RU/s were not throttled")
	}
	wait, err := time.ParseDuration(refused.head.Get("x-ms-retry-after-ms") + "ms")
	if err != nil || wait <= 0 || refused.sub() != "3200" {
		t.Fatalf("retry after %q, sub-status %q", refused.head.Get("x-ms-retry-after-ms"), refused.sub())
	}
	if refused.head.Get("x-ms-request-charge") == "" {
		t.Error("a refusal without a charge")
	}
	c.Advance(wait + time.Second)
	s.do(201, "POST", docs, `{"id":"later","pk":"a"}`, pk, `["a"]`)
}

// TestTTL: items expire by the container's default and by their own time.
func TestTTL(t *testing.T) {
	s, c := startTimed(t, Options{})
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":100}`)
	const docs = "/dbs/d/colls/c/docs"
	for _, d := range []string{`{"id":"default","pk":"a"}`, `{"id":"own","pk":"a","ttl":10}`, `{"id":"ever","pk":"a","ttl":-1}`} {
		s.do(201, "POST", docs, d, pk, `["a"]`)
	}
	s.do(400, "POST", docs, `{"id":"bad","pk":"a","ttl":"soon"}`, pk, `["a"]`)
	there := func(want ...string) {
		t.Helper()
		found, _ := s.query(docs, "SELECT * FROM c", pk, `["a"]`)
		if got := ids(t, found); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	there("default", "ever", "own")
	c.Advance(11 * time.Second)
	there("default", "ever")
	s.do(404, "GET", docs+"/own", "", pk, `["a"]`)
	c.Advance(100 * time.Second)
	there("ever")
	// The id is free again.
	s.do(201, "POST", docs, `{"id":"own","pk":"a"}`, pk, `["a"]`)
}

// TestDefaultTTLChanged: another defaultTtl holds for the items that are there: those without
// a ttl of their own go by it, and without one nothing expires.
func TestDefaultTTLChanged(t *testing.T) {
	s, c := startTimed(t, Options{})
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	const colls = "/dbs/d/colls"
	for name, more := range map[string]string{"c": "", "u": `,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}`} {
		definition := `{"id":"` + name + `","partitionKey":{"paths":["/pk"]}` + more
		s.do(201, "POST", colls, definition+`}`)
		docs := colls + "/" + name + "/docs"
		for _, d := range []string{`{"id":"default","pk":"a","u":1}`, `{"id":"own","pk":"a","u":2,"ttl":50}`, `{"id":"ever","pk":"a","u":3,"ttl":-1}`} {
			s.do(201, "POST", docs, d, pk, `["a"]`)
		}
		there := func(when string, want ...string) {
			t.Helper()
			found, _ := s.query(docs, "SELECT * FROM c", pk, `["a"]`)
			if got := ids(t, found); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("%s, %s: %v, want %v", name, when, got, want)
			}
			count, _ := s.query(docs, "SELECT VALUE COUNT(1) FROM c", pk, `["a"]`)
			if got := fmt.Sprintf("%s", count); got != fmt.Sprintf("[%d]", len(want)) {
				t.Errorf("%s, %s: count %s, want %d", name, when, got, len(want))
			}
		}
		set := func(ttl string) {
			t.Helper()
			s.do(200, "PUT", colls+"/"+name, definition+ttl+`}`)
		}
		c.Advance(60 * time.Second)
		there("nothing expires", "default", "ever", "own")
		set(`,"defaultTtl":-1`)
		there("what has a time of its own", "default", "ever")
		set(`,"defaultTtl":30`)
		there("30 s", "ever")
		s.do(404, "GET", docs+"/default", "", pk, `["a"]`)
		set(`,"defaultTtl":100`)
		there("100 s", "default", "ever")
		s.do(409, "POST", docs, `{"id":"default","pk":"a","u":4}`, pk, `["a"]`)
		c.Advance(60 * time.Second)
		there("later", "ever")
		s.do(201, "POST", docs, `{"id":"other","pk":"a","u":1}`, pk, `["a"]`)
		set("")
		if name == "u" { // another item has its unique values, so it is gone
			there("nothing expires again", "ever", "other", "own")
		} else {
			there("nothing expires again", "default", "ever", "other", "own")
		}
	}
}

// TestOffers: the throughput of a container is found, read and replaced.
func TestOffers(t *testing.T) {
	s := start(t, nil)
	s.items("x-ms-offer-throughput", "500")
	r := s.do(200, "GET", "/offers", "")
	var list struct {
		Offers []struct {
			RID     string `json:"_rid"`
			Content map[string]any
		}
	}
	if err := json.Unmarshal(r.body, &list); err != nil || len(list.Offers) != 1 || list.Offers[0].Content["offerThroughput"] != 500.0 {
		t.Fatalf("%s: %v", r.body, err)
	}
	path := "/offers/" + list.Offers[0].RID
	one := s.do(200, "GET", path, "")
	if one.head.Get("x-ms-cosmos-min-throughput") == "" {
		t.Error("the least throughput is not told")
	}
	s.do(400, "PUT", path, `{"content":{"offerThroughput":7}}`)
	s.do(400, "PUT", path, `{"content":{}}`)
	s.do(200, "PUT", path, `{"content":{"offerThroughput":900}}`)
	if content := s.do(200, "GET", path, "").member(t, "content").(map[string]any); content["offerThroughput"] != 900.0 {
		t.Errorf("%v", content)
	}
	s.do(404, "GET", "/offers/none", "")
}

// contested is a container in which another client makes an item just before each creation, and deletes it right after.
type contested struct {
	Items
	creations int
}

func (c *contested) Create(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error) {
	m, err := c.Upsert(ctx, doc, nil)
	if err != nil {
		return m, err
	}
	_, failed := c.Items.Create(ctx, doc, o)
	if c.creations++; c.creations < 1000 {
		err = c.Delete(ctx, m.Key, m.ID, nil)
	}
	return m, cmp.Or(err, failed)
}

// TestContestedUpsert: an upsert that others always come before does not go on for ever.
func TestContestedUpsert(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	k.items = &contested{Items: k.items}
	s.do(449, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`, "x-ms-documentdb-is-upsert", "true")
}
