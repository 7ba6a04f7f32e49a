package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A container gets another partition key while it is in use.
func ExampleContainer_CopyTo() {
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
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	job, err := cities.CopyTo(ctx, "cities by id", engine.ContainerDef{PartitionKey: []string{"/id"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := job.Wait(ctx); err != nil { // little is missing now
		log.Fatal(err)
	}
	byID, err := job.Finish(ctx) // the rest
	if err != nil {
		log.Fatal(err)
	}
	oslo, err := byID.Read(ctx, engine.StringKey("oslo"), "oslo")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(oslo.Body))
	_, err = cities.Upsert(ctx, oslo.Body, nil)
	fmt.Println(errors.Is(err, engine.ErrCopied))
	// Output:
	// {"id":"oslo","country":"NO","people":717710}
	// true
}
