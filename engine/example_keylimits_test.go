package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// Each tenant may hold 1 KiB; one that pays gets more, and uses it at once.
func ExampleContainer_SetKeyLimits() {
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
	c, err := db.EnsureContainer(ctx, "notes", engine.ContainerDef{
		PartitionKey: []string{"/tenant"}, Limits: engine.ContainerLimits{LogicalPartitionBytes: 1 << 10},
	})
	if err != nil {
		log.Fatal(err)
	}
	write := func(tenant string) {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"1","tenant":%q,"text":"%01500d"}`, tenant, 0), nil)
		fmt.Println(tenant, "is full:", errors.Is(err, engine.ErrLogicalPartitionFull))
	}
	write("acme")
	if err = c.SetKeyLimits(ctx, engine.StringKey("acme"), engine.KeyLimits{Bytes: 1 << 20}); err != nil {
		log.Fatal(err)
	}
	write("acme")
	write("brown")
	for key, limits := range c.LimitedKeys() {
		fmt.Println(key, limits.Bytes)
	}
	// Output:
	// acme is full: true
	// acme is full: false
	// brown is full: true
	// "acme" 1048576
}

// What a tenant holds and has consumed. A limit that nothing reaches has its request units
// counted without limiting them.
func ExampleContainer_Usage() {
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
	c, err := db.EnsureContainer(ctx, "notes", engine.ContainerDef{
		PartitionKey: []string{"/tenant"}, Limits: engine.ContainerLimits{LogicalPartitionThroughput: 1e9},
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if _, err = c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","tenant":"acme"}`, i), nil); err != nil {
			log.Fatal(err)
		}
	}
	u, err := c.Usage(ctx, engine.StringKey("acme"), &engine.UsageOptions{Exact: true}) // reads the notes, to count them
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d notes, %d bytes, %.0f RU, %d calls refused\n", u.Versions, u.Bytes, u.Units, u.Throttled)
	// Output:
	// 3 notes, 78 bytes, 15 RU, 0 calls refused
}
