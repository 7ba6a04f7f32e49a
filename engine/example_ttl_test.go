package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// Sessions end by themselves, except for those that say otherwise.
func ExampleContainerDef_defaultTTL() {
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
	sessions, err := db.EnsureContainer(ctx, "sessions", engine.ContainerDef{PartitionKey: []string{"/user"}, DefaultTTL: 30 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, doc := range []string{
		`{"id":"usual","user":"ada"}`,
		`{"id":"long","user":"ada","ttl":86400}`, // in seconds
		`{"id":"robot","user":"ada","ttl":-1}`,
	} {
		meta, err := sessions.Upsert(ctx, []byte(doc), nil)
		if err != nil {
			log.Fatal(err)
		}
		if meta.Expires.IsZero() {
			fmt.Println(meta.ID, "stays")
			continue
		}
		fmt.Println(meta.ID, meta.Expires.Sub(meta.Modified))
	}
	// Output:
	// usual 30m0s
	// long 24h0m0s
	// robot stays
}
