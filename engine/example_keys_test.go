package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A partition key of two levels: a query may look at one user, or at all users of a tenant.
func ExampleJoinKeys() {
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
	events, err := db.EnsureContainer(ctx, "events", engine.ContainerDef{PartitionKey: []string{"/tenant", "/user"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, doc := range []string{
		`{"id":"1","tenant":"acme","user":"ada"}`,
		`{"id":"1","tenant":"acme","user":"bob"}`,
		`{"id":"1","tenant":"other","user":"ada"}`,
	} {
		if _, err := events.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}
	acme := engine.StringKey("acme")
	for _, scope := range []engine.Scope{engine.OnePartition(engine.JoinKeys(acme, engine.StringKey("ada"))), engine.PrefixOf(acme)} {
		n, err := events.Count(ctx, scope, engine.Filter{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(scope, n)
	}
	// Output:
	// partition ["acme","ada"] 1
	// prefix "acme" 2
}

// No two users of a tenant have the same address.
func ExampleContainerDef_uniqueKeys() {
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
	users, err := db.EnsureContainer(ctx, "users", engine.ContainerDef{PartitionKey: []string{"/tenant"}, UniqueKeys: [][]string{{"/mail"}}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := users.Create(ctx, []byte(`{"id":"1","tenant":"acme","mail":"ada@example.org"}`), nil); err != nil {
		log.Fatal(err)
	}
	_, err = users.Create(ctx, []byte(`{"id":"2","tenant":"acme","mail":"ada@example.org"}`), nil)
	var taken *engine.UniqueKeyError
	if errors.As(err, &taken) {
		fmt.Println(taken.Paths, "taken by", taken.Holder)
	}
	_, err = users.Create(ctx, []byte(`{"id":"2","tenant":"other","mail":"ada@example.org"}`), nil)
	fmt.Println(err)
	// Output:
	// [/mail] taken by 1
	// <nil>
}
