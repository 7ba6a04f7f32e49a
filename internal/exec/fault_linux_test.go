//go:build !race

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestFaultOfAnother: a memory fault that ends a query of one container, whose file another program
// has shortened, takes no results from the queries of other containers.
func TestFaultOfAnother(t *testing.T) {
	// The queries hand on what they pool to the next: on one processor, and no collection empties it.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx := context.Background()
	dir := t.TempDir()
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	container := func(name string, flushes ...int) *engine.Container {
		c, err := db.EnsureContainer(ctx, name, engine.ContainerDef{PartitionKey: []string{"/pk"}, Index: engine.IndexAll()})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, n := range flushes {
			for ; n > 0; n-- {
				if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%04d","pk":"p%d","a":1,"b":%d}`, i, i, i%2), nil); err != nil {
					t.Fatal(err)
				}
				i++
			}
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	segments := func() map[string]bool {
		found := make(map[string]bool)
		if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			found[name] = filepath.Ext(name) == ".seg"
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	query := func(c *engine.Container, text string) (n int, err error) {
		q, err := engine.ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range c.Query(ctx, engine.AllPartitions(), q).All() {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	good := container("good", 100, 150)
	before := segments()
	bad := container("bad", 100)
	const both = "SELECT * FROM c WHERE c.a = 1 AND c.b = 1"
	if n, err := query(bad, both); n != 50 || err != nil {
		t.Fatal(n, err)
	}
	for name, is := range segments() {
		if is && !before[name] {
			if err := os.Truncate(name, 4096); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := query(bad, both); !errors.Is(err, engine.ErrIO) {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := query(good, "SELECT * FROM c WHERE c.b = 0"); n != 125 || err != nil {
			t.Errorf("%d results of 125, %v", n, err)
		}
	}
}
