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

// TestScanReadableSplit: past damage, a loop of ScanReadable goes on in the partitions that have taken the place of one which it had not
// come to.
func TestScanReadableSplit(t *testing.T) {
	ctx := t.Context()
	w := newDamagedWriter(t)
	c := w.container("a")
	split := func(at int) {
		job, err := c.Split(ctx, c.Partitions()[at].ID, nil)
		must(t, err)
		must(t, job.Wait(ctx))
	}
	split(0)
	must(t, w.db.Compact(ctx))
	w.opts.manual = false // the loop holds memory that a call would wait for otherwise
	w.flip(w.segments("a")[0], segment.SectionGroups)
	c = w.container("a")
	var readable [2]int
	for i := range readable {
		var report RepairReport
		for _, err := range c.ScanReadable(ctx, PartitionKey{}, &report) {
			must(t, err)
			if readable[i]++; i == 1 && len(report.Lost) > 0 && len(c.Partitions()) == 2 {
				split(1)
			}
		}
	}
	if readable[0] != readable[1] || len(c.Partitions()) != 3 {
		t.Errorf("%d documents can be read, %d beside a split; %d partitions", readable[0], readable[1], len(c.Partitions()))
	}
}
