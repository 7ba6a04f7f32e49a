package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/sql/reference"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/vfs"
)

// sqlStore is a store for queries in the whole grammar, with its documents in the order of
// their keys.
type sqlStore struct {
	c    *Container
	docs []any
}

// newSQLStore puts documents into a store of several partitions, some of them into files.
func newSQLStore(t *testing.T, d reference.Draw, n int, policy IndexPolicy) sqlStore {
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1 + d.IntN(4), Index: policy})
	byPlace := make(map[string]string)
	for range n {
		id := fmt.Sprintf("i%d", d.IntN(n))
		body := fmt.Sprintf(`{"id":%q,"k":%s%s}`, id, []string{`"a"`, `"b"`, `"c"`, `4`, `5`}[len(id)*7%5], d.Members())
		meta, err := c.Upsert(t.Context(), []byte(body), nil)
		must(t, err)
		epk := meta.Key.EPK()
		byPlace[string(epk.Bytes())+string(meta.Key.Encoded())+id] = body
		if d.IntN(25) == 0 {
			must(t, db.Flush(t.Context()))
		}
	}
	s := sqlStore{c: c}
	places := make([]string, 0, len(byPlace))
	for place := range byPlace {
		places = append(places, place)
	}
	slices.Sort(places)
	for _, place := range places {
		var doc any
		must(t, json.Unmarshal([]byte(byPlace[place]), &doc))
		s.docs = append(s.docs, doc)
	}
	return s
}

// inPages returns the results of a query, a page at a time.
func inPages(t *testing.T, c *Container, q Query, page int) (list []any) {
	t.Helper()
	wanted := q.Limit
	for pages := 0; ; pages++ {
		if pages > 2000 {
			t.Fatalf("the pages do not end: %v, %+v", q.text, q)
		}
		if page > 0 {
			if q.Limit = page; wanted > 0 {
				q.Limit = min(page, wanted-len(list))
			}
		}
		r := c.Query(t.Context(), AllPartitions(), q)
		n := 0
		for it, err := range r.All() {
			must(t, err)
			var v any
			must(t, json.Unmarshal(it.Body, &v))
			list = append(list, v)
			n++
		}
		if st := r.Stats(); st.Results != int64(n) {
			t.Fatalf("%d results, the statistics say %d", n, st.Results)
		}
		if q.Continue = r.Continue(); q.Continue == "" || page == 0 || wanted > 0 && len(list) >= wanted {
			return list
		}
	}
}

// canonical returns values as texts that are equal for equal values.
func canonical(t *testing.T, list []any) []string {
	var out []string
	for _, v := range list {
		b, err := json.Marshal(v)
		must(t, err)
		out = append(out, string(b))
	}
	return out
}

// TestSQLAgainstReference: queries in the whole grammar have the results of a plain evaluator
// over documents in several partitions, with and without indexes, in one go and in pages, and
// with as little memory as there can be.
func TestSQLAgainstReference(t *testing.T) {
	seed := newSeed(t)
	rounds, queries := amount(20, 6, 2), amount(400, 120, 30)
	oldOrder := exec.Limits.OrderMemory
	t.Cleanup(func() { exec.Limits.OrderMemory = oldOrder })
	for round := range rounds {
		d := reference.Draw{Rand: rand.New(rand.NewPCG(seed, uint64(round)))}
		s := newSQLStore(t, d, 60, []IndexPolicy{{}, IndexAll(), {Include: []string{"/a/?", "/s/?", "/t/*"}}}[round%3])
		for range queries {
			text := d.Query()
			tree, err := syntax.Parse(text)
			must(t, err)
			q, err := ParseQuery(text, nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			loose := tree.Distinct || len(tree.GroupBy) > 0 // which results a limit leaves is not said
			if loose {
				tree.Offset, tree.Limit, tree.Top, q.Offset, q.Limit = nil, nil, nil, 0, 0
			}
			want, err := reference.Results(tree, s.docs)
			if err != nil {
				continue
			}
			exec.Limits.OrderMemory = 1 << (9 + d.IntN(12))
			page := []int{0, 1, 3, 7}[d.IntN(4)]
			got := inPages(t, s.c, q, page)
			a, b := canonical(t, got), canonical(t, want)
			if loose {
				slices.Sort(a)
				slices.Sort(b)
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("round %d of seed %d, pages of %d: %s\n got %d %.1500v\nwant %d %.1500v", round, seed, page, text, len(a), a, len(b), b)
			}
		}
	}
}

// TestSQLContinuations: a short continuation is small, also behind results with long orders, leads
// on after every single result, and says what is wrong with it.
func TestSQLContinuations(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3})
	for i := range 12 {
		body := fmt.Sprintf(`{"id":"i%d","k":%d,"s":%q,"t":[%d,%d,%d]}`, i, i%5, strings.Repeat("long", 300)+string(rune('a'+i%7)), i, i+1, i%2)
		must(t, second(c.Upsert(t.Context(), []byte(body), nil)))
	}
	for _, text := range []string{
		"SELECT c.id, t FROM c JOIN t IN c.t",
		"SELECT VALUE t FROM t IN c.t",
		"SELECT VALUE c.id FROM c ORDER BY LOWER(c.s), c.id DESC",
		"SELECT VALUE [c.id, t] FROM c JOIN t IN c.t ORDER BY c.s || 'x', t",
		"SELECT DISTINCT VALUE LOWER(c.s) FROM c",
		"SELECT DISTINCT VALUE t FROM c JOIN t IN c.t ORDER BY t DESC",
		"SELECT UPPER(c.s) AS s, COUNT(1) AS n FROM c GROUP BY UPPER(c.s)",
		"SELECT VALUE {a: 1, s: c.s} FROM c WHERE c.t[2] = 1",
		"SELECT VALUE 5",
	} {
		q, err := ParseQuery(text, nil)
		must(t, err)
		all := canonical(t, inPages(t, c, q, 0))
		if len(all) == 0 {
			t.Fatalf("%s: no results", text)
		}
		if got := canonical(t, inPages(t, c, q, 1)); !slices.Equal(got, all) {
			t.Errorf("%s: in pages\n%.300q, in one go\n%.300q", text, got, all)
		}
		for n := range all {
			r := c.Query(t.Context(), AllPartitions(), q)
			i := 0
			for _, err := range r.All() {
				must(t, err)
				if i++; i > n {
					break
				}
			}
			next := r.ShortContinue()
			if len(next) > 1024 {
				t.Errorf("%s: a continuation of %d bytes", text, len(next))
			}
			rest := q
			rest.Continue = next
			if next == "" {
				t.Fatalf("%s: no continuation after result %d", text, n)
			}
			if got := canonical(t, inPages(t, c, rest, 0)); !slices.Equal(got, all[n+1:]) {
				t.Errorf("%s: after result %d\n%.300q, want\n%.300q", text, n, got, all[n+1:])
			}
			for _, other := range []string{"SELECT VALUE 6", "SELECT c.id, t FROM c JOIN t IN c.t WHERE t = 1", "SELECT VALUE c.id FROM c"} {
				bad, err := ParseQuery(other, nil)
				must(t, err)
				bad.Continue = next
				for _, err := range c.Query(t.Context(), AllPartitions(), bad).All() {
					if !errors.Is(err, ErrBadContinuation) {
						t.Errorf("%s goes on with the continuation of %s: %v", other, text, err)
					}
					break
				}
			}
		}
	}
}

// TestDocumentETag: DOCUMENTETAG is the etag of the document in every clause, also in pages of
// one result and where the order does not fit into memory.
func TestDocumentETag(t *testing.T) {
	withOrderMemory(t, 1<<10)
	for _, index := range []IndexPolicy{{}, IndexAll()} {
		_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3, Index: index})
		tags := make(map[string]string)
		var order []any
		for i := range 40 {
			id := fmt.Sprintf("i%d", i*7%20)
			m, err := c.Upsert(t.Context(), []byte(fmt.Sprintf(`{"id":%q,"k":%d,"n":%d,"t":[1,2]}`, id, i*7%20%5, i%2)), nil)
			must(t, err)
			if tags[id] = m.ETag.String(); i >= 20 {
				order = append(order, id)
			}
		}
		slices.SortFunc(order, func(a, b any) int { return strings.Compare(tags[a.(string)], tags[b.(string)]) })
		for page := range 3 {
			q, err := ParseQuery("SELECT VALUE c.id FROM c ORDER BY DOCUMENTETAG(c)", nil)
			must(t, err)
			if got := inPages(t, c, q, page); !slices.Equal(got, order) {
				t.Errorf("pages of %d: %v, want %v", page, got, order)
			}
			for id, tag := range tags {
				for text, want := range map[string]int{
					"SELECT VALUE {i: c.id, e: DOCUMENTETAG(c)} FROM c WHERE DOCUMENTETAG(c) = @tag":                                                     1,
					"SELECT VALUE {i: c.id, e: DOCUMENTETAG(c)} FROM c JOIN x IN c.t WHERE DOCUMENTETAG(c) = @tag AND (c.n = 0 OR c.n = 1)":              2,
					"SELECT c.id AS i, MAX(DOCUMENTETAG(c)) AS e FROM c WHERE NOT (DOCUMENTETAG(c) != @tag) GROUP BY c.id ORDER BY MAX(DOCUMENTETAG(c))": 1,
				} {
					q, err := ParseQuery(text, map[string]any{"tag": tag})
					must(t, err)
					got := inPages(t, c, q, page)
					if len(got) != want {
						t.Errorf("%s in pages of %d: %v", text, page, got)
					}
					for _, v := range got {
						if m := v.(map[string]any); m["i"] != id || m["e"] != tag {
							t.Errorf("%s: %v, want %s of %s", text, m, tag, id)
						}
					}
				}
			}
		}
	}
}
