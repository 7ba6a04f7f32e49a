package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// A post-trigger keeps the balance of an account while entries are added, and refuses an entry
// that would overdraw it. Entry and balance are written together.
func ExampleContainer_RegisterTrigger() {
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
	c, err := db.EnsureContainer(ctx, "ledger", engine.ContainerDef{PartitionKey: []string{"/account"}})
	if err != nil {
		log.Fatal(err)
	}
	type entry struct {
		ID      string `json:"id"`
		Account string `json:"account"`
		Amount  int    `json:"amount"`
	}
	entries := engine.Typed[entry](c, nil)

	errOverdrawn := errors.New("overdrawn")
	err = c.RegisterTrigger("balance", engine.Trigger{
		Type: engine.PostTrigger, On: engine.OnCreate,
		Run: func(_ context.Context, call *engine.TriggerCall) error {
			sum := 0
			for e, err := range entries.In(call.Tx).Scan(engine.IDRange{Prefix: "entry-"}, nil) {
				if err != nil {
					return err
				}
				sum += e.Value.Amount
			}
			if sum < 0 {
				return errOverdrawn
			}
			return entries.In(call.Tx).Upsert(entry{"balance", "ada", sum}, nil)
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	for _, e := range []entry{{"entry-1", "ada", 10}, {"entry-2", "ada", -4}, {"entry-3", "ada", -7}} {
		_, err := entries.Create(ctx, e, &engine.WriteOptions{PostTrigger: "balance"})
		fmt.Println(e.ID, err, errors.Is(err, errOverdrawn))
	}
	balance, err := entries.Read(ctx, engine.StringKey("ada"), "balance")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", balance.Value.Amount)
	// Output:
	// entry-1 <nil> false
	// entry-2 <nil> false
	// entry-3 post-trigger "balance": overdrawn true
	// balance 6
}
