package engine

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
)

// BenchmarkQuery queries generated food documents, a million of them if
// CLEAVE_QUERY_DOCS is not set. CLEAVE_QUERY_DIR keeps the store.
func BenchmarkQuery(b *testing.B) {
	docs := int64(1_000_000)
	if n, err := strconv.ParseInt(os.Getenv("CLEAVE_QUERY_DOCS"), 10, 64); err == nil {
		docs = n
	}
	dir := os.Getenv("CLEAVE_QUERY_DIR")
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "store")
	}
	db, c := foodStore(b, dir, docs, 1)
	defer db.Close()
	group := StringKey("Snacks")
	for _, q := range []struct {
		name, text string
		scope      Scope
	}{
		{"count/equal", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, AllPartitions()},
		{"count/and", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND ARRAY_CONTAINS(c.tags, "frozen")`, AllPartitions()},
		{"count/range", `SELECT VALUE COUNT(1) FROM c WHERE c.kcal >= 300 AND c.kcal < 600`, AllPartitions()},
		{"first100/equal", `SELECT TOP 100 * FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, AllPartitions()},
		{"first100/and", `SELECT TOP 100 * FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND ARRAY_CONTAINS(c.tags, "frozen")`, AllPartitions()},
		{"first100/ordered", `SELECT TOP 100 * FROM c WHERE c.kcal >= 300 AND c.kcal < 600 ORDER BY c.kcal`, AllPartitions()},
		{"facets/24", `SELECT c.manufacturer, COUNT(1) AS n FROM c GROUP BY c.manufacturer`, AllPartitions()},
		{"facets/48", `SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind`, AllPartitions()},
		{"facets/48-of-equal", `SELECT c.kind, COUNT(1) AS n FROM c WHERE c.manufacturer = "Rowan Hill Organics" GROUP BY c.kind`, AllPartitions()},
		{"partition/count", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, OnePartition(group)},
		{"partition/10", `SELECT TOP 10 * FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, OnePartition(group)},
		{"sum", `SELECT SUM(c.kcal) AS sum, MIN(c.kcal) AS low, MAX(c.kcal) AS high FROM c`, AllPartitions()},
		{"scan/contains", `SELECT VALUE COUNT(1) FROM c WHERE CONTAINS(c.upc, "00000")`, AllPartitions()},
	} {
		b.Run(q.name, func(b *testing.B) { benchQuery(b, c, q.scope, q.text) })
	}
}

// BenchmarkQueryPartitions asks the same of 100,000 documents in one, 32 and 100
// physical partitions. CLEAVE_QUERY_DIR keeps the stores.
func BenchmarkQueryPartitions(b *testing.B) {
	for _, n := range []int{1, 32, 100} {
		dir := os.Getenv("CLEAVE_QUERY_DIR")
		if dir == "" {
			dir = b.TempDir()
		}
		db, c := foodStore(b, filepath.Join(dir, "partitions-"+strconv.Itoa(n)), 100_000, n)
		for _, q := range []struct {
			name, text string
			scope      Scope
		}{
			{"count", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, AllPartitions()},
			{"first100", `SELECT TOP 100 * FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, AllPartitions()},
			{"read-4000", `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = "Rowan Hill Organics" AND CONTAINS(c.upc, "00")`, AllPartitions()},
			{"in-partition", `SELECT TOP 10 * FROM c WHERE c.manufacturer = "Rowan Hill Organics"`, OnePartition(StringKey("Snacks"))},
		} {
			b.Run(q.name+"/"+strconv.Itoa(n), func(b *testing.B) { benchQuery(b, c, q.scope, q.text) })
		}
		db.Close()
	}
}

func benchQuery(b *testing.B, c *Container, scope Scope, text string) {
	parsed, err := ParseQuery(text, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var stats QueryStats
	for range b.N {
		r := c.Query(context.Background(), scope, parsed)
		for _, err := range r.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
		stats = r.Stats()
	}
	b.ReportMetric(float64(stats.Results), "results")
	b.ReportMetric(float64(stats.Documents), "docs-read")
}

// withKind gives food documents a property of 48 values: the first word of their
// description, up to the comma.
func withKind(docs iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for doc, err := range docs {
			_, text, _ := bytes.Cut(doc, []byte(`"description":"`))
			kind, _, _ := bytes.Cut(text, []byte(`,`))
			buf = append(append(append(append(buf[:0], doc[:len(doc)-1]...), `,"kind":"`...), kind...), `"}`...)
			if !yield(buf, err) {
				return
			}
		}
	}
}

// foodStore opens a store of generated documents with an index on everything,
// 1,000 to a logical partition, and makes it if it is not there.
func foodStore(b *testing.B, dir string, docs int64, partitions int) (*DB, *Container) {
	ctx := context.Background()
	db, err := Open(ctx, dir, &Options{Durability: Buffered})
	if err != nil {
		b.Fatal(err)
	}
	c, err := db.Container("food")
	if err == nil {
		return db, c
	}
	c, err = db.CreateContainer(ctx, "food", ContainerDef{
		PartitionKey: []string{"/foodGroup"}, Index: IndexAll(), MinPartitions: partitions,
	})
	if err != nil {
		b.Fatal(err)
	}
	g, err := workload.NewGenerator(workload.Params{Shape: "food", Seed: 1, LogicalPartitions: int(max(1, docs/1000))})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Load(ctx, withKind(g.All(0, docs)), nil); err != nil {
		b.Fatal(err)
	}
	if err := db.Compact(ctx); err != nil {
		b.Fatal(err)
	}
	return db, c
}
