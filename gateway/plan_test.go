package gateway

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/queryplan"
)

// TestPlanDuringSplit: a plan that is made while a partition splits is about all keys, and not
// about the partitions alone that were there before and after.
func TestPlanDuringSplit(t *testing.T) {
	for _, between := range []bool{false, true} {
		t.Run(fmt.Sprint(between), func(t *testing.T) {
			s := start(t, nil)
			docs := s.items("x-ms-offer-throughput", "20000") // four physical partitions
			for i := range 40 {
				s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"k%d"}`, i, i), pk, fmt.Sprintf(`["k%d"]`, i))
			}
			c, err := s.db.Container("d.c")
			if err != nil {
				t.Fatal(err)
			}
			split := 0
			s.h.planning = func() {
				if !between {
					return
				}
				// One of the two: the other is in what Explain says, and in what was known before.
				job, failed := c.Split(t.Context(), c.Partitions()[0].ID, nil)
				if failed == nil {
					failed = job.Wait(t.Context())
				}
				if failed != nil {
					t.Error(failed)
				}
				split++
			}
			r := s.do(200, "POST", docs, `{"query":"SELECT * FROM c"}`,
				"Content-Type", "application/query+json", "x-ms-cosmos-is-query-plan-request", "True",
				"x-ms-documentdb-isquery", "true", "x-ms-cosmos-supported-query-features", "OrderBy", "x-ms-documentdb-query-enablecrosspartition", "true")
			var p queryplan.Plan
			if err = json.Unmarshal(r.body, &p); err != nil || len(p.Ranges) == 0 {
				t.Fatalf("%s: %v", r.body, err)
			}
			if between != (split > 0) {
				t.Fatalf("%d splits while the plan was made", split)
			}
			if len(p.Ranges) != 1 || p.Ranges[0].Min != "" || p.Ranges[0].Max != "FF" {
				t.Errorf("ranges %+v, want the whole key space", p.Ranges)
			}
		})
	}
}
