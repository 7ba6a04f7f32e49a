package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A scan reads a range of ids, in either direction, and nothing beside it.
func ExampleContainer_Scan() {
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
		`{"id":"lagos","country":"PT"}`,
		`{"id":"oslo","country":"NO","people":717710}`,
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	for city, err := range cities.Scan(ctx, engine.StringKey("PT"), engine.IDRange{Prefix: "l"}, &engine.ScanOptions{Reverse: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(city.ID)
	}
	// The next page begins after the last id of the page before.
	page := engine.IDRange{After: "lagos", Before: "porto"}
	for city, err := range cities.Scan(ctx, engine.StringKey("PT"), page, &engine.ScanOptions{Limit: 10}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("page:", city.ID)
	}
	// Output:
	// lisboa
	// lagos
	// page: lisboa
}
