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
	for city, err := range cities.Scan(ctx, engine.StringKey("PT"), engine.IDRange{}, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(city.ID, string(city.Body))
	}
	// Output:
	// lisboa {"id":"lisboa","country":"PT","people":545796}
	// porto {"id":"porto","country":"PT","people":237591}
}

// Queries of a typed container give values.
func ExampleTypedContainer_Query() {
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
	c, err := db.EnsureContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
	if err != nil {
		log.Fatal(err)
	}
	type city struct {
		ID      string `json:"id"`
		Country string `json:"country"`
		People  int    `json:"people"`
	}
	cities := engine.Typed[city](c, nil)
	for _, one := range []city{{"porto", "PT", 237591}, {"lisboa", "PT", 545796}, {"oslo", "NO", 717710}} {
		if _, err := cities.Upsert(ctx, one, nil); err != nil {
			log.Fatal(err)
		}
	}
	large := engine.Query{
		Where:   engine.Range("/people", engine.Incl(500_000), engine.Unbounded()),
		OrderBy: []engine.QueryOrder{{Path: "/people", Desc: true}},
	}
	for it, err := range cities.Query(ctx, engine.AllPartitions(), large).All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(it.Value.ID, it.Value.People)
	}
	// Output:
	// oslo 717710
	// lisboa 545796
}
