package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// ReadMany has a result for each request, in their order.
func ExampleContainer_ReadMany() {
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

	for city, err := range cities.ReadMany(ctx, []engine.ItemIdentity{
		{Key: engine.StringKey("NO"), ID: "oslo"},
		{Key: engine.StringKey("PT"), ID: "faro"},
		{Key: engine.StringKey("PT"), ID: "porto"},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(city.ID, city.Found, city.Charge)
	}
	// Output:
	// oslo true 1
	// faro false 1
	// porto true 1
}

// A snapshot shows a container as it was.
func ExampleContainer_Snapshot() {
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
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	snapshot, err := cities.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer snapshot.Close() // until then overwritten versions stay on disk
	if err := cities.Delete(ctx, engine.StringKey("PT"), "porto", nil); err != nil {
		log.Fatal(err)
	}
	_, err = cities.Read(ctx, engine.StringKey("PT"), "porto")
	fmt.Println(errors.Is(err, engine.ErrNotFound))
	porto, err := snapshot.Read(ctx, engine.StringKey("PT"), "porto")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(porto.Body))
	// Output:
	// true
	// {"id":"porto","country":"PT","people":237591}
}
