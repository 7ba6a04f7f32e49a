package engine

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRoutingByKeys: a filter that leaves some partition keys is asked of the
// physical partitions that hold these, and pays for no others.
func TestRoutingByKeys(t *testing.T) {
	for name, policy := range map[string]IndexPolicy{"scan": {}, "index": IndexAll()} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k", "/u"}, MinPartitions: 9, Index: policy})
			for i := range 360 {
				if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":%d,"u":"u%d","n":%d}`, i, i%36, i/36, i), nil); err != nil {
					t.Fatal(err)
				}
			}
			place := func(keys ...PartitionKey) PartitionID {
				rt, epk := c.routing.Load(), JoinKeys(keys...).EPK()
				return rt.parts[rt.table.Find(&epk)].ID
			}
			k := func(n int) PartitionKey { return NumberKey(float64(n)) }
			for _, test := range []struct {
				where   string
				scope   Scope
				of      []PartitionID
				results int
			}{
				{`c.k = 1 OR c.k = 2`, AllPartitions(), []PartitionID{place(k(1), StringKey("u0")), place(k(2), StringKey("u0"))}, 20},
				{`c.k IN (1, 2)`, AllPartitions(), []PartitionID{place(k(1), StringKey("u0")), place(k(2), StringKey("u0"))}, 20},
				{`c.k IN (1, 2) AND c.u IN ('u3', 'u4')`, AllPartitions(), []PartitionID{place(k(1), StringKey("u3")), place(k(1), StringKey("u4")), place(k(2), StringKey("u3")), place(k(2), StringKey("u4"))}, 4},
				{`(c.k = 1 AND c.u = 'u1' OR c.k = 2 AND c.u = 'u1') AND c.n > 37`, AllPartitions(), []PartitionID{place(k(1), StringKey("u1")), place(k(2), StringKey("u1"))}, 1},
				{`c.u IN ('u3', 'u4')`, PrefixOf(k(5)), []PartitionID{place(k(5), StringKey("u3")), place(k(5), StringKey("u4"))}, 2},
				{`c.k IN (1, 2) OR c.n = 7`, AllPartitions(), nil, 21},
				{`c.k IN (1, 2) OR NOT (c.k = 3)`, AllPartitions(), nil, 350},
			} {
				of := slices.Clone(test.of)
				slices.Sort(of)
				of = slices.Compact(of)
				asked := len(of)
				if test.of == nil {
					asked = 9
				}
				q, err := ParseQuery(`SELECT * FROM c WHERE `+test.where, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, most := range []int{100, 0} {
					old := exec.Limits.KeyUnits
					exec.Limits.KeyUnits = most
					r := c.Query(ctx, test.scope, q)
					list, err := results(r)
					plan, err2 := c.Explain(ctx, test.scope, q)
					n, err3 := c.Count(ctx, test.scope, q.Where)
					exec.Limits.KeyUnits = old
					if err != nil || err2 != nil || err3 != nil {
						t.Fatal(err, err2, err3)
					}
					st := r.Stats()
					var planned []PartitionID
					for _, p := range plan.Partitions {
						planned = append(planned, p.ID)
					}
					slices.Sort(planned)
					if test.of != nil && !slices.Equal(planned, of) || len(planned) != asked || st.Partitions != asked {
						t.Errorf("%s, %d keys: asks %d partitions, plans %v, want %v", test.where, most, st.Partitions, planned, of)
					}
					if want := cost.Visit*float64(asked) + float64(st.Documents); st.Charge < want-0.01 || st.Charge > want+0.01 {
						t.Errorf("%s, %d keys: %d partitions and %d documents take %.2f RU, want %.2f", test.where, most, asked, st.Documents, st.Charge, want)
					}
					if len(test.of) > 1 && !strings.Contains(plan.Scope, fmt.Sprintf("keys of %s: ", test.scope)) {
						t.Errorf("%s: scope %q", test.where, plan.Scope)
					}
					if test.results > 0 && len(list) != test.results || int(n) != len(list) {
						t.Errorf("%s, %d keys: %d results, count %d, want %d", test.where, most, len(list), n, test.results)
					}
				}
			}
		})
	}
}

// TestKeysWhileMerged: a query and a count of several keys see each document once where a merge
// joins the partitions between the moments at which they begin to be read.
func TestKeysWhileMerged(t *testing.T) {
	old := exec.Limits.KeyUnits
	exec.Limits.KeyUnits = 0
	t.Cleanup(func() { exec.Limits.KeyUnits = old })
	ctx := t.Context()
	for _, text := range []string{"SELECT VALUE c.k FROM c WHERE c.k IN (0,1,2,3,4,5,6,7,8,9)", "SELECT VALUE COUNT(1) FROM c WHERE c.k IN (0,1,2,3,4,5,6,7,8,9)"} {
		opts := testOptions(vfs.NewMem())
		var merge func()
		begun := 0
		opts.clock = func() time.Time {
			pc, _, _, ok := runtime.Caller(1)
			if ok && merge != nil && strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".(*partition).Pin") {
				if begun++; begun == 2 {
					merge()
				}
			}
			return time.Now()
		}
		_, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll()})
		for i := range 10 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"x","k":%d}`, i), nil)))
		}
		q, err := ParseQuery(text, nil)
		must(t, err)
		want, err := results(c.Query(ctx, AllPartitions(), q))
		must(t, err)
		merge = func() {
			merge = nil
			parts := c.Partitions()
			job, err := c.Merge(ctx, parts[0].ID, parts[1].ID)
			must(t, err)
			must(t, job.Wait(ctx))
		}
		got, err := results(c.Query(ctx, AllPartitions(), q))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		if len(c.Partitions()) != 1 {
			t.Errorf("%s: %d partitions after it", text, len(c.Partitions()))
		}
	}
}
