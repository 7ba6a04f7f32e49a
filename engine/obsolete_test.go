package engine

import (
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestObsoleteBytes has a reader hold files that a merge, and a drop, replace
// meanwhile: Stats says how much they hold until it lets go.
func TestObsoleteBytes(t *testing.T) {
	for name, replace := range map[string]func(*DB) error{
		"merge": func(db *DB) error { return db.Compact(t.Context()) },
		"drop":  func(db *DB) error { return db.DropContainer(t.Context(), "c") },
	} {
		t.Run(name, func(t *testing.T) {
			db, c := openStore(t, testOptions(vfs.NewMem()))
			for run := range 3 {
				for i := range 200 {
					upsert(t, c, fmt.Sprint(i), 100+run)
				}
				must(t, db.Flush(t.Context()))
			}
			_, release := c.routing.Load().parts[0].PinVersion() // as a backup does
			if n := db.Stats().ObsoleteBytes; n != 0 {
				t.Errorf("%d bytes before", n)
			}
			was := db.Stats().Containers[0].Partitions[0].FileBytes
			must(t, replace(db))
			db.env.Reclaim.Now()
			if n := db.Stats().ObsoleteBytes; n != was {
				t.Errorf("%d bytes are held, want %d", n, was)
			}
			release()
			db.env.Reclaim.Now()
			if n := db.Stats().ObsoleteBytes; n != 0 {
				t.Errorf("%d bytes left", n)
			}
		})
	}
}
