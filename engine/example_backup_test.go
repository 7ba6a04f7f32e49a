package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/engine"
)

// A backup is a stream. Here it goes to memory and becomes another store.
func ExampleDB_Backup() {
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

	var backup bytes.Buffer // or a file, or the body of a request
	if _, err := db.Backup(ctx, &backup, nil); err != nil {
		log.Fatal(err)
	}
	restored := filepath.Join(dir, "restored")
	if err := engine.Restore(ctx, &backup, restored); err != nil {
		log.Fatal(err)
	}
	other, err := engine.Open(ctx, restored, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	copied, err := other.Container("cities")
	if err != nil {
		log.Fatal(err)
	}
	porto, err := copied.Read(ctx, engine.StringKey("PT"), "porto")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(porto.Body))
	// Output:
	// {"id":"porto","country":"PT","people":237591}
}

// A checkpoint is a second store that shares the files of the first. It is made in moments, and opened like any other.
func ExampleDB_Checkpoint() {
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

	copied := filepath.Join(dir, "copied")
	if _, err := db.Checkpoint(ctx, copied); err != nil {
		log.Fatal(err)
	}
	if err := db.DropContainer(ctx, "cities"); err != nil {
		log.Fatal(err)
	}
	other, err := engine.Open(ctx, copied, &engine.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	for container := range other.Containers() {
		fmt.Println(container.Name)
	}
	// Output:
	// cities
}
