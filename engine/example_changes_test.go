package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A feed shows what has changed since a position, which is text that can be stored.
func ExampleContainer_Changes() {
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
	for _, doc := range []string{
		`{"id":"porto","country":"PT","people":237591}`,
		`{"id":"oslo","country":"NO","people":717710}`,
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	var position engine.ChangePosition
	seen := 0
	for change, err := range cities.Changes(ctx, engine.AllPartitions(), engine.FromStart(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		seen++
		position = change.Position()
	}
	fmt.Println(seen, "changes")

	if _, err := cities.Upsert(ctx, []byte(`{"id":"faro","country":"PT"}`), nil); err != nil {
		log.Fatal(err)
	}
	for change, err := range cities.Changes(ctx, engine.AllPartitions(), position, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change.Kind, change.ID)
	}
	// Output:
	// 2 changes
	// written faro
}
