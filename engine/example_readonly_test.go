package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A reader beside the writer of a store comes up to date without being opened anew.
func ExampleDB_Refresh() {
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
	reader, err := engine.Open(ctx, dir, &engine.Options{ReadOnly: true}) // in another process, as a rule
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	seen, err := reader.Container("cities")
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

	_, err = seen.Read(ctx, engine.StringKey("PT"), "porto")
	fmt.Println(errors.Is(err, engine.ErrNotFound))
	if err := reader.Refresh(ctx); err != nil {
		log.Fatal(err)
	}
	porto, err := seen.Read(ctx, engine.StringKey("PT"), "porto")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(porto.Body))
	// Output:
	// true
	// {"id":"porto","country":"PT","people":237591}
}

// Another process, or this one, opens the store beside its writer and sees what was durable then.
func ExampleOpen_readOnly() {
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

	reader, err := engine.Open(ctx, dir, &engine.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	seen, err := reader.Container("cities")
	if err != nil {
		log.Fatal(err)
	}
	porto, err := seen.Read(ctx, engine.StringKey("PT"), "porto")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(porto.Body))
	_, err = seen.Upsert(ctx, porto.Body, nil)
	fmt.Println(errors.Is(err, engine.ErrReadOnly))
	// Output:
	// {"id":"porto","country":"PT","people":237591}
	// true
}
