package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// defaultCliffDocs is the number of documents for the workload query-cliffs.
const defaultCliffDocs = 100_000

// cliffRepeats is how often a query is asked; the least time counts.
const cliffRepeats = 5

// cliffScan reads and tests every document: no index helps.
const cliffScan = `SELECT * FROM c WHERE c.text = 'none'`

// cliffReport is what the workload query-cliffs prints as JSON.
type cliffReport struct {
	V         int             `json:"v"`
	Workload  string          `json:"workload"`
	Documents int             `json:"documents"`
	Scan      float64         `json:"scan_ms"` // of all documents, by a query that no index helps
	Shapes    []cliffRow      `json:"shapes"`
	Machine   measure.Machine `json:"machine"`
}

type cliffRow struct {
	Name    string  `json:"name"`
	Results int     `json:"results"`
	Read    int64   `json:"documents_read"`
	Terms   int64   `json:"terms"`
	First   float64 `json:"first_ms"` // the first time
	Time    float64 `json:"time_ms"`  // the least of the times that follow
	Scan    float64 `json:"scan_share"`
	Pages   int     `json:"pages,omitempty"`
	Paged   float64 `json:"paged_ms,omitempty"`
	Ratio   float64 `json:"paged_per_whole,omitempty"`
}

// runCliffs measures the shapes of workload.Cliffs on a store of its own.
func (r *runCommand) runCliffs(ctx context.Context, env *harness.Environment) error {
	n := defaultCliffDocs
	if r.Docs > 0 {
		n = r.Docs.Int()
	}
	if n < 1000 {
		return harness.Usagef("--docs %d: %s wants at least 1,000", n, workload.QueryCliffs)
	}
	if err := r.JSON.Open(); err != nil {
		return err
	}
	defer r.JSON.Discard()
	return harness.InTemporary(func(dir string) error {
		rep := cliffReport{V: 1, Workload: workload.QueryCliffs, Documents: n, Machine: measure.DescribeMachine(dir)}
		db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered})
		if err != nil {
			return err
		}
		defer db.Close()
		c, err := loadCliffs(ctx, db, n, max(1, r.Partitions.Int()))
		if err != nil {
			return err
		}
		scan, err := askCliff(ctx, c, cliffScan, 0)
		if err != nil {
			return err
		}
		rep.Scan = scan.Time
		for _, shape := range workload.Cliffs(n) {
			row, err := askCliff(ctx, c, shape.Text, shape.Page)
			if err != nil {
				return fmt.Errorf("%s: %w", shape.Name, err)
			}
			row.Name, row.Scan = shape.Name, harness.Round(row.Time/rep.Scan, 5)
			rep.Shapes = append(rep.Shapes, row)
		}
		if !r.JSON.ReplacesText() {
			env.PrintMachine(env.Stdout, rep.Machine)
			rep.print(env.Stdout)
		}
		return r.JSON.Write(env, &rep)
	})
}

// loadCliffs makes the container, and waits until its files are settled.
func loadCliffs(ctx context.Context, db *engine.DB, n, partitions int) (*engine.Container, error) {
	c, err := db.CreateContainer(ctx, "cliffs", engine.ContainerDef{
		PartitionKey: []string{"/k"}, MinPartitions: partitions,
		Index: engine.IndexPolicy{Include: []string{"/*"}, Exclude: []string{"/text/?"}},
	})
	if err != nil {
		return nil, err
	}
	for i := range n {
		if _, err := c.Upsert(ctx, workload.CliffDocument(nil, i, n), nil); err != nil {
			return nil, err
		}
	}
	return c, db.Compact(ctx)
}

// askCliff asks a query several times and, if page is not 0, once in pages.
func askCliff(ctx context.Context, c *engine.Container, text string, page int) (row cliffRow, err error) {
	q, err := engine.ParseQuery(text, nil)
	if err != nil {
		return row, err
	}
	ask := func() (*engine.QueryResult, int, float64, error) {
		start := time.Now()
		r := c.Query(ctx, engine.AllPartitions(), q)
		results := 0
		for _, err := range r.All() {
			if err != nil {
				return nil, 0, 0, err
			}
			results++
		}
		return r, results, time.Since(start).Seconds() * 1000, nil
	}
	for i := range cliffRepeats {
		r, results, took, err := ask()
		if err != nil {
			return row, err
		}
		stats := r.Stats()
		switch {
		case i == 0:
			row.First, row.Time = harness.Round(took, 3), took
		case i == 1 || took < row.Time:
			row.Time = took
		}
		row.Results, row.Read, row.Terms = results, stats.Documents, stats.Terms
	}
	if page > 0 {
		paged := 0.0
		for q.Limit = page; ; {
			r, _, took, err := ask()
			if err != nil {
				return row, err
			}
			paged += took
			row.Pages++
			if q.Continue = r.Continue(); q.Continue == "" {
				break
			}
		}
		row.Paged, row.Ratio = harness.Round(paged, 3), harness.Round(paged/row.Time, 2)
	}
	row.Time = harness.Round(row.Time, 3)
	return row, nil
}

// print writes the report as a table.
func (r *cliffReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s, each indexed in full but for one text; a scan takes %s ms\n\n", harness.Plural(r.Documents, "document"), humanize.Number(r.Scan))
	t := cli.NewTable("<shape", "results", "first ms", "then ms", "of a scan", "documents", "terms", "pages", "paged ms", "paged/whole")
	for _, s := range r.Shapes {
		pages, paged, ratio := "", "", ""
		if s.Pages > 0 {
			pages, paged, ratio = humanize.Count(int64(s.Pages)), humanize.Number(s.Paged), humanize.Number(s.Ratio)
		}
		t.Row(s.Name, humanize.Count(int64(s.Results)), humanize.Number(s.First), humanize.Number(s.Time), fmt.Sprintf("%.3g %%", 100*s.Scan),
			humanize.Count(s.Read), humanize.Count(s.Terms), pages, paged, ratio)
	}
	t.Print(w, "")
}
