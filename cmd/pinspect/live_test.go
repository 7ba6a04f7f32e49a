package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// liveDocuments is the number of documents that the live writer overwrites in
// turn, so that every state of the store is known from its newest document.
const liveDocuments = 64

// liveWriter writes to a store as fast as it can, flushes, merges, and makes
// and drops containers, until stop is called.
func liveWriter(t *testing.T, dir string) (stop func()) {
	t.Helper()
	ctx := context.Background()
	db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered, LogFileBytes: 64 << 10})
	check(t, err)
	c, err := db.CreateContainer(ctx, "live", engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
	check(t, err)
	write := func(n int) error {
		slot := n % liveDocuments
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"d%d","k":"k%d","n":%d}`, slot, slot, n), nil)
		return err
	}
	for n := range liveDocuments {
		check(t, write(n))
	}
	halt := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := liveDocuments; ; n++ {
			select {
			case <-halt:
				return
			default:
			}
			err := write(n)
			if err == nil && n%100 == 0 {
				err = db.Flush(ctx)
			}
			if err == nil && n%700 == 0 {
				err = db.Compact(ctx)
			}
			if err == nil && n%900 == 0 {
				_, err = db.CreateContainer(ctx, "temporary", engine.ContainerDef{PartitionKey: []string{"/k"}})
			}
			if err == nil && n%900 == 450 {
				err = db.DropContainer(ctx, "temporary")
				if n < 900 {
					err = nil // there was none yet
				}
			}
			if err != nil {
				t.Errorf("writer: %v", err)
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(halt)
		wg.Wait()
		check(t, db.Close())
	})
}

// Beside a live writer every command works, and shows one moment.
func TestBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	stop := liveWriter(t, dir)
	defer stop()
	commands := [][]string{
		{dir}, {"info", dir, "--json", "--count"}, {"tree", dir}, {"tree", dir, "--container", "live"}, {"partitions", dir},
		{"segments", dir}, {"wal", dir}, {"wal", dir, "--records"}, {"get", dir, "live", `"k7"`, "d7"}, {"verify", dir},
	}
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	before := 0
	for round := range rounds {
		for _, args := range commands {
			r := pinspect(t, args...)
			if r.status != cli.ExitOK || r.stderr != "" {
				t.Fatalf("round %d: pinspect %s: status %d\n%s%s", round, strings.Join(args, " "), r.status, r.stdout, r.stderr)
			}
		}
		newest := checkMoment(t, clean(t, "export", dir, "live"))
		if newest < before {
			t.Fatalf("round %d shows write %d, an earlier one showed %d", round, newest, before)
		}
		before = newest
	}
	stop()
	checkMoment(t, clean(t, "export", dir, "live"))
	clean(t, "verify", dir)
}

// checkMoment checks that a dump is the state after some write, and returns
// which.
func checkMoment(t *testing.T, dump string) (newest int) {
	t.Helper()
	values := make(map[int]bool)
	for line := range strings.Lines(dump) {
		var doc struct{ N int }
		check(t, json.Unmarshal([]byte(line), &doc))
		values[doc.N] = true
		newest = max(newest, doc.N)
	}
	for n := newest; n > newest-liveDocuments; n-- {
		if !values[n] || len(values) != liveDocuments {
			t.Fatalf("write %d is missing from the state after %d:\n%s", n, newest, dump)
		}
	}
	return newest
}
