package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestQueriesEnd: the work on the index of one partition looks at the context, and
// what ends it is no damage of the store.
func TestQueriesEnd(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	var damage atomic.Int64
	opts.Events = &EventListener{CorruptionFound: func(error) { damage.Add(1) }}
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	var list []string
	for i := range 2000 {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":1,"u":"%d","t":["%d"]}`, i, i, i), nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("'%d'", i))
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`SELECT c.u, COUNT(1) FROM c GROUP BY c.u`,
		`SELECT SUM(c.u) FROM c`,
		`SELECT COUNT(1) FROM c WHERE c.u IN (` + strings.Join(list, ",") + `) OR c.u = 'x'`,
		`SELECT TOP 1500 c.u FROM c ORDER BY c.u`,
	} {
		q, err := ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := results(c.Query(&randtest.AskedContext{Context: ctx, Left: 100}, AllPartitions(), q)); !errors.Is(err, context.Canceled) {
			t.Errorf("%.60s: %v", text, err)
		}
		if all, err := results(c.Query(ctx, AllPartitions(), q)); err != nil || len(all) == 0 {
			t.Errorf("%.60s: %d results, %v", text, len(all), err)
		}
	}
	if damage.Load() > 0 || db.Stats().ReadErrors > 0 {
		t.Errorf("%d events of damage, %+v", damage.Load(), db.Stats().ReadErrors)
	}
}
