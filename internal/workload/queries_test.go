package workload

import "testing"

// Each kind of query has texts that differ; other operations have none.
func TestQueries(t *testing.T) {
	for op := range Op(NumOps) {
		texts := op.Queries()
		var alone Mix
		alone[op] = 1
		if isQuery := op > Partition; isQuery != (len(texts) > 0) || isQuery != alone.Queries() {
			t.Errorf("%v: %d texts", op, len(texts))
		}
		seen := make(map[string]bool)
		for _, text := range texts {
			if seen[text] {
				t.Errorf("%v: twice: %s", op, text)
			}
			seen[text] = true
		}
	}
}
