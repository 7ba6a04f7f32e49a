package main

import (
	"encoding/json"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/workload"
)

// TestRunQueryCliffs: every shape is measured, and its pages have all of its results.
func TestRunQueryCliffs(t *testing.T) {
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "1000", "--workload", "query-cliffs", "--json", "-")
	var rep cliffReport
	if err := json.Unmarshal(s.out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	shapes := workload.Cliffs(1000)
	if rep.Documents != 1000 || len(rep.Shapes) != len(shapes) || rep.Scan <= 0 {
		t.Fatalf("%+v", rep)
	}
	for i, row := range rep.Shapes {
		if row.Name != shapes[i].Name || row.Results == 0 != (row.Name == "offset") {
			t.Errorf("%+v", row)
		}
		if pages := shapes[i].Page; pages > 0 && (row.Pages < row.Results/pages || row.Pages > row.Results/pages+1) {
			t.Errorf("%s: %d results in %d pages", row.Name, row.Results, row.Pages)
		}
	}
	s.do(t, cli.ExitOK, "run", "--docs", "1000", "--workload", "query-cliffs")
	wants(t, s.out.String(), "order-contains-pages", "paged/whole")
	for _, wrong := range [][]string{{"--docs", "10"}, {"--generator", "food"}, {"--mix", "read=1"}} {
		s.do(t, cli.ExitUsage, append([]string{"run", "--workload", "query-cliffs"}, wrong...)...)
		wants(t, s.errOut.String(), "query-cliffs")
	}
}
