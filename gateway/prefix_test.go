package gateway

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestPrefix: queries, lists and feeds of the first levels of a partition key have the items of all keys that begin so, and no
// others. With a physical partition they have those of it, so the parts add up.
func TestPrefix(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"h","partitionKey":{"paths":["/a","/b","/c"],"kind":"MultiHash","version":2}}`)
	const docs = "/dbs/d/colls/h/docs"
	const each = 12
	for i := range each {
		for _, a := range []string{"x", "y"} {
			s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%s%d","a":%q,"b":"b%d","c":%d,"n":%d}`, a, i, a, i%3, i, i), pk, fmt.Sprintf(`[%q,"b%d",%d]`, a, i%3, i))
		}
	}
	k, bad := s.h.catalog.container("d", "h")
	if bad != nil {
		t.Fatal(bad)
	}
	for range 3 { // the boundaries lie among the keys of a prefix
		for _, p := range inEngine(k).Partitions() {
			if job, err := inEngine(k).Split(t.Context(), p.ID, nil); err == nil {
				_ = job.Wait(t.Context()) // one that has a single key is not split
			}
		}
	}
	ranges, _ := s.ranges("/dbs/d/colls/h/pkranges")
	if len(ranges) < 4 {
		t.Fatalf("%d ranges", len(ranges))
	}
	for key, want := range map[string]int{`["x"]`: each, `["x","b1"]`: each / 3, `["x","b1",4]`: 1, `["x","none"]`: 0} {
		of := []string{pk, key}
		counted := func(head ...string) (n int) {
			t.Helper()
			got, _ := s.query(docs, "SELECT VALUE COUNT(1) FROM c", append(slices.Clone(of), head...)...)
			if err := json.Unmarshal(got[0], &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		fed := func(head ...string) (shown []string) {
			t.Helper()
			for etag := ""; ; {
				r := s.send(s.signed("GET", docs, nil, append(slices.Clone(of), append(head, "A-IM", "Incremental Feed", "x-ms-max-item-count", "2", "If-None-Match", etag)...)...))
				if etag = r.head.Get("etag"); r.status == 304 {
					return shown
				}
				var page struct{ Documents []json.RawMessage }
				if err := json.Unmarshal(r.body, &page); err != nil || r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
				shown = append(shown, ids(t, page.Documents)...)
			}
		}
		found, _ := s.query(docs, "SELECT * FROM c ORDER BY c.n DESC", append(of, "x-ms-max-item-count", "3")...)
		var list struct {
			Count int `json:"_count"`
		}
		if err := json.Unmarshal(s.do(200, "GET", docs, "", of...).body, &list); err != nil {
			t.Fatal(err)
		}
		if len(found) != want || list.Count != want || counted() != want || len(fed()) != want {
			t.Errorf("%s: %d results, %d in the list, %d counted, %d in the feed, want %d", key, len(found), list.Count, counted(), len(fed()), want)
		}
		if want == 1 {
			continue // a whole key is one partition, whichever is named
		}
		sum := 0
		var parts []string
		for _, id := range ranges {
			sum += counted("x-ms-documentdb-partitionkeyrangeid", id)
			parts = append(parts, fed("x-ms-documentdb-partitionkeyrangeid", id)...)
		}
		slices.Sort(parts)
		if sum != want || len(parts) != want || len(slices.Compact(parts)) != want {
			t.Errorf("%s by ranges: %d counted, the feeds show %v, want %d", key, sum, parts, want)
		}
	}
	s.do(400, "GET", docs, "", pk, `["x","b1",4,5]`)
}

// TestPrefixFeedAfterSplit: a position of the feed of a prefix in a partition is good for both of its children: the one that has
// none of the keys has nothing new, and the client keeps its position.
func TestPrefixFeedAfterSplit(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash"},"changeFeedPolicy":{"retentionDuration":100}}`)
	const docs = coll + "/docs"
	modes := []string{"Incremental Feed", "Full-Fidelity Feed"}
	feed := func(want int, mode, at string, head ...string) *reply {
		t.Helper()
		return s.do(want, "GET", docs, "", append(head, "A-IM", mode, pk, `["1"]`, "If-None-Match", at)...)
	}
	at := map[string]string{}
	for _, mode := range modes {
		at[mode] = feed(304, mode, "", "x-ms-documentdb-partitionkeyrangeid", k0(s)).head.Get("etag")
	}
	k, _ := s.h.catalog.container("d", "c")
	job, err := inEngine(k).Split(t.Context(), inEngine(k).Partitions()[0].ID, nil)
	if err == nil {
		err = job.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.do(201, "POST", docs, `{"id":"1","a":"1","b":"x"}`, pk, `["1","x"]`)
	children, _ := s.ranges(coll + "/pkranges")
	for _, mode := range modes {
		var with int
		for _, child := range children {
			of := []string{"x-ms-documentdb-partitionkeyrangeid", child}
			r := s.send(s.signed("GET", docs, nil, append(of, "A-IM", mode, pk, `["1"]`, "If-None-Match", at[mode])...))
			if r.status == 200 {
				with++
			} else if etag := r.head.Get("etag"); r.status != 304 || etag != at[mode] {
				t.Errorf("%s, child %s: %d, etag %s, want 304 and %s: %s", mode, child, r.status, etag, at[mode], r.body)
			}
		}
		if len(children) != 2 || with != 1 {
			t.Errorf("%s: %d of %v show the item", mode, with, children)
		}
		// So has a range of the client's that ends where the keys begin.
		end := engine.StringKey("1").EPK()
		feed(304, mode, at[mode], "x-ms-start-epk", "", "x-ms-end-epk", end.String())
	}
}

// TestPrefixTooLong: levels that are together longer than a key may be are refused. They do not stand for the whole container, and a
// permission for them opens nothing.
func TestPrefixTooLong(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash"}}`)
	const docs = coll + "/docs"
	s.do(201, "POST", docs, `{"id":"1","a":"x","b":"y"}`, pk, `["x","y"]`)
	level := strings.Repeat("k", 2048)
	long := fmt.Sprintf(`[%q,%q]`, level, level)
	const query = `{"query":"SELECT * FROM c"}`
	head := []string{pk, long, "x-ms-documentdb-query", "True"}
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	made := s.do(201, "POST", "/dbs/d/users/u/permissions", `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c","resourcePartitionKey":`+long+`}`)
	r := s.signed("POST", docs, []byte(query), head...)
	r.Header.Set("Authorization", url.QueryEscape(made.member(t, "_token").(string)))
	if got := s.send(r); got.status != 403 {
		t.Errorf("with the permission: %d, want 403: %s", got.status, got.body)
	}
	s.do(400, "POST", docs, query, head...)
	s.do(400, "GET", docs, "", pk, long)
	s.do(400, "GET", docs, "", pk, long, "A-IM", "Incremental Feed")
}
