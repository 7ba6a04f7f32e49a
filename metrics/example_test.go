package metrics_test

import (
	"context"
	"expvar"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
)

// openStore opens a store in a temporary directory.
func openStore(o *engine.Options) (db *engine.DB, c *engine.Container, end func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	if db, err = engine.Open(ctx, dir, o); err != nil {
		log.Fatal(err)
	}
	if c, err = db.EnsureContainer(ctx, "notes", engine.ContainerDef{PartitionKey: []string{"/user"}}); err != nil {
		log.Fatal(err)
	}
	return db, c, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}

// The metrics of a store as a variable of package expvar. A program that serves HTTP shows
// it at /debug/vars.
func ExampleSnapshot_expvar() {
	db, notes, end := openStore(nil)
	defer end()
	expvar.Publish("cleave", expvar.Func(func() any { return db.Metrics() }))

	if _, err := notes.Upsert(context.Background(), []byte(`{"id":"1","user":"ada"}`), nil); err != nil {
		log.Fatal(err)
	}
	snapshot := expvar.Get("cleave").(expvar.Func).Value().(metrics.Snapshot)
	writes, _ := snapshot.Value("cleave_writes_total")
	fmt.Println(writes, "write, in", snapshot.Histogram("cleave_call_duration_seconds", "write").Max > 0)
	// Output: 1 write, in true
}

// An exporter is a loop.
func ExampleSnapshot_loop() {
	db, _, end := openStore(nil)
	defer end()
	for _, m := range db.Metrics().Metrics {
		if m.Group != "Containers" || m.Unit != "partitions" {
			continue
		}
		for _, s := range m.Samples {
			fmt.Printf("%s, a %s: %s. %s=%s: %v\n", m.Name, m.Kind, m.Help, m.Desc.Labels[0], s.Labels[0], s.Value)
		}
	}
	// Output: cleave_container_partitions, a gauge: Physical partitions. container=notes: 1
}

// The listener is told of each call that takes longer than a threshold.
func ExampleSnapshot_slowCalls() {
	slow := make(chan engine.SlowCallEvent, 16)
	_, notes, end := openStore(&engine.Options{
		SlowCall: time.Nanosecond, // 50 ms, say
		Events:   &engine.EventListener{SlowCall: func(e engine.SlowCallEvent) { slow <- e }},
	})
	defer end()
	if _, err := notes.Upsert(context.Background(), []byte(`{"id":"1","user":"ada"}`), nil); err != nil {
		log.Fatal(err)
	}
	e := <-slow
	fmt.Println(e.Call, e.Container, e.Partition, e.Log > 0, e.Duration > e.Log)
	// Output: write notes 1 true true
}
