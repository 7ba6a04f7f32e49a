package measure

import (
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

func TestKeySpaceOrder(t *testing.T) {
	const n = 500
	g, err := workload.NewGenerator(workload.Params{Shape: "small", Seed: 1, LogicalPartitions: 20, Skew: 1.2})
	if err != nil {
		t.Fatal(err)
	}
	d := NewGenerated(g, n)
	seen := make(map[int64]bool)
	finished := make(map[partmap.Key]bool) // logical partitions that another one follows
	var last partmap.Key
	for _, i := range keySpaceOrder(d) {
		key := d.Key(i)
		if key != last {
			if finished[key] {
				t.Fatalf("%v is in two places", key)
			}
			a, b := last.EPK(), key.EPK()
			if last.Valid() && a.Compare(&b) > 0 {
				t.Fatalf("%v is before %v", last, key)
			}
			finished[last], last = true, key
		}
		seen[i] = true
	}
	if len(seen) != n {
		t.Errorf("%d documents of %d", len(seen), n)
	}
}
