package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

const fed = "/dbs/shop/colls/fed/docs"

// feed reads a feed to its end, in pages of 4, and returns the newest n of each item that it shows and the etag
// behind it.
func (g *gate) feed(etag string, head ...string) (shown map[string]int, next string) {
	g.t.Helper()
	shown = make(map[string]int)
	for {
		a := g.ask("GET", fed, "", append(slices.Clone(head), "A-IM", "Incremental Feed", "x-ms-max-item-count", "4", "If-None-Match", etag)...)
		if etag = a.head.Get("etag"); a.status == 304 {
			return shown, etag
		}
		var page struct {
			Documents []struct {
				ID, K string
				N     int
			}
		}
		if err := json.Unmarshal([]byte(a.body), &page); a.status != 200 || err != nil || len(page.Documents) == 0 || len(page.Documents) > 4 {
			g.t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		for _, d := range page.Documents {
			shown[d.K+"/"+d.ID] = d.N
		}
	}
}

// feeds: what was written comes, once, in the feed of a range, of a key and of the whole, also with the etag of another
// one of these.
func (g *gate) feeds() {
	t := g.t
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"fed","partitionKey":{"paths":["/k"]}}`, "x-ms-offer-throughput", "18000")
	put := func(k, id string, n int) {
		a := g.ask("POST", fed, fmt.Sprintf(`{"id":%q,"k":%q,"n":%d}`, id, k, n), pk, fmt.Sprintf("[%q]", k), "x-ms-documentdb-is-upsert", "true")
		if a.status != 201 && a.status != 200 {
			t.Fatal(a.status, a.body)
		}
	}
	all := make(map[string]int)
	for i := range 40 {
		k, id := fmt.Sprint("key", i%13), fmt.Sprint(i)
		put(k, id, i)
		all[k+"/"+id] = i
	}
	var known struct {
		PartitionKeyRanges []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(g.want(200, "GET", "/dbs/shop/colls/fed/pkranges", "").body), &known); err != nil || len(known.PartitionKeyRanges) != 3 {
		t.Fatal(known, err)
	}
	// of reads the feed of each range, from an etag for each.
	of := func(etags map[string]string) map[string]int {
		sum := make(map[string]int)
		for _, r := range known.PartitionKeyRanges {
			shown, next := g.feed(etags[r.ID], "x-ms-documentdb-partitionkeyrangeid", r.ID)
			for item, n := range shown {
				if _, twice := sum[item]; twice {
					t.Errorf("%s is in two ranges", item)
				}
				sum[item] = n
			}
			etags[r.ID] = next
		}
		return sum
	}
	compare := func(what string, got, want map[string]int) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	etags := make(map[string]string)
	compare("ranges", of(etags), all)
	whole, after := g.feed("")
	compare("whole", whole, all)
	key := []string{pk, `["key3"]`}
	ofKey, afterKey := g.feed("", key...)
	compare("key", ofKey, map[string]int{"key3/3": 3, "key3/16": 16, "key3/29": 29})
	nothing, now := g.feed("*")
	compare("now", nothing, map[string]int{})

	for i := range 6 {
		put(fmt.Sprint("key", i), fmt.Sprint(i), 100+i)
	}
	g.want(204, "DELETE", fed+"/13", "", pk, `["key0"]`)
	news := map[string]int{"key0/0": 100, "key1/1": 101, "key2/2": 102, "key3/3": 103, "key4/4": 104, "key5/5": 105}
	others := make(map[string]string)
	for _, r := range known.PartitionKeyRanges {
		others[r.ID] = after
	}
	compare("ranges, from the etag of the whole", of(others), news)
	compare("ranges", of(etags), news)
	compare("ranges, once more", of(etags), map[string]int{})
	got, _ := g.feed(after)
	compare("whole", got, news)
	got, _ = g.feed(now)
	compare("from now on", got, news)
	got, _ = g.feed(afterKey, key...)
	compare("key", got, map[string]int{"key3/3": 103})
	got, _ = g.feed(after, append(key, "x-ms-consistency-level", "Eventual")...)
	for item, n := range got { // as far as the nearest replica has applied
		if item != "key3/3" || n != 103 {
			t.Errorf("key, eventual: %v", got)
		}
	}

	for _, bad := range []string{`"-FF@nonsense"`, `"-FF@"`, `"nonsense"`} {
		g.want(400, "GET", fed, "", "A-IM", "Incremental Feed", "If-None-Match", bad)
	}
	g.want(400, "GET", fed, "", "A-IM", "Full-Fidelity Feed", pk, `["key3"]`)
	g.want(204, "DELETE", "/dbs/shop/colls/fed", "")
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"fed","partitionKey":{"paths":["/k"]}}`)
	g.want(400, "GET", fed, "", "A-IM", "Incremental Feed", "If-None-Match", after) // of the container before
	g.want(204, "DELETE", "/dbs/shop/colls/fed", "")
}
