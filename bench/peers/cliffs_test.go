//go:build cgo

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// cliffsOnSQLite is how SQLite is asked for each shape of workload.Cliffs. {a} stands for
// the value of property a, {n} for the number of documents, and {in} for the values of an IN.
// A shape that Cleave reads in pages is read at once by SQLite.
var cliffsOnSQLite = map[string]string{
	"range":          `SELECT body FROM docs WHERE {u} > 10 LIMIT 10`,
	"not-equal":      `SELECT body FROM docs WHERE {u} < 10 OR {u} > 10 LIMIT 10`,
	"is-defined":     `SELECT body FROM docs WHERE {u} IS NOT NULL LIMIT 10`,
	"starts-with":    `SELECT body FROM docs WHERE {name} >= 'name' AND {name} < 'namf' LIMIT 10`,
	"contains":       `SELECT body FROM docs WHERE instr({name}, 'name') > 0 LIMIT 1`,
	"in-first":       `SELECT body FROM docs WHERE {u} IN ({in}) LIMIT 1`,
	"in-count":       `SELECT count(*) FROM docs WHERE {u} IN ({in})`,
	"order":          `SELECT body FROM docs ORDER BY {u} LIMIT 10`,
	"order-falling":  `SELECT body FROM docs ORDER BY {name} DESC LIMIT 10`,
	"order-of-any":   `SELECT body FROM docs WHERE instr({name}, 'name') > 0 ORDER BY {u} LIMIT 10`,
	"order-of-tenth": `SELECT body FROM docs WHERE instr({name}, '7 of') > 0 ORDER BY {u} LIMIT 10`,
	"order-of-range": `SELECT body FROM docs WHERE {u} > 10 ORDER BY {name} LIMIT 10`,
	"extremes":       `SELECT (SELECT min({u}) FROM docs), (SELECT max({name}) FROM docs)`,
	"group":          `SELECT {g}, count(*) FROM docs GROUP BY {g} LIMIT 10`,
	"group-of-sums":  `SELECT {g}, sum({u}) FROM docs GROUP BY {g} LIMIT 10`,
	"group-of-two":   `SELECT {g}, {state}, count(*) FROM docs GROUP BY {g}, {state} LIMIT 10`,
	"distinct":       `SELECT DISTINCT {u} FROM docs LIMIT 10`,
	"value-absent":   `SELECT {absent} FROM docs WHERE {absent} IS NOT NULL LIMIT 10`,
	"value-order":    `SELECT {note} FROM docs WHERE {note} IS NOT NULL ORDER BY {note} LIMIT 10`,
	"offset":         `SELECT body FROM docs ORDER BY {u} LIMIT 10 OFFSET {n}`,

	"range-pages":             `SELECT body FROM docs WHERE {u} > 10`,
	"tenth-pages":             `SELECT body FROM docs WHERE {u} < {n}/10`,
	"contains-pages":          `SELECT body FROM docs WHERE instr({name}, '7 of') > 0`,
	"absent-pages":            `SELECT body FROM docs WHERE {note} IS NULL`,
	"order-pages":             `SELECT body FROM docs ORDER BY {u}`,
	"order-alike-pages":       `SELECT body FROM docs WHERE {u} < {n}/10 ORDER BY {url}`,
	"order-contains-pages":    `SELECT body FROM docs WHERE instr({name}, '7 of') > 0 ORDER BY {u}`,
	"order-two-pages":         `SELECT body FROM docs ORDER BY {half}, {u}`,
	"order-two-falling-pages": `SELECT body FROM docs ORDER BY {half}, {u} DESC`,
	"order-three-pages":       `SELECT body FROM docs ORDER BY {country}, {state}, {u}`,
	"order-absent-pages":      `SELECT body FROM docs ORDER BY {note}, {u}`,
	"group-of-two-pages":      `SELECT {half}, {g}, count(*) FROM docs GROUP BY {half}, {g}`,
	"distinct-few-pages":      `SELECT DISTINCT {half}, {tenth} FROM docs`,
	"group-pages":             `SELECT {g}, count(*) FROM docs GROUP BY {g}`,
	"distinct-pages":          `SELECT DISTINCT {u} FROM docs`,
	"distinct-note-pages":     `SELECT DISTINCT {note} FROM docs`,
}

// cliffIndexes are the indexes of SQLite: for each shape the one that suits it.
var cliffIndexes = []string{
	"{u}", "{name}", "{url}", "{absent}", "{note}, {u}", "{half}, {u}", "{half}, {u} DESC", "{country}, {state}, {u}", "{g}, {u}", "{g}, {state}", "{half}, {g}", "{half}, {tenth}",
}

// cliffTime is the time spent on repeating one query.
var cliffTime = 5 * time.Millisecond

// TestCliffs asks both stores for the shapes of workload.Cliffs, compares the numbers of
// results, and logs how long each takes: CLEAVE_CLIFF_DOCS documents, 2,000 if that is
// not set. An order of several paths is asked for a second time in a container that has the composite index.
// CLEAVE_CLIFF_DIR keeps the stores for the next time. Each time is the least of
// several.
func TestCliffs(t *testing.T) {
	n := 2000
	if docs, err := strconv.Atoi(os.Getenv("CLEAVE_CLIFF_DOCS")); err == nil {
		n, cliffTime = docs, 500*time.Millisecond
	}
	dir := os.Getenv("CLEAVE_CLIFF_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	shapes := workload.Cliffs(n)
	policy := engine.IndexPolicy{Include: []string{"/*"}, Exclude: []string{"/text/?"}}
	ours, theirs := cliffsInCleave(t, filepath.Join(dir, "cleave"), n, policy), cliffsInSQLite(t, dir, n)
	var composite []workload.Cliff
	for _, shape := range shapes {
		if shape.Composite == "" {
			continue
		}
		paths, err := index.ParseComposite(shape.Composite)
		if err != nil {
			t.Fatal(err)
		}
		policy.Composite = append(policy.Composite, paths)
		composite = append(composite, shape)
	}
	composed := cliffsInCleave(t, filepath.Join(dir, "composite"), n, policy)
	_, scan := askCleave(t, ours, `SELECT * FROM c WHERE c.text = 'none'`)
	table := cli.NewTable("<shape", "results", "Cleave ms", "SQLite ms", "ratio", "of a scan", "pages", "in pages ms", "pages/whole", "pages/SQLite")
	ask := func(name string, ours *engine.Container, shape workload.Cliff) {
		t.Run(name, func(t *testing.T) {
			text, ok := cliffsOnSQLite[shape.Name]
			if !ok {
				t.Fatal("SQLite is not asked for it")
			}
			if _, in, ok := strings.Cut(shape.Text, " IN ("); ok {
				text = strings.ReplaceAll(text, "{in}", strings.TrimSuffix(in, ")"))
			}
			text = onSQLite(strings.ReplaceAll(text, "{n}", strconv.Itoa(n)))
			results, our := askCleave(t, ours, shape.Text)
			others, their := askSQLite(t, theirs, text)
			if results != others && shape.Name != "distinct-note-pages" { // SQLite has NULL as a value
				t.Errorf("%d results, SQLite has %d", results, others)
			}
			row := []string{name, humanize.Count(int64(results)), ms(our), ms(their), humanize.Number(float64(our) / float64(their)),
				fmt.Sprintf("%.3g %%", 100*float64(our)/float64(scan)), "", "", "", ""}
			if shape.Page > 0 {
				got, pages, paged := inPages(t, ours, shape.Text, shape.Page)
				if got != results {
					t.Errorf("%d results in pages, %d at once", got, results)
				}
				row = append(row[:6], humanize.Count(int64(pages)), ms(paged), humanize.Number(float64(paged)/float64(our)), humanize.Number(float64(paged)/float64(their)))
			}
			table.Row(row...)
		})
	}
	for _, shape := range shapes {
		ask(shape.Name, ours, shape)
	}
	for _, shape := range composite {
		ask(shape.Name+"-composite", composed, shape)
	}
	var b strings.Builder
	table.Print(&b, "")
	t.Logf("%d documents; a scan takes %s ms\n%s", n, ms(scan), &b)
}

func ms(d time.Duration) string { return humanize.Number(d.Seconds() * 1000) }

// onSQLite writes {a} as SQLite reads a property.
func onSQLite(text string) string {
	return strings.NewReplacer("{", "json_extract(body, '$.", "}", "')").Replace(text)
}

// repeat returns the result of ask, and the least time that it took.
func repeat(ask func() int) (results int, least time.Duration) {
	for begun := time.Now(); least == 0 || time.Since(begun) < cliffTime; {
		start := time.Now()
		results = ask()
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
	}
	return results, least
}

func askCleave(t *testing.T, c *engine.Container, text string) (int, time.Duration) {
	q, err := engine.ParseQuery(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return repeat(func() int {
		n, _ := onePage(t, c, q)
		return n
	})
}

func onePage(t *testing.T, c *engine.Container, q engine.Query) (n int, next string) {
	r := c.Query(context.Background(), engine.AllPartitions(), q)
	for _, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n, r.Continue()
}

func inPages(t *testing.T, c *engine.Container, text string, page int) (results, pages int, least time.Duration) {
	q, err := engine.ParseQuery(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Limit = page
	results, least = repeat(func() (all int) {
		for pages, q.Continue = 0, ""; pages == 0 || q.Continue != ""; pages++ {
			var n int
			n, q.Continue = onePage(t, c, q)
			all += n
		}
		return all
	})
	return results, pages, least
}

func askSQLite(t *testing.T, s *sqliteDB, text string) (int, time.Duration) {
	stmt, err := s.reads.Prepare(text)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	return repeat(func() (n int) {
		rows, err := stmt.Query()
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new([]byte)
		}
		counts := strings.Contains(text, "SELECT count(*)")
		for rows.Next() {
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			if n++; counts {
				n = 1
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	})
}

func cliffsInCleave(t *testing.T, dir string, n int, policy engine.IndexPolicy) *engine.Container {
	ctx := t.Context()
	db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if c, err := db.Container("cliffs"); err == nil {
		return c
	}
	c, err := db.CreateContainer(ctx, "cliffs", engine.ContainerDef{PartitionKey: []string{"/k"}, Index: policy})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := c.Upsert(ctx, workload.CliffDocument(nil, i, n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func cliffsInSQLite(t *testing.T, dir string, n int) *sqliteDB {
	ctx := t.Context()
	opened, err := openSQLite(ctx, dir, mode{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	s := opened.(*sqliteDB)
	var indexes int
	if err := s.reads.QueryRow(`SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name LIKE 'cliff%'`).Scan(&indexes); err != nil {
		t.Fatal(err)
	}
	if indexes == len(cliffIndexes) {
		return s
	}
	if err := opened.Load(ctx, func(yield func(document) bool) {
		var body []byte
		for i := range n {
			body = workload.CliffDocument(body[:0], i, n)
			if !yield(document{partmap.String("k" + strconv.Itoa(i%97)), fmt.Sprintf("%06d", i), body}) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i, columns := range cliffIndexes {
		if _, err := s.writes.Exec(onSQLite(fmt.Sprintf(`CREATE INDEX IF NOT EXISTS cliff%d ON docs (%s)`, i, columns))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.writes.Exec(`ANALYZE`); err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}
