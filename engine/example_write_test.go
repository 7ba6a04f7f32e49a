package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// An etag makes a write fail if another one came before it.
func ExampleContainer_Replace() {
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
	first, err := cities.Create(ctx, []byte(`{"id":"porto","country":"PT","people":237591}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := cities.Upsert(ctx, []byte(`{"id":"porto","country":"PT","people":240000}`), nil); err != nil {
		log.Fatal(err)
	}
	_, err = cities.Replace(ctx, []byte(`{"id":"porto","country":"PT","people":1}`), &engine.WriteOptions{IfMatch: first.ETag})
	fmt.Println(errors.Is(err, engine.ErrPrecondition))
	// Output:
	// true
}

// A patch changes parts of a document. Its condition is tested in the same step.
func ExampleContainer_Patch() {
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

	patch := new(engine.Patch).Increment("/people", 100).Set("/river", "Douro").When(engine.Range("/people", engine.Incl(200_000), engine.Unbounded()))
	if _, err := cities.Patch(ctx, engine.StringKey("PT"), "porto", patch, nil); err != nil {
		log.Fatal(err)
	}
	porto, err := cities.Read(ctx, engine.StringKey("PT"), "porto")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(porto.Body))
	// Output:
	// {"id":"porto","country":"PT","people":237691,"river":"Douro"}
}

// A batch is committed as a whole or not at all.
func ExampleContainer_Commit() {
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

	batch := cities.NewBatch(engine.StringKey("PT"))
	if err := batch.Create([]byte(`{"id":"faro","country":"PT"}`), nil); err != nil {
		log.Fatal(err)
	}
	if err := batch.Create([]byte(`{"id":"porto","country":"PT"}`), nil); err != nil {
		log.Fatal(err)
	}
	_, err = cities.Commit(ctx, batch)
	fmt.Println(err)
	_, err = cities.Read(ctx, engine.StringKey("PT"), "faro")
	fmt.Println(errors.Is(err, engine.ErrNotFound))
	// Output:
	// operation 2 of the batch, create: already exists
	// true
}

// All items of a partition key are deleted by one write, however many there are.
func ExampleContainer_DeleteLogicalPartition() {
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

	var charge float64
	if err := cities.DeleteLogicalPartition(ctx, engine.StringKey("PT"), &engine.WriteOptions{Charge: &charge}); err != nil {
		log.Fatal(err)
	}
	n, err := cities.Count(ctx, engine.AllPartitions(), engine.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "left, for", charge, "RU")
	// Output:
	// 1 left, for 5 RU
}
