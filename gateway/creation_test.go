package gateway

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// created makes n documents by batches of one partition key each, beginning with a number. It returns
// their ids in the order of creation.
func (s *server) created(docs string, first, n int) (made []string) {
	s.t.Helper()
	for len(made) < n {
		key := fmt.Sprint("key ", (first+len(made))/100%11)
		var ops []string
		for range min(100, n-len(made)) {
			at := first + len(made)
			// The order of ids is not that of creation.
			id := fmt.Sprintf("%05d", at*7919%100_003)
			made = append(made, id)
			ops = append(ops, fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":%q,"pk":%q,"n":%d}}`, id, key, at))
		}
		s.batch(200, docs, "["+strings.Join(ops, ",")+"]", "x-ms-cosmos-batch-atomic", "True", pk, fmt.Sprintf(`[%q]`, key))
	}
	return made
}

var documentsRead = regexp.MustCompile(`retrievedDocumentCount=(\d+)`)

// pages runs a query to its end, and between before each page but the first. It returns the ids of the
// results and how many documents were read for all.
func (s *server) pages(docs, text string, between func(page int), head ...string) (ids []string, read int) {
	s.t.Helper()
	head = append([]string{"x-ms-documentdb-query", "True", "x-ms-documentdb-query-enablecrosspartition", "true"}, head...)
	body, _ := json.Marshal(map[string]string{"query": text})
	next := ""
	for page := 0; ; page++ {
		with := head
		if next != "" {
			if between != nil {
				between(page)
			}
			with = append(with[:len(with):len(with)], "x-ms-continuation", next)
		}
		r := s.do(200, "POST", docs, string(body), with...)
		var p struct{ Documents []struct{ ID string } }
		if err := json.Unmarshal(r.body, &p); err != nil {
			s.t.Fatal(err)
		}
		for _, d := range p.Documents {
			ids = append(ids, d.ID)
		}
		n, err := strconv.Atoi(documentsRead.FindStringSubmatch(r.head.Get("x-ms-documentdb-query-metrics"))[1])
		if err != nil {
			s.t.Fatal(err)
		}
		read += n
		if next = r.head.Get("x-ms-continuation"); next == "" {
			return ids, read
		}
	}
}

// TestCreationOrder: where it is asked for, results without ORDER BY come in the order of creation in a
// container of any size: in pages, of all partitions and of one key, with filters, through a split. A
// document that is replaced keeps its place. What the pages read grows with the results.
func TestCreationOrder(t *testing.T) {
	s := start(t, &Options{CreationOrder: true})
	docs := s.items("x-ms-cosmos-offer-autopilot-settings", `{"maxThroughput":20000}`)
	made := s.created(docs, 0, smallContainer+400)
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	if parts, _ := k.ranges(s.h.o.Clock(), true); len(parts) != 2 {
		t.Fatalf("%d physical partitions", len(parts))
	}
	s.do(200, "PUT", docs+"/"+made[5], fmt.Sprintf(`{"id":%q,"pk":"key 0","n":5,"again":true}`, made[5]), pk, `["key 0"]`)
	s.do(200, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":"key 1","n":103}`, made[103]), pk, `["key 1"]`, "x-ms-documentdb-is-upsert", "True")
	s.do(204, "DELETE", docs+"/"+made[7], "", pk, `["key 0"]`)
	s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":"key 0","n":7}`, made[7]), pk, `["key 0"]`)
	made = append(slices.Concat(made[:7], made[8:]), made[7])
	split := func(page int) {
		if page != 4 {
			return
		}
		job, err := inEngine(k).Split(t.Context(), inEngine(k).Partitions()[1].ID, nil)
		if err == nil {
			err = job.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(wanted func(at int) bool) (list []string) {
		for _, id := range made {
			at, _ := strconv.Atoi(id)
			for n := range len(made) {
				if n*7919%100_003 == at && wanted(n) {
					list = append(list, id)
				}
			}
		}
		return list
	}
	for _, test := range []struct {
		text, size string
		want       []string
		head       []string
		most       int // documents read
		between    func(int)
	}{
		{"SELECT * FROM c", "500", made, nil, 3 * len(made), nil},
		{"SELECT * FROM c", "1000", made, nil, 3 * len(made), split},
		{"SELECT c.id FROM c WHERE c.n % 4 = 1", "300", of(func(n int) bool { return n%4 == 1 }), nil, 4 * len(made), nil},
		{"SELECT VALUE c FROM c WHERE c.n >= 9000", "300", of(func(n int) bool { return n >= 9000 }), nil, 3 * len(made), nil},
		{"SELECT * FROM c", "200", of(func(n int) bool { return n/100%11 == 3 }), []string{pk, `["key 3"]`}, 6 * 1000, nil},
	} {
		got, read := s.pages(docs, test.text, test.between, append(test.head, "x-ms-max-item-count", test.size)...)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, pages of %s: %d results of %d, or in another order", test.text, test.size, len(got), len(test.want))
		}
		if read > test.most {
			t.Errorf("%s, pages of %s: %d documents were read for %d results, at most %d do", test.text, test.size, read, len(got), test.most)
		}
		t.Logf("%s, pages of %s: %d documents read for %d results", test.text, test.size, read, len(got))
	}
}

// TestCreationOrderWithParameters: the order of creation asks no shorter parameters of a query: neither lists of more elements
// than a text may have, nor longer strings.
func TestCreationOrderWithParameters(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	made := s.created(docs, 0, 5)
	list := slices.Clone(made)
	for i := range 10_001 {
		list = append(list, fmt.Sprint("other ", i))
	}
	for text, value := range map[string]any{
		"SELECT * FROM c WHERE ARRAY_CONTAINS(@p, c.id)":                     list,
		"SELECT * FROM c WHERE c.id != @p":                                   strings.Repeat("x", 600<<10),
		"SELECT * FROM c WHERE c.id != CONCAT(c.pk, @p) OFFSET 0 LIMIT @end": strings.Repeat("x", 600<<10),
	} {
		body, err := json.Marshal(map[string]any{"query": text, "parameters": []any{map[string]any{"name": "@p", "value": value}, map[string]any{"name": "@end", "value": 9}}})
		if err != nil {
			t.Fatal(err)
		}
		r := s.do(200, "POST", docs, string(body), "x-ms-documentdb-query", "True", pk, `["key 0"]`)
		var p struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(r.body, &p); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, p.Documents); !slices.Equal(got, made) {
			t.Errorf("%s: %v, want %v", text, got, made)
		}
	}
}

// TestCreationOrderOfSmall: without the option a container of up to 10,000 documents has that order, and
// pages that have begun in it go on in it when there are more.
func TestCreationOrderOfSmall(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	made := s.created(docs, 0, smallContainer)
	got, _ := s.pages(docs, "SELECT * FROM c", func(page int) {
		if page == 2 {
			made = append(made, s.created(docs, len(made), 300)...)
		}
	}, "x-ms-max-item-count", "4000")
	if !slices.Equal(got, made) {
		t.Errorf("%d results of %d, or in another order", len(got), len(made))
	}
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	k.ranges(s.h.o.Clock(), false) // it need not know at once how many there are
	if got, _ = s.pages(docs, "SELECT * FROM c", nil, "x-ms-max-item-count", "4000"); len(got) != len(made) || slices.Equal(got, made) {
		t.Errorf("%d results of %d, in the order of creation", len(got), len(made))
	}
	if _, err := New(t.Context(), s.db, &Options{CreationOrder: true, KeyOrder: true}); err == nil {
		t.Error("two orders at once")
	}
	// With the option the container gets the index that it lacks.
	h, err := New(t.Context(), s.db, &Options{CreationOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	if k, bad = h.catalog.container("d", "c"); bad != nil || !slices.Contains(k.items.Def().Index.Include, "/_rid/*") {
		t.Fatalf("%v, %v", k.items.Def().Index, bad)
	}
	s.h.o.CreationOrder = true
	if got, _ = s.pages(docs, "SELECT * FROM c", nil, "x-ms-max-item-count", "4000"); !slices.Equal(got, made) {
		t.Errorf("with the option %d results of %d, or in another order", len(got), len(made))
	}
}

// uncounted is a container of which nobody knows how many documents it has.
type uncounted struct{ localItems }

func (u uncounted) Ranges() []Partition {
	parts := u.localItems.Ranges()
	for i := range parts {
		parts[i].Items = -1
	}
	return parts
}

// TestKeyOrderOfUncounted: a container that may be large has its results in the order of keys.
func TestKeyOrderOfUncounted(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-offer-throughput", "18000")
	s.created(docs, 0, 30)
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	const text = "SELECT * FROM c"
	s.h.o.KeyOrder = true
	want, _ := s.query(docs, text)
	s.h.o.KeyOrder = false
	if got, _ := s.query(docs, text); slices.Equal(ids(t, got), ids(t, want)) {
		t.Fatal("the order of keys is that of creation")
	}
	k.items, k.parts = uncounted{k.items.(localItems)}, nil
	if got, _ := s.query(docs, text); !slices.Equal(ids(t, got), ids(t, want)) {
		t.Errorf("%v, want %v", ids(t, got), ids(t, want))
	}
}

// TestCreationIndex: the index of the order of creation stands beside any indexing policy, and metrics
// of a query do not speak of it.
func TestCreationIndex(t *testing.T) {
	for policy, want := range map[string]engine.IndexPolicy{
		`{}`: {Include: []string{"/_rid/*", "/*"}, Exclude: []string{`/"_etag"/?`}},
		`{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}`: {Include: []string{"/_rid/*", "/a/?"}, Exclude: []string{"/*"}},
		`{"indexingMode":"none","automatic":false}`:                           {Include: []string{"/_rid/*"}},
	} {
		s := start(t, &Options{CreationOrder: true})
		s.do(201, "POST", "/dbs", `{"id":"d"}`)
		s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":`+policy+`}`)
		k, bad := s.h.catalog.container("d", "c")
		if bad != nil {
			t.Fatal(bad)
		}
		if got := k.items.Def().Index; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
		s.do(201, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"x"}`, pk, `["x"]`)
		r := s.ask(200, "/dbs/d/colls/c/docs", "SELECT * FROM c", pk, `["x"]`, "x-ms-cosmos-populateindexmetrics-V2", "true")
		if metrics := r.head.Get("x-ms-cosmos-index-utilization"); metrics == "" || strings.Contains(metrics, "_rid") {
			t.Errorf("%s: metrics %s", policy, metrics)
		}
	}
}
