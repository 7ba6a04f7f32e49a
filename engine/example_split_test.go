package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A split and its undoing, while the container serves: the example of
// docs/splits.md.
func ExampleContainer_Split() {
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
	for _, doc := range []string{`{"id":"porto","country":"PT"}`, `{"id":"oslo","country":"NO"}`} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	job, err := cities.Split(ctx, cities.Partitions()[0].ID, nil) // queued; nil: where it halves the bytes
	if err != nil {
		log.Fatal(err)
	}
	if err := job.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	done := job.Progress() // with how long each phase took, Pause among them
	fmt.Println(done.Kind, "of", done.Parents, "into", done.Children)

	if job, err = cities.Split(ctx, done.Children[0], nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(job.Wait(ctx), engine.ErrRefused)) // one logical partition is everything

	if job, err = cities.Merge(ctx, done.Children[0], done.Children[1]); err != nil {
		log.Fatal(err)
	}
	if err := job.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(cities.Partitions()))
	// Output:
	// split of [1] into [2 3]
	// true
	// 1
}
