package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/workload"
)

// cityQuestions are the questions of the README.
var cityQuestions = []string{
	`SELECT TOP 5 c.name, c.population FROM c WHERE c.timezone = "Europe/Lisbon" ORDER BY c.population DESC`,
	`SELECT c.country_code, COUNT(1) AS cities FROM c WHERE IS_NULL(c.population) GROUP BY c.country_code`,
	`SELECT c.name FROM c WHERE c.country_code = "PT" AND STARTSWITH(c.name, "Vila Nova")`,
	`SELECT VALUE COUNT(1) FROM c WHERE c.population >= 1000000`,
	`SELECT DISTINCT VALUE c.type FROM c WHERE c.country_code = "PT"`,
	`SELECT TOP 3 c.name, c.translations.ja AS ja FROM c WHERE c.country_code IN ("JP") AND c.population > 2000000 ORDER BY c.population DESC`,
	`SELECT VALUE COUNT(1) FROM c WHERE NOT IS_NULL(c.level) AND CONTAINS(c.name, "an")`,
}

// TestCities asks the questions of the README of an indexed container, and
// compares the answers with a plain scan. The data set is a sample, unless
// CLEAVE_DATA is where there is another one.
func TestCities(t *testing.T) {
	data := os.Getenv("CLEAVE_DATA")
	if data == "" {
		data = filepath.Join("..", "testdata", "real")
	}
	file := filepath.Join(data, "world-cities.ndjson.zst")
	lines, err := workload.OpenLines(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	ctx := context.Background()
	db, err := Open(ctx, t.TempDir(), &Options{Durability: Buffered})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "cities", ContainerDef{PartitionKey: []string{"/country_code"}, MinPartitions: 4, Index: IndexAll()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(ctx, lines.All(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var docs []reference.Document
	for it, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		epk := it.Key.EPK()
		docs = append(docs, reference.Document{Place: string(epk.Bytes()) + string(it.Key.Encoded()) + it.ID, Root: reference.Parse(t, it.Body)})
	}
	for _, text := range cityQuestions {
		st, err := sql.Parse(text, nil, sql.Options{})
		if err != nil || !st.Whole() {
			t.Fatalf("%s: %v", text, err)
		}
		want := reference.Rows(t, docs, st.Select)
		if st.Limit > 0 {
			want = want[:min(st.Limit, len(want))]
		}
		if len(want) == 0 || want[0] == 0.0 {
			t.Errorf("%s: nothing is found, which proves little", text)
		}
		q, err := ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Query(ctx, AllPartitions(), q)
		var got []any
		for it, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, reference.Parse(t, it.Body))
		}
		if !reflect.DeepEqual(got, want) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			t.Errorf("%s\ngot  %.500s\nwant %.500s", text, a, b)
		}
		t.Logf("%s: %d results, %v", text, len(got), r.Stats())
	}
}
