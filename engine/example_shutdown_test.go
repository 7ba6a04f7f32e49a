package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// Shutdown refuses what is new and waits for what is under way, here a snapshot that nobody has closed.
func ExampleDB_Shutdown() {
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
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	var left *engine.ShutdownError
	if errors.As(db.Shutdown(soon), &left) {
		for _, reader := range left.Readers {
			fmt.Println(reader.What, reader.Count)
		}
	}
	_, err = cities.Read(ctx, engine.StringKey("PT"), "porto")
	fmt.Println(errors.Is(err, engine.ErrClosed))

	if err := snapshot.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Shutdown(ctx)) // or Close, which does not wait for snapshots
	// Output:
	// snapshot 1
	// true
	// <nil>
}
