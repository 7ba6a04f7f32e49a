package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A load takes documents from a sequence, many of them with one sync.
func ExampleContainer_Load() {
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	cities, err := db.EnsureContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
	if err != nil {
		log.Fatal(err)
	}
	docs := func(yield func([]byte, error) bool) {
		for i := range 1000 {
			if !yield(fmt.Appendf(nil, `{"id":"%03d","country":"XX"}`, i), nil) {
				return
			}
		}
	}
	stats, err := cities.Load(ctx, docs, nil)
	if err != nil {
		log.Fatal(err) // stats.Committed says how far it came; LoadOptions.Skip goes on from there
	}
	fmt.Println(stats.Committed)
	// Output:
	// 1000
}
