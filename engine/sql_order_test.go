package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/sql/reference"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestJoinedOrderPages: rows of a JOIN in an order of the documents have the results of a plain
// evaluator, in pages of every size, over several partitions, with an index of the order and without.
func TestJoinedOrderPages(t *testing.T) {
	seed := newSeed(t)
	rounds, queries := amount(20, 6, 3), amount(200, 60, 25)
	old := exec.Limits.OrderMemory
	t.Cleanup(func() { exec.Limits.OrderMemory = old })
	for round := range rounds {
		d := reference.Draw{Rand: rand.New(rand.NewPCG(seed, uint64(round)))}
		s := newSQLStore(t, d, 60, []IndexPolicy{IndexAll(), {}, {Include: []string{"/a/?", "/s/?"}}}[round%3])
		for range queries {
			text := d.JoinedInOrder()
			tree, err := syntax.Parse(text)
			must(t, err)
			want, err := reference.Results(tree, s.docs)
			if err != nil {
				continue
			}
			q, err := ParseQuery(text, nil)
			must(t, err)
			if q.OrderBy == nil {
				t.Fatalf("%s: the documents have no order", text)
			}
			exec.Limits.OrderMemory = 1 << (9 + d.IntN(12))
			page := []int{0, 1, 7, 100}[d.IntN(4)]
			if got := inPages(t, s.c, q, page); !slices.Equal(canonical(t, got), canonical(t, want)) {
				t.Fatalf("round %d of seed %d, pages of %d: %s\n got %d %.1500v\nwant %d %.1500v", round, seed, page, text, len(got), got, len(want), want)
			}
		}
	}
}

// TestJoinedOrderKept: rows of a small document, which rows hold, come between those of a large one, which is read again.
func TestJoinedOrderKept(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}})
	for _, body := range []string{`{"id":"large","k":1,"t":[1,3],"s":"` + strings.Repeat("x", 64<<10) + `"}`, `{"id":"small","k":1,"t":[2]}`} {
		must(t, second(c.Create(t.Context(), []byte(body), nil)))
	}
	q, err := ParseQuery("SELECT VALUE [c.id, t] FROM c JOIN t IN c.t ORDER BY t OFFSET 0 LIMIT 5", nil)
	must(t, err)
	if got, want := fmt.Sprint(inPages(t, c, q, 0)), "[[large 1] [small 2] [large 3]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestJoinedOrderCost: what the pages of such a query read grows with the documents and the pages, not
// with their product. Pages of 100 rows read at most twice as many documents as the query does at
// once, smaller ones three more for each page. Of several partitions, each may read as many.
func TestJoinedOrderCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	for _, partitions := range []int{1, 4} {
		_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, Index: IndexAll()})
		const documents = 300
		for i := range documents {
			body := fmt.Sprintf(`{"id":"i%d","k":%d,"n":%d,"s":"s%d","t":[%s]}`, i, i, i*7919%documents, i%40, strings.Join([]string{"1", "2", "3", "4", "5", "6"}[:i%7], ","))
			must(t, second(c.Create(t.Context(), []byte(body), nil)))
		}
		for _, text := range []string{
			"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY c.n",
			"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY c.n DESC",
			"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY c.s",
			"SELECT c.id, t FROM c JOIN t IN c.t WHERE t = 6 ORDER BY c.n",
			"SELECT c.id, t FROM c JOIN t IN c.t JOIN u IN c.t ORDER BY c.n",
			"SELECT VALUE c.t[5] FROM c ORDER BY c.n",
		} {
			if rng.IntN(lone(1)) > 0 {
				continue
			}
			q, err := ParseQuery(text, nil)
			must(t, err)
			read := func(limit int) (n int64, pages, results int) {
				for q.Continue = ""; ; {
					q.Limit = limit
					r := c.Query(t.Context(), AllPartitions(), q)
					for _, err := range r.All() {
						must(t, err)
						results++
					}
					n += r.Stats().Documents
					pages++
					if q.Continue = r.Continue(); q.Continue == "" {
						return n, pages, results
					}
				}
			}
			whole, _, all := read(0)
			for _, limit := range []int{100, 7, 1} {
				if limit == 1 && all > 1000 {
					continue
				}
				n, pages, results := read(limit)
				if results != all {
					t.Errorf("%s: %d results in pages of %d, %d at once", text, results, limit, all)
				}
				most := 2 * whole
				if limit < 100 {
					most += 3 * int64(pages)
				}
				if n > most*int64(partitions) {
					t.Errorf("%d partitions, %s: more than %d documents for each", partitions, text, most)
				}
				t.Logf("%d partitions, %s: %d documents at once, %d in %d pages of %d", partitions, text, whole, n, pages, limit)
			}
		}
	}
}

// TestRowsCost: a page of rows in the order of keys reads about as many documents as have its rows,
// in one partition and in many.
func TestRowsCost(t *testing.T) {
	for _, partitions := range []int{1, 8} {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, Index: IndexAll()})
		for i := range 2000 {
			must(t, second(c.Create(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":%d,"n":%d,"t":[1,2]}`, i, i, i), nil)))
			if i == 1000 {
				must(t, db.Flush(t.Context()))
			}
		}
		for _, text := range []string{"SELECT c.n + 1 AS m FROM c", "SELECT VALUE c.n + 1 FROM c", "SELECT VALUE t FROM c JOIN t IN c.t"} {
			q, err := ParseQuery(text, nil)
			must(t, err)
			for _, limit := range []int{1, 10, 100} {
				q.Limit, q.Continue = limit, ""
				for page := range 2 {
					r := c.Query(t.Context(), AllPartitions(), q)
					if got, err := results(r); err != nil || len(got) != limit {
						t.Fatalf("%s: %d results: %v", text, len(got), err)
					}
					q.Continue = r.Continue()
					if n, most := r.Stats().Documents, 2*int64(limit)+8; n > most {
						t.Errorf("%d partitions, %s, page %d of %d: %d documents, at most %d", partitions, text, page, limit, n, most)
					}
				}
			}
		}
	}
}

// TestElementOrderCost: the pages of an order by the elements of a JOIN read a document once for each page
// in which it has a row, and few others to look ahead.
func TestElementOrderCost(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		for _, most := range []int{2, 6} { // elements of a document
			db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, Index: IndexAll()})
			const documents = 900
			for i := range documents {
				var list []string
				for j := range i % (most + 1) {
					list = append(list, fmt.Sprint((i*7919+j*104_729)%5000))
				}
				must(t, second(c.Create(t.Context(), []byte(fmt.Sprintf(`{"id":"i%d","k":%d,"t":[%s]}`, i, i, strings.Join(list, ","))), nil)))
				if i == documents/2 {
					must(t, db.Flush(t.Context()))
				}
			}
			for _, text := range []string{
				"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY t", "SELECT c.id, t FROM c JOIN t IN c.t ORDER BY t DESC",
				"SELECT c.id, t FROM c JOIN t IN c.t WHERE c.t[] < 2500 ORDER BY t", "SELECT t FROM c JOIN t IN c.t WHERE t % 2 = 0 ORDER BY t",
			} {
				q, err := ParseQuery(text, nil)
				must(t, err)
				whole, err := results(c.Query(t.Context(), AllPartitions(), q))
				must(t, err)
				q.Limit = 100
				read, pages := int64(0), 0
				var got []string
				for ; pages == 0 || q.Continue != ""; pages++ {
					r := c.Query(t.Context(), AllPartitions(), q)
					list, err := results(r)
					must(t, err)
					got, read, q.Continue = append(got, list...), read+r.Stats().Documents, r.Continue()
				}
				if !slices.Equal(got, whole) || len(got) < 100 {
					t.Errorf("%s: %d results in pages, %d at once", text, len(got), len(whole))
				}
				t.Logf("%d partitions, up to %d elements, %s: %d documents for %d results in %d pages", partitions, most, text, read, len(got), pages)
				bound := int64(2*partitions) * documents
				if most > 2 {
					bound *= 2
				}
				if read > bound {
					t.Errorf("%d partitions, %s: %d documents are read for %d results in %d pages, at most %d do", partitions, text, read, len(got), pages, bound)
				}
			}
		}
	}
}

// TestJoinedOrderAmongWrites: what is written between pages, and splits, do to the pages of such a
// query what they do to one without a JOIN: behind the place of the last result stands what is
// there now.
func TestJoinedOrderAmongWrites(t *testing.T) {
	type doc struct {
		id, place string
		n         int
		rows      []int
	}
	seed := newSeed(t)
	for round := range amount(40, 10, 4) {
		d := reference.Draw{Rand: rand.New(rand.NewPCG(seed, uint64(round)))}
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1 + d.IntN(2), Index: []IndexPolicy{IndexAll(), {}}[round%2]})
		docs := make(map[string]*doc)
		long := strings.Repeat("x", 500*d.IntN(2)) // then a short continuation has hashes
		write := func() {
			id := fmt.Sprintf("i%d", d.IntN(40))
			k := fmt.Sprint(len(id) * int(id[len(id)-1]) % 7)
			if old := docs[id]; old != nil && d.IntN(3) == 0 {
				must(t, c.Delete(t.Context(), StringKey(k), id, nil))
				delete(docs, id)
				return
			}
			n, rows := d.IntN(12), make([]int, d.IntN(6))
			if old := docs[id]; old != nil && d.IntN(2) == 0 {
				n = old.n // it keeps its place
			}
			var list []string
			for i := range rows {
				rows[i] = d.IntN(1000)
				list = append(list, fmt.Sprint(rows[i]))
			}
			m, err := c.Upsert(t.Context(), []byte(fmt.Sprintf(`{"id":%q,"k":%q,"n":"%s%02d","t":[%s]}`, id, k, long, n, strings.Join(list, ","))), nil)
			must(t, err)
			epk := m.Key.EPK()
			docs[id] = &doc{id: id, place: string(epk.Bytes()) + string(m.Key.Encoded()) + id, n: n, rows: rows}
		}
		for range 60 {
			write()
		}
		q, err := ParseQuery("SELECT VALUE {id: c.id, t: t} FROM c JOIN t IN c.t ORDER BY c.n", nil)
		must(t, err)
		// The place of the last result: among the documents, and how many rows of that one were given.
		var at *doc
		given := 0
		after := func(a *doc) int { return cmp.Or(cmp.Compare(a.n, at.n), cmp.Compare(a.place, at.place)) }
		for {
			q.Limit = 1 + d.IntN(9)
			var want []string
			var order []*doc
			for _, e := range docs {
				if at == nil || after(e) >= 0 {
					order = append(order, e)
				}
			}
			slices.SortFunc(order, func(a, b *doc) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.place, b.place)) })
			last, lastGiven := at, given
			for _, e := range order {
				begin := 0
				if at != nil && after(e) == 0 {
					begin = given
				}
				for i := begin; i < len(e.rows) && len(want) < q.Limit; i++ {
					want = append(want, fmt.Sprintf(`{"id":%q,"t":%d}`, e.id, e.rows[i]))
					if last, lastGiven = e, i+1; lastGiven == len(e.rows) {
						lastGiven = math.MaxInt
					}
				}
			}
			r := c.Query(t.Context(), AllPartitions(), q)
			got, err := results(r)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d of seed %d: %q, want %q", round, seed, got, want)
			}
			if q.Continue = r.ShortContinue(); len(q.Continue) > continuation.MaxShort {
				t.Fatalf("a continuation of %d characters", len(q.Continue))
			}
			if q.Continue == "" {
				break
			}
			copied := *last // it may be written between the pages
			at, given = &copied, lastGiven
			for range d.IntN(3) {
				write()
			}
			if long != "" {
				q.Continue = r.Continue() // the place may be gone
			}
			switch d.IntN(8) {
			case 0:
				must(t, db.Flush(t.Context()))
			case 1:
				parts := c.Partitions()
				job, err := c.Split(t.Context(), parts[d.IntN(len(parts))].ID, nil)
				if err == nil {
					err = job.Wait(t.Context())
				}
				if !errors.Is(err, ErrRefused) { // it has one key
					must(t, err)
				}
			}
		}
	}
}

// TestGroupsOfArraysInPages: where many documents have an array or an object at the first path of groups, their order is
// not that of the next path.
func TestGroupsOfArraysInPages(t *testing.T) {
	const n = 600
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	for i := range n {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":1,"list":[%d],"object":{"a":%d},"falls":%d}`, i, 1000+i, 1000+i, n-i), nil)))
	}
	must(t, db.Flush(t.Context()))
	for _, path := range []string{"list", "object"} {
		for _, text := range []string{"SELECT DISTINCT c.%s AS v, c.falls FROM c", "SELECT c.%s AS v, c.falls, COUNT(1) AS n FROM c GROUP BY c.%[1]s, c.falls"} {
			q, err := ParseQuery(fmt.Sprintf(text, path), nil)
			must(t, err)
			whole, paged := canonical(t, inPages(t, c, q, 0)), canonical(t, inPages(t, c, q, 10))
			if len(whole) != n || !slices.Equal(whole, paged) {
				t.Errorf("%s: %d groups, in pages %d", text, len(whole), len(paged))
			}
		}
	}
}

// TestGroupsOfEqualValues: groups and distinct results are the same whether the values come from
// paths or are computed, and whatever index there is.
func TestGroupsOfEqualValues(t *testing.T) {
	for _, index := range []IndexPolicy{{}, IndexAll()} {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3, Index: index})
		for i, v := range []string{`[1]`, `[ 1.0 ]`, `{"b":2,"a":1}`, `{"a":1e0,"b":2}`, `[]`, `1`, `1.0`, `{"\u0061":1,"b":2}`, `[]`} {
			must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":%d,"v":%s}`, i, i%4, v), nil)))
			if i == 4 {
				must(t, db.Flush(t.Context()))
			}
		}
		for page := range 3 {
			for text, want := range map[string]string{
				"SELECT c.v, COUNT(1) AS n FROM c GROUP BY c.v":                          `{"n":2,"v":1} {"n":2,"v":[1]} {"n":2,"v":[]} {"n":3,"v":{"a":1,"b":2}}`,
				"SELECT (c.v ?? null) AS v, COUNT(1) AS n FROM c GROUP BY (c.v ?? null)": `{"n":2,"v":1} {"n":2,"v":[1]} {"n":2,"v":[]} {"n":3,"v":{"a":1,"b":2}}`,
				"SELECT DISTINCT VALUE c.v FROM c":                                       `1 [1] [] {"a":1,"b":2}`,
				"SELECT DISTINCT VALUE (c.v ?? null) FROM c":                             `1 [1] [] {"a":1,"b":2}`,
			} {
				q, err := ParseQuery(text, nil)
				must(t, err)
				got := canonical(t, inPages(t, c, q, page))
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					t.Errorf("%s in pages of %d: %v, want %s", text, page, got, want)
				}
			}
		}
	}
}

// TestAbsentArrayCost: a page of the rows of a JOIN reads no document without the array, if an index has the array, and has the same rows
// without the index.
func TestAbsentArrayCost(t *testing.T) {
	for _, policy := range []IndexPolicy{IndexAll(), {}} {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: policy})
		const documents, some = 400, 5 // that have an array, one of them an empty one
		for i := range documents {
			tags := [...]string{`"x"`, `{"a":[1]}`, "null", "7"}[i%4]
			if i%(documents/some) == 0 {
				tags = [...]string{"[1,2]", "[]"}[i/(documents/some)/(some-1)]
			}
			must(t, second(c.Create(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":%d,"u":%d,"t":%s}`, i, i%7, i*7919%documents, tags), nil)))
			if i == documents/2 {
				must(t, db.Flush(t.Context()))
			}
		}
		for text, want := range map[string]int{
			"SELECT c.id, t FROM c JOIN t IN c.t":                          2 * (some - 1),
			"SELECT c.id, t FROM c JOIN t IN c.t WHERE t = 2":              some - 1,
			"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY c.u DESC":        2 * (some - 1),
			"SELECT c.id, t FROM c JOIN t IN c.t WHERE t < 9 ORDER BY c.u": 2 * (some - 1),
			"SELECT t FROM c JOIN t IN c.t JOIN s IN c.absent":             0,
			"SELECT t FROM c JOIN t IN c.absent ORDER BY c.u":              0,
			"SELECT t FROM c JOIN t IN c.absent WHERE c.u >= 0":            0,
		} {
			q, err := ParseQuery(text, nil)
			must(t, err)
			q.Limit = 100
			r := c.Query(t.Context(), AllPartitions(), q)
			got, err := results(r)
			if err != nil || len(got) != want {
				t.Errorf("%s: %d results, want %d: %v", text, len(got), want, err)
			}
			if n := r.Stats().Documents; policy.Include != nil && n > 2*some {
				t.Errorf("%s: %d documents read for %d results", text, n, len(got))
			}
			if all := inPages(t, c, q, 1); len(all) != want {
				t.Errorf("%s: %d results in pages of one, want %d", text, len(all), want)
			}
		}
	}
}
