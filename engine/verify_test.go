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

// TestCheckIndexEnds: a check of an index ends with its context, also where it compares terms.
func TestCheckIndexEnds(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.FileBytes, opts.memtableBytes = 1<<20, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	const items = 1000
	for i := range items {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil)))
	}
	must(t, db.Flush(t.Context()))
	f := c.routing.Load().parts[0].Version.Load().Runs[0].Files[0]
	report := func(_ int64, what string) { t.Error(what) }
	// It asks less often than once a document while it reads.
	asked := &randtest.AskedContext{Context: t.Context(), Left: items / 2}
	if err := lsm.CheckIndex(asked, f.Reader, report); !errors.Is(err, context.Canceled) {
		t.Errorf("it goes on: %v", err)
	}
	must(t, lsm.CheckIndex(t.Context(), f.Reader, report))
}
