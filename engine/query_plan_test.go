package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/queryplan"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestPlanOfNaN: MIN and MAX pass over NaN. So what a plan sends to a partition gives clients the same where all values are NaN as
// where there is none.
func TestPlanOfNaN(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for _, body := range []string{`{"id":"a","k":"nan","n":-1}`, `{"id":"b","k":"some","n":-1}`, `{"id":"c","k":"some","n":4}`, `{"id":"d","k":"array","n":[]}`} {
		must(t, second(c.Upsert(t.Context(), []byte(body), nil)))
	}
	for text, want := range map[string][]string{
		"SELECT VALUE MIN(SQRT(c.n)) FROM c":                            {`[{"item2":{"count":0}}]`, `[{"item":2,"item2":{"min":2,"count":1}}]`},
		"SELECT MAX(LOG10(c.n * 25)) AS m FROM c":                       {`{"payload":{"m":{"item2":{"count":0}}}}`, `{"payload":{"m":{"item":2,"item2":{"max":2,"count":1}}}}`},
		"SELECT VALUE MIN(IS_ARRAY(c.n) ? c.n : SQRT(c.n)) FROM c":      {`[{"item2":{"count":0}}]`, `[{"item":2,"item2":{"min":2,"count":1}}]`, `[{"item2":{"count":1}}]`},
		"SELECT VALUE MAX(c.n) FROM c WHERE NOT IS_NUMBER(c.n)":         {`[{"item2":{"count":0}}]`, `[{"item2":{"count":0}}]`, `[{"item2":{"count":1}}]`},
		"SELECT VALUE MIN(x) FROM c JOIN (SELECT VALUE SQRT(c.n)) AS x": {`[{"item2":{"count":0}}]`, `[{"item":2,"item2":{"min":2,"count":1}}]`},
	} {
		p, err := queryplan.Of(text, nil)
		must(t, err)
		q, err := ParseQuery(p.Info.RewrittenQuery, nil)
		must(t, err)
		for i, key := range []string{"nan", "some", "array"}[:len(want)] {
			if got, err := results(c.Query(t.Context(), OnePartition(StringKey(key)), q)); err != nil || !slices.Equal(got, want[i:i+1]) {
				t.Errorf("%s is sent as %s\nin %s: %s, want %s: %v", text, p.Info.RewrittenQuery, key, strings.Join(got, " "), want[i], err)
			}
		}
	}
}
