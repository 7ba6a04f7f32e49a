package engine

import (
	"context"
	"fmt"
	"testing"
)

// TestNeighboursOfDamage cuts each file of a run in turn so that it cannot be opened.
// Logical partitions that have nothing in it are read as if it were whole, both
// ways and by queries, also those that end where it begins.
func TestNeighboursOfDamage(t *testing.T) {
	w := newDamagedWriter(t)
	ctx := context.Background()
	names := w.segments("a")
	if len(names) < 2 {
		t.Fatalf("%d files", len(names))
	}
	untouched := 0
	for _, name := range names {
		whole, err := w.mem.ReadFile(name)
		must(w.t, err)
		must(w.t, w.db.Close())
		w.spoil(name, func(b []byte) []byte { return b[:len(b)/2] })
		w.open()
		c := w.container("a")
		for key := range 40 {
			pk := StringKey(fmt.Sprint(key))
			readable := true
			for i := key; i < damagedDocs && readable; i += 40 {
				_, err := c.Read(ctx, pk, fmt.Sprint(i))
				readable = err == nil
			}
			if !readable {
				continue
			}
			untouched++
			for _, reverse := range []bool{false, true} {
				for item, err := range c.Scan(ctx, pk, IDRange{}, &ScanOptions{Reverse: reverse}) {
					if err != nil {
						t.Errorf("%s is cut: scan of %v, reverse %t, after %q: %v", name, pk, reverse, item.ID, err)
					}
				}
			}
			for _, text := range []string{`SELECT * FROM c WHERE c.n > 0`, `SELECT * FROM c WHERE c.n > 0 ORDER BY c.n`, `SELECT VALUE COUNT(1) FROM c WHERE c.n > 0`} {
				if _, err := w.query(c, text, OnePartition(pk)); err != nil {
					t.Errorf("%s is cut: %s in %v: %v", name, text, pk, err)
				}
			}
			if _, err := c.Count(ctx, OnePartition(pk), Exists("/n")); err != nil {
				t.Errorf("%s is cut: count of %v: %v", name, pk, err)
			}
			err := c.View(ctx, pk, func(tx *Tx) error {
				for _, err := range tx.Scan(IDRange{}, nil) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s is cut: scan of %v in a transaction: %v", name, pk, err)
			}
		}
		must(w.t, w.db.Close())
		must(w.t, w.mem.WriteFile(name, whole))
		w.open()
	}
	if untouched < 20 {
		t.Errorf("%d logical partitions were looked at", untouched)
	}
}
