//go:build cgo

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// BenchmarkQueries asks the same of Cleave, with an index on all paths, and of
// SQLite, with indexes on the expressions that are asked for and on the two pairs
// of them that are asked for together: CLEAVE_QUERY_DOCS documents, 200,000 if that
// is not set. CLEAVE_QUERY_DIR keeps the stores for the next time.
func BenchmarkQueries(b *testing.B) {
	docs := int64(200_000)
	if n, err := strconv.ParseInt(os.Getenv("CLEAVE_QUERY_DOCS"), 10, 64); err == nil {
		docs = n
	}
	g, err := workload.NewGenerator(workload.Params{Shape: "food", Seed: 1, LogicalPartitions: int(max(1, docs/1000))})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	dir := os.Getenv("CLEAVE_QUERY_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	db, err := engine.Open(ctx, filepath.Join(dir, "cleave"), &engine.Options{Durability: engine.Buffered})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	all := engine.IndexAll()
	ours := loadCleave(b, ctx, db, "food", all, g, docs)
	all.Composite = [][]engine.CompositePath{{{Path: "/manufacturer"}, {Path: "/kcal"}}}
	pairs := loadCleave(b, ctx, db, "pairs", all, g, docs)
	theirs := loadSQLite(b, ctx, dir, g, docs)
	for _, q := range []struct{ name, cleave, sqlite string }{ // a name that ends in -pair asks the container with a composite index
		{"count-equal", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics"`,
			`SELECT count(*) FROM docs WHERE json_extract(body, '$.manufacturer') = 'Rowan Hill Organics'`},
		{"count-range", `SELECT VALUE COUNT(1) FROM c WHERE c.kcal >= 300 AND c.kcal < 600`,
			`SELECT count(*) FROM docs WHERE json_extract(body, '$.kcal') >= 300 AND json_extract(body, '$.kcal') < 600`},
		{"count-and", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND c.kcal = 300`,
			`SELECT count(*) FROM docs WHERE json_extract(body, '$.manufacturer') = 'Rowan Hill Organics' AND json_extract(body, '$.kcal') = 300`},
		{"count-and-pair", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND c.kcal = 300`,
			`SELECT count(*) FROM docs WHERE json_extract(body, '$.manufacturer') = 'Rowan Hill Organics' AND json_extract(body, '$.kcal') = 300`},
		{"count-and-one-index", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND c.kcal = 300`,
			`SELECT count(*) FROM docs INDEXED BY kcal WHERE json_extract(body, '$.manufacturer') = 'Rowan Hill Organics' AND json_extract(body, '$.kcal') = 300`},
		{"count-and-key", `SELECT VALUE COUNT(1) FROM c WHERE c.foodGroup = "Snacks" AND c.manufacturer = "Rowan Hill Organics"`,
			`SELECT count(*) FROM docs WHERE json_extract(body, '$.foodGroup') = 'Snacks' AND json_extract(body, '$.manufacturer') = 'Rowan Hill Organics'`},
		{"first100", `SELECT TOP 100 * FROM c WHERE c.manufacturer = "Rowan Hill Organics"`,
			`SELECT body FROM docs WHERE json_extract(body, '$.manufacturer') = 'Rowan Hill Organics' LIMIT 100`},
		{"first100-ordered", `SELECT TOP 100 * FROM c WHERE c.kcal >= 300 AND c.kcal < 600 ORDER BY c.kcal`,
			`SELECT body FROM docs WHERE json_extract(body, '$.kcal') >= 300 AND json_extract(body, '$.kcal') < 600 ORDER BY json_extract(body, '$.kcal') LIMIT 100`},
	} {
		parsed, err := engine.ParseQuery(q.cleave, nil)
		if err != nil {
			b.Fatal(err)
		}
		asked := ours
		if strings.HasSuffix(q.name, "-pair") {
			asked = pairs
		}
		var want string
		b.Run(q.name+"/cleave", func(b *testing.B) {
			for range b.N {
				n := 0
				for it, err := range asked.Query(ctx, engine.AllPartitions(), parsed).All() {
					if err != nil {
						b.Fatal(err)
					}
					n++
					want = string(it.Body)
				}
				if n > 1 {
					want = strconv.Itoa(n)
				}
			}
		})
		stmt, err := theirs.reads.PrepareContext(ctx, q.sqlite)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(q.name+"/sqlite", func(b *testing.B) {
			for range b.N {
				rows, err := stmt.QueryContext(ctx)
				if err != nil {
					b.Fatal(err)
				}
				n, got := 0, ""
				for rows.Next() {
					var body []byte
					if err := rows.Scan(&body); err != nil {
						b.Fatal(err)
					}
					n++
					got = string(body)
				}
				if err := rows.Close(); err != nil {
					b.Fatal(err)
				}
				if n > 1 {
					got = strconv.Itoa(n)
				}
				if want != "" && got != want {
					b.Fatalf("%s, Cleave says %s", got, want)
				}
			}
		})
		stmt.Close()
	}
}

func loadCleave(b *testing.B, ctx context.Context, db *engine.DB, name string, index engine.IndexPolicy, g *workload.Generator, docs int64) *engine.Container {
	if c, err := db.Container(name); err == nil {
		return c
	}
	c, err := db.CreateContainer(ctx, name, engine.ContainerDef{PartitionKey: []string{g.KeyPath()}, Index: index})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Load(ctx, g.All(0, docs), nil); err != nil {
		b.Fatal(err)
	}
	if err := db.Compact(ctx); err != nil {
		b.Fatal(err)
	}
	return c
}

func loadSQLite(b *testing.B, ctx context.Context, dir string, g *workload.Generator, docs int64) *sqliteDB {
	opened, err := openSQLite(ctx, dir, mode{Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { opened.Close() })
	s := opened.(*sqliteDB)
	var indexes int
	if err := s.reads.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = 'pair'`).Scan(&indexes); err != nil {
		b.Fatal(err)
	}
	if indexes > 0 {
		return s
	}
	if err := opened.Load(ctx, func(yield func(document) bool) {
		var body []byte
		for i := range docs {
			body = g.Append(body[:0], i, 0)
			key := partmap.String(string(g.AppendKey(nil, g.Partition(i))))
			if !yield(document{key, string(g.AppendID(nil, i)), body}) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{
		`CREATE INDEX maker ON docs (json_extract(body, '$.manufacturer'))`,
		`CREATE INDEX kcal ON docs (json_extract(body, '$.kcal'))`,
		`CREATE INDEX both ON docs (json_extract(body, '$.manufacturer'), json_extract(body, '$.kcal'))`,
		`CREATE INDEX pair ON docs (json_extract(body, '$.foodGroup'), json_extract(body, '$.manufacturer'))`,
		`ANALYZE`,
	} {
		if _, err := s.writes.ExecContext(ctx, text); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := opened.Settle(ctx); err != nil {
		b.Fatal(err)
	}
	return s
}
