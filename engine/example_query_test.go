package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cleavestore/cleave/engine"
)

// The same query in SQL and in Go.
func ExampleContainer_Query() {
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
		`{"id":"lisboa","country":"PT","people":545796}`,
		`{"id":"oslo","country":"NO","people":717710}`,
		`{"id":"bergen","country":"NO","people":291940}`,
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	inText, err := engine.ParseQuery(`SELECT c.id, c.people FROM c WHERE c.people > @least ORDER BY c.people DESC`, map[string]any{"@least": 290_000})
	if err != nil {
		log.Fatal(err)
	}
	inGo := engine.Query{
		Where:   engine.Range("/people", engine.Excl(290_000), engine.Unbounded()),
		OrderBy: []engine.QueryOrder{{Path: "/people", Desc: true}},
		Limit:   1,
	}
	for _, q := range []engine.Query{inText, inGo} {
		for row, err := range cities.Query(ctx, engine.AllPartitions(), q).All() {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(row.Body))
		}
	}
	// Output:
	// {"id":"oslo","people":717710}
	// {"id":"lisboa","people":545796}
	// {"id":"bergen","people":291940}
	// {"id":"oslo","country":"NO","people":717710}
}

// What a count was, and what it cost.
func ExampleContainer_CountStats() {
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
		`{"id":"lisboa","country":"PT","people":545796}`,
		`{"id":"oslo","country":"NO","people":717710}`,
	} {
		if _, err := cities.Upsert(ctx, []byte(doc), nil); err != nil {
			log.Fatal(err)
		}
	}

	n, stats, err := cities.CountStats(ctx, engine.OnePartition(engine.StringKey("PT")), engine.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, stats.Charge > 0)
	// Output:
	// 2 true
}
