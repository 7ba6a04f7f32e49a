package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A container with 400 request units a second refuses what exceeds them, and says when to try again.
func ExampleThrottledError() {
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
	c, err := db.EnsureContainer(ctx, "small", engine.ContainerDef{PartitionKey: []string{"/k"}, Throughput: 400, NoBurst: true})
	if err != nil {
		log.Fatal(err)
	}
	doc := []byte(`{"id":"1","k":"a"}`)
	for {
		_, err := c.Upsert(ctx, doc, nil)
		var throttled *engine.ThrottledError
		if errors.As(err, &throttled) {
			fmt.Println(errors.Is(err, engine.ErrThrottled), throttled.RetryAfter > 0)
			return
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true true
}
