package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// The example of the README.
func Example() {
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
		`{"id":"lisboa","country":"PT","people":545796}`,
		`{"id":"oslo","country":"NO","people":717710}`,
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil { // durable when it returns
			log.Fatal(err)
		}
	}
	for city, err := range cities.Scan(ctx, engine.StringKey("PT"), "", nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(city.ID, string(city.Body))
	}
	// Output:
	// lisboa {"id":"lisboa","country":"PT","people":545796}
	// porto {"id":"porto","country":"PT","people":237591}
}
