package main

import (
	"flag"
	"testing"

	"github.com/cleavestore/cleave/internal/jsonfields"
)

var rewrite = flag.Bool("rewrite", false, "accept the JSON fields as they are")

// TestJSONFields: docs/json.md lists the fields of all that is printed as JSON.
func TestJSONFields(t *testing.T) {
	text := jsonfields.Text([]jsonfields.Object{
		{Name: "run", Value: report{}},
		{Name: "run: a line of series.ndjson", Value: second{}},
		{Name: "run: a line of events.ndjson", Value: event{}},
		{Name: "load", Value: loadReport{}},
		{Name: "reopen", Value: reopenReport{}},
		{Name: "copy", Value: copyReport{}},
		{Name: "sweep", Value: sweepReport{}},
		{Name: "compare", Value: comparison{}},
		{Name: "run --workload query-cliffs", Value: cliffReport{}},
		{Name: "run --workload stalls", Value: stallReport{}},
		{Name: "list", Value: listReport{}},
	})
	if err := jsonfields.Compare("../../docs/json.md", "pbench", text, *rewrite); err != nil {
		t.Error(err)
	}
}
