package engine

import (
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOneSeed: what a store writes has the seed of what it wrote before it was opened
// again, so that a read hashes its key once. Another store has another seed.
func TestOneSeed(t *testing.T) {
	var seeds [2]item.Seed
	for i := range seeds {
		mem := vfs.NewMem()
		for life := range 3 {
			db, c := openStore(t, testOptions(mem))
			upsert(t, c, fmt.Sprint(life), 100)
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			runs := c.routing.Load().parts[0].Version.Load().Runs
			if len(runs) == 0 {
				t.Fatal("nothing was flushed")
			}
			for _, r := range runs {
				if seed := r.Files[0].Seed(); seed != db.env.Seed || seed == (item.Seed{}) {
					t.Errorf("life %d: a file has seed %x, the store %x", life, seed, db.env.Seed)
				}
			}
			seeds[i] = db.env.Seed
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seeds[0] == seeds[1] {
		t.Errorf("two stores have the seed %x", seeds[0])
	}
}
