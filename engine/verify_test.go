package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestVerifyBodies: the body of a verification may drop what is verified, and
// close the store.
func TestVerifyBodies(t *testing.T) {
	ctx := context.Background()
	for _, body := range []struct {
		name string
		do   func(db *DB) error
	}{
		{"drop", func(db *DB) error { return db.DropContainer(ctx, "c") }},
		{"close", func(db *DB) error { return db.Close() }},
	} {
		t.Run(body.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db, c := openStore(t, testOptions(mem))
			for i := range 5 {
				upsert(t, c, fmt.Sprint(i), 10)
			}
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if err := mem.WriteFile("p/stray", nil); err != nil {
				t.Fatal(err)
			}
			findings := 0
			for f, err := range db.Verify(ctx) {
				if findings++; findings == 1 {
					if f.File != "mem/p/stray" || err != nil {
						t.Errorf("finding %v, %v", f, err)
					}
					if err := body.do(db); err != nil {
						t.Fatal(err)
					}
				} else if err == nil {
					t.Errorf("false finding: %v", f)
				}
			}
			if findings == 0 {
				t.Error("the stray file was not found")
			}
		})
	}
}
