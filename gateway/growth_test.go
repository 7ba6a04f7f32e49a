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
		s.do(200, "PUT", path, `{"content":{"offerThroughput":400}}`)
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
	if _, err := s.h.catalog.changeContainer(t.Context(), k, "", func(r *containerRecord) error {
		r.Offer = &offer{Throughput: 30_000} // and nothing is split yet
		return nil
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
