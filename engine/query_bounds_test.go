package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/vfs"
)

// withOrderMemory bounds the rows of a pass until the test ends.
func withOrderMemory(t *testing.T, bytes int64) {
	withOrderLimits(t, bytes, exec.Limits.KeptRows)
}

// withOrderLimits bounds the rows of a pass, and those that hold documents, until the test ends.
func withOrderLimits(t *testing.T, bytes int64, kept int) {
	old := exec.Limits
	exec.Limits.OrderMemory, exec.Limits.KeptRows = bytes, kept
	t.Cleanup(func() { exec.Limits = old })
}

// TestOrderOfUnlikeSizes: whether a row is among the first of a pass does not
// depend on the size of others. Rows of a logical partition come to the pass in
// the order of their ids.
func TestOrderOfUnlikeSizes(t *testing.T) {
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(997)
	for name, test := range map[string]struct {
		memory int64
		limit  int
		order  []int         // n by id
		pad    func(int) int // by n
		id     func(int) int // length by n
	}{
		"large, then small": {
			memory: 16 << 14, limit: 11, order: []int{6, 0, 8, 7, 2, 1, 5, 3, 4, 9, 10},
			pad: func(n int) int { return map[bool]int{true: 1, false: 1900 << 4}[n == 2 || n == 10] },
		},
		"documents are kept": {
			memory: 128 << 10, limit: 990, order: shuffled,
			pad: func(n int) int { return (1 + n*7919%61) * 16 },
		},
		"keys are kept": {
			memory: 24 << 10, order: shuffled,
			pad: func(n int) int { return 400 },
			id:  func(n int) int { return n * 7919 % 200 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			withOrderMemory(t, test.memory)
			_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexPolicy{}})
			for i, n := range test.order {
				id := fmt.Sprintf("%04d", i)
				if test.id != nil {
					id += strings.Repeat("i", test.id(n))
				}
				if _, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":1,"n":%d,"s":%q}`, id, n, strings.Repeat("s", test.pad(n))), nil); err != nil {
					t.Fatal(err)
				}
			}
			want := len(test.order)
			if test.limit > 0 {
				want = min(want, test.limit)
			}
			for _, fields := range [][]QueryField{nil, {{Path: "/n"}}} {
				r := c.Query(t.Context(), AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/n"}}, Fields: fields, Limit: test.limit})
				list, err := results(r)
				if err != nil {
					t.Fatal(err)
				}
				if len(list) != want {
					t.Errorf("%d results of %d, in %d passes", len(list), want, r.Stats().Passes)
				}
				for i, body := range list {
					if !strings.Contains(body, fmt.Sprintf(`"n":%d`, i)+map[bool]string{true: ",", false: "}"}[fields == nil]) {
						t.Fatalf("result %d of %d is %.60s", i, len(list), body)
					}
				}
			}
		})
	}
}

// TestAnswersOverEveryBound: a query has the same results in one go, in pages,
// and with as little memory as it can have, of rows of unlike sizes, with many values or
// few, in many runs of several partitions. What has no room is an error, never a lack of rows.
func TestAnswersOverEveryBound(t *testing.T) {
	seed := newSeed(t)
	runs, queries := amount(8, 4, 2), amount(100, 30, 6)
	several := IndexAll()
	several.Composite = [][]CompositePath{{{Path: "/s"}, {Path: "/n"}}, {{Path: "/a", Descending: true}, {Path: "/b"}}, {{Path: "/n"}, {Path: "/s", Descending: true}, {Path: "/a"}}}
	old := exec.Limits
	t.Cleanup(func() { exec.Limits = old })
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			d := reference.Draw{Rand: rand.New(rand.NewPCG(seed, uint64(i))), T: t, Edges: true, Few: i/2%2 == 1}
			db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1 + d.IntN(4), Index: []IndexPolicy{IndexAll(), {}, IndexAll(), several}[i%4]})
			docs := boundsDocuments(t, d, db, c)
			for range queries {
				exec.Limits.OrderMemory = 1 << (8 + d.IntN(12))
				exec.Limits.KeptRows = 1 << d.IntN(10)
				exec.Limits.GroupMemory = 1 << (12 + d.IntN(12))
				exec.Limits.FirstStep = 1 << d.IntN(8)
				exec.Limits.Wide, exec.Limits.TermsPerDocument = 1<<d.IntN(8), 1<<d.IntN(12)
				exec.Limits.Inside = 1 << d.IntN(9)
				exec.Limits.Together = 1 << d.IntN(20)
				db.env.MemIndexes.Beyond = []int64{-db.env.Pool.Limit(), 0}[d.IntN(2)]
				boundsQuery(t, d, c, docs)
			}
		})
	}
}

// boundsDocuments puts documents of a few bytes to a few thousand.
func boundsDocuments(t *testing.T, d reference.Draw, db *DB, c *Container) []reference.Document {
	ctx := context.Background()
	byID := make(map[string]reference.Document)
	for range 180 {
		id := fmt.Sprintf("%d", d.IntN(150))
		id += strings.Repeat("i", len(id)*len(id)*d.IntN(2))
		k := []string{`"a"`, `"b"`, `"c"`, `4`, `5`}[len(id)%5]
		pad := 0
		if d.IntN(2) == 0 {
			pad = 1 << d.IntN(12)
		}
		body := fmt.Sprintf(`{"id":%q,"k":%s,"pad":%q,%s`, id, k, strings.Repeat("p", pad), d.Members("a", "b", "n", "s", "t", "l", "o")[1:])
		body = strings.Replace(body, ",}", "}", 1)
		meta, err := c.Upsert(ctx, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		epk := meta.Key.EPK()
		place := string(epk.Bytes()) + string(meta.Key.Encoded()) + id
		byID[place] = reference.Document{Place: place, Root: reference.Parse(t, []byte(body))}
		if d.IntN(20) == 0 {
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	var docs []reference.Document
	for _, doc := range byID {
		docs = append(docs, doc)
	}
	return docs
}

// boundsQuery compares a query, in one go and in pages, with the reference.
func boundsQuery(t *testing.T, d reference.Draw, c *Container, docs []reference.Document) {
	ctx := context.Background()
	s := d.Select()
	want := reference.Rows(t, docs, s)
	q := queryOf(s)
	for _, page := range []int{0, 1, 7, 100, len(want) + 1} {
		q.Limit, q.Continue, q.Offset = page, "", 0
		if page == 7 {
			q.Offset = d.IntN(10)
		}
		var got []any
		for pages := 0; pages == 0 || q.Continue != ""; pages++ {
			r := c.Query(ctx, AllPartitions(), q)
			n := 0
			for it, err := range r.All() {
				if limit := (*LimitError)(nil); errors.As(err, &limit) && s.Grouped() && limit.Limit == exec.Limits.GroupMemory {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, reference.Parse(t, it.Body))
				n++
			}
			if page > 0 && n > page || pages > len(want)+1 {
				t.Fatalf("page %d of %d has %d results", pages, page, n)
			}
			q.Continue = r.Continue()
		}
		rows := want[min(q.Offset, len(want)):]
		if len(got) != len(rows) || len(got) > 0 && !sameRows(got, rows) {
			t.Fatalf("%s order %v columns %v groups %v distinct %v, pages of %d, offset %d, order memory %d: %d results\n%.2000v\nwant %d\n%.2000v",
				s.Where, s.OrderBy, s.Columns, s.GroupBy, s.Distinct, page, q.Offset, exec.Limits.OrderMemory, len(got), texts(got), len(rows), texts(rows))
		}
	}
	if s.Columns == nil {
		n, err := c.Count(ctx, AllPartitions(), Filter{f: s.Where})
		if err != nil || n != int64(len(want)) {
			t.Fatalf("%s: count %d, want %d: %v", s.Where, n, len(want), err)
		}
	}
}

// countResults asks the whole container, and returns the number of results and what they cost.
func countResults(t *testing.T, c *Container, text string) (n int, _ QueryStats) {
	t.Helper()
	q, err := ParseQuery(text, nil)
	must(t, err)
	r := c.Query(t.Context(), AllPartitions(), q)
	list, err := results(r)
	must(t, err)
	return len(list), r.Stats()
}

// TestOrderBeyondMemory: the documents that a whole order reads grow with the rows, where an index has the order, and not with
// the square of their number.
func TestOrderBeyondMemory(t *testing.T) {
	const n = 4_000
	c := cliffStore(t, n, IndexAll())
	withOrderLimits(t, 64<<10, 200)
	for text, most := range map[string]int64{
		`SELECT c.u FROM c ORDER BY c.u`:                        n + n/10,
		`SELECT c.u FROM c ORDER BY c.half, c.u`:                n + n/10,
		`SELECT c.u FROM c WHERE c.u >= 0 ORDER BY c.name DESC`: 3 * n,
	} {
		t.Run(text, func(t *testing.T) {
			if got, s := countResults(t, c, text); got != n || s.Passes < 2 || s.Documents > most {
				t.Errorf("%d results of %d, %d passes, %d documents, want at most %d", got, n, s.Passes, s.Documents, most)
			}
		})
	}
}

// TestOrderNotByIndex: an order by an index that reads all documents for a few rows, since their strings begin alike, gives
// way to a sort, which holds more rows.
func TestOrderNotByIndex(t *testing.T) {
	const n = 1_000
	c := cliffStore(t, n, IndexAll())
	withOrderLimits(t, 64<<10, 10)
	if got, s := countResults(t, c, `SELECT c.u FROM c ORDER BY c.text, c.u`); got != n || s.Passes < 3 || s.Documents > 10*n {
		t.Errorf("%d results of %d, %d passes, %d documents, want at most %d", got, n, s.Passes, s.Documents, 10*n)
	}
}

// TestOrderOfAbsentValues: documents that give no result, since the only column has no value there, are read about once, however few
// results are wanted.
func TestOrderOfAbsentValues(t *testing.T) {
	const n = 1_200
	for name, policy := range map[string]IndexPolicy{"no index": {}, "index": IndexAll()} {
		c := cliffStore(t, n, policy)
		for text, want := range map[string]int{
			`SELECT TOP 1 VALUE c.nickname FROM c ORDER BY c.u`:            0,
			`SELECT TOP 20 VALUE c.nickname FROM c ORDER BY c.nickname`:    0,
			`SELECT VALUE c.nickname FROM c ORDER BY c.u OFFSET 2 LIMIT 1`: 0,
			`SELECT TOP 600 VALUE c.nickname FROM c ORDER BY c.u`:          0,
			`SELECT VALUE c.note FROM c ORDER BY c.u OFFSET 100 LIMIT 300`: 300,
		} {
			t.Run(name+": "+text, func(t *testing.T) {
				if got, s := countResults(t, c, text); got != want || s.Passes > 16 || s.Documents > n+n/4 {
					t.Errorf("%d results, want %d; %d passes, %d documents of %d", got, want, s.Passes, s.Documents, n)
				}
			})
		}
	}
}
