package gateway

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestRaisedThroughput: a container whose throughput is raised gets all partitions that it needs, one for each 10,000 RU/s,
// and the offer is pending until it has them.
func TestRaisedThroughput(t *testing.T) {
	for _, documents := range []int{0, 400} {
		s := start(t, nil)
		docs := s.items("x-ms-offer-throughput", "400")
		for i := range documents {
			key := fmt.Sprintf(`["%d"]`, i)
			s.do(201, "POST", docs, fmt.Sprintf(`{"id":"1","pk":"%d"}`, i), pk, key)
		}
		offer := s.do(200, "GET", "/offers", "").member(t, "Offers").([]any)[0].(map[string]any)
		path := "/" + strings.TrimSuffix(offer["_self"].(string), "/")
		const pending = "x-ms-offer-replace-pending"
		if r := s.do(200, "PUT", path, `{"content":{"offerThroughput":100000}}`); r.head.Get(pending) != "true" {
			t.Errorf("%d documents: pending %s", documents, r.head.Get(pending))
		}
		for s.do(200, "GET", path, "").head.Get(pending) == "true" {
		}
		if n := s.do(200, "GET", coll+"/pkranges", "").member(t, "_count"); n != 10.0 {
			t.Errorf("%d documents: %v partitions, want 10", documents, n)
		}
		if found, _ := s.query(docs, "SELECT VALUE c.pk FROM c"); len(found) != documents {
			t.Errorf("%d documents of %d", len(found), documents)
		}
		s.do(200, "PUT", path, `{"content":{"offerThroughput":1000}}`)
		if n := s.do(200, "GET", coll+"/pkranges", "").member(t, "_count"); n != 10.0 {
			t.Errorf("%d documents: %v partitions for less throughput", documents, n)
		}
	}
}

// TestGrowthAfterRestart: splits that were still to come when the store was closed come when it is opened again.
func TestGrowthAfterRestart(t *testing.T) {
	s := start(t, nil)
	s.items("x-ms-offer-throughput", "400")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	if _, err := s.h.catalog.changeContainer(t.Context(), k, "", func(r *containerRecord) (func() error, error) {
		r.Offer = &offer{Throughput: 30_000} // and nothing is split yet
		return func() error { return nil }, nil
	}); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), s.db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k, bad = h.catalog.container("d", "c"); bad != nil {
		t.Fatal(bad)
	}
	for k.growth.Pending() {
		runtime.Gosched()
	}
	if n := len(k.items.Ranges()); n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
}

// TestLeastThroughput: the least throughput that an offer tells is accepted, and less is not.
func TestLeastThroughput(t *testing.T) {
	s := start(t, &Options{Throttle: true}) // whose store splits behind the requests
	s.do(201, "POST", "/dbs", `{"id":"d"}`, "x-ms-offer-throughput", "45500")
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", "400")
	var path [2]string
	for i, o := range s.do(200, "GET", "/offers", "").member(t, "Offers").([]any) {
		path[i] = "/" + strings.TrimSuffix(o.(map[string]any)["_self"].(string), "/")
	}
	const manual, auto = `{"content":{"offerThroughput":%d}}`, `{"content":{"offerAutopilotSettings":{"maxThroughput":%d}}}`
	for _, c := range []struct {
		of         int
		content    string
		throughput int
		least      string // "": it is refused
	}{
		{0, manual, 400, ""}, {0, manual, 500, "500"}, {0, manual, 400, ""}, {0, auto, 4000, ""}, {0, auto, 5000, "5000"},
		{1, manual, 9900, "400"}, {1, manual, 400, "400"}, {1, auto, 10_000, "1000"}, {1, auto, 1000, "1000"}, {1, manual, 400, "400"},
		{1, manual, 45_500, "500"}, {1, manual, 400, ""}, {1, manual, 500, "500"}, {1, auto, 4000, ""}, {1, auto, 5000, "5000"},
	} {
		status := 200
		if c.least == "" {
			status = 400
		}
		r := s.do(status, "PUT", path[c.of], fmt.Sprintf(c.content, c.throughput))
		if got := r.head.Get("x-ms-cosmos-min-throughput"); status == 200 && got != c.least {
			t.Errorf("%+v: %s is the least", c, got)
		}
	}
}
