package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// ranges returns the ids of the physical partitions.
func (s *server) ranges(path string) (ids []string, etag string) {
	s.t.Helper()
	r := s.do(200, "GET", path, "", "A-IM", "Incremental Feed")
	var all struct{ PartitionKeyRanges []keyRange }
	if err := json.Unmarshal(r.body, &all); err != nil {
		s.t.Fatal(err)
	}
	for i, p := range all.PartitionKeyRanges {
		if i == 0 && p.Min != "" || i == len(all.PartitionKeyRanges)-1 && p.Max != "FF" || i > 0 && p.Min != all.PartitionKeyRanges[i-1].Max {
			s.t.Errorf("ranges leave a gap: %+v", all.PartitionKeyRanges)
		}
		ids = append(ids, p.ID)
	}
	return ids, r.head.Get("etag")
}

// TestFeed: a change feed of each physical partition shows every item once, also when the
// partitions split and merge between two pages.
func TestFeed(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-cosmos-offer-autopilot-settings", `{"maxThroughput":20000}`)
	const ranges = "/dbs/d/colls/c/pkranges"
	var made []string
	write := func(n int) {
		for range n {
			id := fmt.Sprint(len(made))
			made = append(made, id)
			s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":%q}`, id, id), pk, fmt.Sprintf(`[%q]`, id))
		}
	}
	var seen []string
	// follow reads from a range until there is nothing new, and returns its position.
	follow := func(id, at string, most int) string {
		for range most {
			head := []string{"A-IM", "Incremental Feed", "x-ms-max-item-count", "3", "x-ms-documentdb-partitionkeyrangeid", id}
			if at != "" {
				head = append(head, "If-None-Match", at)
			}
			r := s.send(s.signed("GET", docs, nil, head...))
			if at = r.head.Get("etag"); at == "" || r.status != 200 && r.status != 304 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if r.status == 304 {
				return at
			}
			var page struct{ Documents []json.RawMessage }
			if err := json.Unmarshal(r.body, &page); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, ids(t, page.Documents)...)
		}
		return at
	}
	write(30)
	before, etag := s.ranges(ranges)
	s.do(304, "GET", ranges, "", "A-IM", "Incremental Feed", "If-None-Match", etag)
	if len(before) != 2 {
		t.Fatalf("%d ranges of 20,000 RU/s", len(before))
	}
	at := map[string]string{}
	for _, id := range before {
		at[id] = follow(id, "", 2)
	}
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	parts := inEngine(k).Partitions()
	split, err := inEngine(k).Split(t.Context(), parts[0].ID, nil)
	if err == nil {
		err = split.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	write(30)
	after, _ := s.ranges(ranges)
	if r := s.do(410, "GET", docs, "", "A-IM", "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid", before[0]); r.sub() != "1002" {
		t.Errorf("a range that is gone: sub-status %q", r.sub())
	}
	// A query is answered from the keys that the range had.
	old, _ := s.query(docs, "SELECT * FROM c", "x-ms-documentdb-partitionkeyrangeid", before[0])
	var now []json.RawMessage
	for _, child := range after[:2] {
		part, _ := s.query(docs, "SELECT * FROM c", "x-ms-documentdb-partitionkeyrangeid", child)
		now = append(now, part...)
	}
	if a, b := ids(t, old), ids(t, now); len(a) == 0 || !slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))) {
		t.Errorf("a query in a range that is gone: %v, in its children: %v", a, b)
	}
	if r := s.send(s.signed("POST", docs, []byte(`{"query":"SELECT * FROM c"}`), "x-ms-documentdb-query", "True", "x-ms-documentdb-partitionkeyrangeid", "12345")); r.status != 410 || r.sub() != "1002" {
		t.Errorf("a query in a range that never was: %d %s", r.status, r.body)
	}
	if len(after) != 3 || slices.Contains(after, before[0]) || after[2] != before[1] {
		t.Fatalf("%v after a split of %v", after, before)
	}
	for _, child := range after[:2] {
		at[child] = follow(child, at[before[0]], 1)
	}
	parts = inEngine(k).Partitions()
	merge, err := inEngine(k).Merge(t.Context(), parts[1].ID, parts[2].ID)
	if err == nil {
		err = merge.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	write(5)
	last, _ := s.ranges(ranges)
	for i, from := range after {
		follow(last[min(i, 1)], at[from], 100)
	}
	slices.Sort(seen)
	slices.Sort(made)
	if !slices.Equal(seen, made) {
		t.Errorf("the feed has shown %d changes, %d were made:\n%v\n%v", len(seen), len(made), seen, made)
	}
	// Queries that name ranges find each item once, those that name none too.
	var found int
	for _, id := range last {
		results, _ := s.query(docs, "SELECT * FROM c", "x-ms-documentdb-partitionkeyrangeid", id)
		found += len(results)
	}
	if whole, _ := s.query(docs, "SELECT * FROM c"); found != len(made) || len(whole) != len(made) {
		t.Errorf("%d items in ranges, %d in all", found, len(whole))
	}
}
