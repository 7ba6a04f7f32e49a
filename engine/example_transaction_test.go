package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A transaction moves money between two accounts. It is run again if another write comes between.
func ExampleContainer_Update() {
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
	c, err := db.EnsureContainer(ctx, "accounts", engine.ContainerDef{PartitionKey: []string{"/bank"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, doc := range []string{`{"id":"ada","bank":"b","balance":10}`, `{"id":"bob","bank":"b","balance":0}`} {
		if _, err := c.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	err = c.Update(ctx, engine.StringKey("b"), func(tx *engine.Tx) error {
		funds := engine.Range("/balance", engine.Incl(5), engine.Unbounded())
		if err := tx.Patch("ada", new(engine.Patch).Increment("/balance", -5).When(funds), nil); err != nil {
			return err // nothing is written
		}
		return tx.Patch("bob", new(engine.Patch).Increment("/balance", 5), nil)
	})
	if err != nil {
		log.Fatal(err)
	}
	for it, err := range c.Scan(ctx, engine.StringKey("b"), engine.IDRange{}, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(it.Body))
	}
	// Output:
	// {"id":"ada","bank":"b","balance":5}
	// {"id":"bob","bank":"b","balance":5}
}

// A transaction with values instead of documents.
func ExampleTypedContainer_Update() {
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
	c, err := db.EnsureContainer(ctx, "accounts", engine.ContainerDef{PartitionKey: []string{"/bank"}})
	if err != nil {
		log.Fatal(err)
	}
	type account struct {
		ID      string `json:"id"`
		Bank    string `json:"bank"`
		Balance int    `json:"balance"`
	}
	accounts := engine.Typed[account](c, nil)
	for _, a := range []account{{"ada", "b", 10}, {"bob", "b", 0}} {
		if _, err := accounts.Create(ctx, a, nil); err != nil {
			log.Fatal(err)
		}
	}

	err = accounts.Update(ctx, engine.StringKey("b"), func(tx engine.TypedTx[account]) error {
		ada, err := tx.Read("ada")
		if err != nil {
			return err
		}
		bob, err := tx.Read("bob")
		if err != nil {
			return err
		}
		ada.Value.Balance -= 5
		bob.Value.Balance += 5
		if err := tx.Replace(ada.Value, nil); err != nil {
			return err
		}
		return tx.Replace(bob.Value, nil)
	})
	if err != nil {
		log.Fatal(err)
	}
	bob, err := accounts.Read(ctx, engine.StringKey("b"), "bob")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bob.Value.Balance)
	// Output:
	// 5
}
