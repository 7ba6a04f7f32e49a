package engine

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestScanReadableRefreshed: a loop of ScanReadable shows the state in which it began, also if
// a Refresh comes before it has read anything.
func TestScanReadableRefreshed(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	_, wc := openStore(t, testOptions(mem))
	const documents = 10
	for i := range documents {
		upsert(t, wc, fmt.Sprintf("%04d", i), 20)
	}
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	// In the first turn c itself is the state; in the others it leads to it.
	for turn := range 4 {
		pk := StringKey("a")
		if turn%2 == 0 {
			pk = PartitionKey{}
		}
		must(t, wc.Delete(ctx, StringKey("a"), fmt.Sprintf("%04d", turn), nil))
		state, refreshed := db.now(), false
		state.opts.env = &testenv.Env{Watch: func(testenv.Store, string) func() func() {
			state.opts.env, refreshed = nil, true
			must(t, db.Refresh(ctx))
			for !state.draining.Load() {
				runtime.Gosched()
			}
			return nil
		}}
		n := 0
		for _, err := range c.ScanReadable(ctx, pk, new(RepairReport)) {
			must(t, err)
			n++
		}
		if n != documents-turn || !refreshed {
			t.Errorf("turn %d: %d documents, refreshed %v", turn, n, refreshed)
		}
	}
}
