package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A listener is told of flushes, splits, damage and more.
func ExampleEventListener() {
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	flushed := make(chan engine.FlushEvent, 1)
	db, err := engine.Open(ctx, dir, &engine.Options{Events: &engine.EventListener{
		Flushed: func(e engine.FlushEvent) { flushed <- e },
	}})
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
	if err := db.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	e := <-flushed
	fmt.Println(e.Container, e.Items)
	// Output:
	// cities 1
}

// A store with little memory, whose writes wait for a sync only if they ask for it.
func ExampleOptions() {
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := engine.Open(ctx, dir, &engine.Options{MemoryBudget: 64 << 20, Durability: engine.Buffered})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	cities, err := db.EnsureContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
	if err != nil {
		log.Fatal(err)
	}
	doc := []byte(`{"id":"porto","country":"PT"}`)
	if _, err := cities.Upsert(ctx, doc, nil); err != nil { // a power cut may take it back
		log.Fatal(err)
	}
	if _, err := cities.Upsert(ctx, doc, &engine.WriteOptions{Durability: engine.Synced}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cities.Def().PartitionKey)
	// Output:
	// [/country]
}
