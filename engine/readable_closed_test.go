package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/segment"
)

// TestScanReadableClosed: a loop of ScanReadable whose body closes the store, past damage, ends with ErrClosed: it reads no memory
// that is gone.
func TestScanReadableClosed(t *testing.T) {
	w := newDamagedWriter(t)
	w.write("a", 10) // in the log only
	w.flip(w.segments("a")[0], segment.SectionGroups)
	must(t, w.db.Close())
	opts := *w.opts
	opts.ReadOnly = true
	db, err := Open(t.Context(), "damaged", &opts)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	db.env.Pool.Guard()
	watched.ignore(db) // files are open until the loop ends
	c, err := db.Container("a")
	must(t, err)
	var report RepairReport
	past := 0 // documents past the damage
	for _, err = range c.ScanReadable(t.Context(), PartitionKey{}, &report) {
		if err == nil && len(report.Lost) > 0 {
			past++
			must(t, db.Close())
		}
	}
	if past != 1 || !errors.Is(err, ErrClosed) {
		t.Errorf("%d documents past the damage, and then %v", past, err)
	}
	if left := db.opts.fs.(*watchedFS).names(); len(left) > 0 {
		t.Errorf("left open: %q", left)
	}
}
