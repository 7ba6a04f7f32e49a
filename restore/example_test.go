package restore_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/restore"
)

// One tenant gets back what it had when the backup was made; the other one keeps what it has.
func ExampleLogicalPartition() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "restore-example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	c, err := db.EnsureContainer(ctx, "notes", engine.ContainerDef{PartitionKey: []string{"/tenant"}})
	if err != nil {
		log.Fatal(err)
	}
	write := func(docs ...string) {
		for _, doc := range docs {
			if _, err := c.Upsert(ctx, []byte(doc), nil); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(`{"id":"1","tenant":"acme","text":"milk"}`, `{"id":"2","tenant":"acme","text":"bread"}`, `{"id":"1","tenant":"brown","text":"tea"}`)
	var backup bytes.Buffer
	if _, err := db.Backup(ctx, &backup, nil); err != nil {
		log.Fatal(err)
	}
	write(`{"id":"1","tenant":"acme","text":"oops"}`, `{"id":"3","tenant":"acme","text":"oops"}`, `{"id":"1","tenant":"brown","text":"coffee"}`)

	acme := engine.StringKey("acme")
	stream := backup.Bytes()
	would, err := restore.LogicalPartition(ctx, c, acme, bytes.NewReader(stream), &restore.Options{Replace: true, DryRun: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d equal, %d to replace, %d to delete, in one transaction: %v\n", would.Unchanged, would.Replaced, would.Deleted, would.Atomic)
	if _, err = restore.LogicalPartition(ctx, c, acme, bytes.NewReader(stream), &restore.Options{Replace: true}); err != nil {
		log.Fatal(err)
	}
	for it, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(it.Body))
	}
	// Unordered output:
	// 1 equal, 1 to replace, 1 to delete, in one transaction: true
	// {"id":"1","tenant":"acme","text":"milk"}
	// {"id":"2","tenant":"acme","text":"bread"}
	// {"id":"1","tenant":"brown","text":"coffee"}
}
