package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestDeletedPartitionsEnd: a cursor that passes over many logical partitions that were
// deleted, and has nothing to show of them, ends with the context of who reads. What
// deletes is in a file that the cursor does not come to, as with forged ones.
func TestDeletedPartitionsEnd(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes = 1 << 20
	db, c := openStore(t, opts)
	const n = 500
	for i := range n {
		must(t, second(c.Upsert(ctx, doc("x", fmt.Sprint("k", i), i), nil)))
	}
	must(t, db.Flush(ctx))
	for i := range n {
		must(t, c.DeleteLogicalPartition(ctx, StringKey(fmt.Sprint("k", i)), nil))
	}
	must(t, db.Flush(ctx))
	guard := db.env.Epoch.Enter()
	defer guard.Leave()
	whole := db.partitions()[0].Version.Load()
	documents := lsm.Version{Active: whole.Active, Runs: whole.Runs[1:]}
	for _, reverse := range []bool{false, true} {
		for _, left := range []int{2, n} {
			asked := &randtest.AskedContext{Context: ctx, Left: left}
			var m lsm.Cursor
			m.Open(&documents, lsm.MaxSequence, reverse)
			m.Ctx = asked
			m.Deleted.Begin(whole, lsm.MaxSequence)
			m.Start()
			if m.Valid() || errors.Is(m.Err(), context.Canceled) != (left == 2) {
				t.Errorf("reverse %t: valid %t, %v; asked %d times", reverse, m.Valid(), m.Err(), left-asked.Left)
			}
			m.Close()
		}
	}
}
