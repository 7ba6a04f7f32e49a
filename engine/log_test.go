package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/logretention"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReleaseLogBesideCreate lets log files go while containers are made and
// written to: none of their first records may go with them.
func TestReleaseLogBesideCreate(t *testing.T) {
	ctx := context.Background()
	for round := range 5 {
		mem := vfs.NewMem()
		db, _ := openStore(t, testOptions(mem))
		stop := make(chan struct{})
		var releasing sync.WaitGroup
		for range 2 {
			releasing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := db.retention.Release(); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		var names []string
		for i := range 40 {
			name := fmt.Sprint("n", i)
			c, err := db.CreateContainer(ctx, name, ContainerDef{PartitionKey: []string{"/k"}})
			if err != nil {
				t.Fatal(err)
			}
			upsert(t, c, "1", 10)
			if err := db.log.Rotate(); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		close(stop)
		releasing.Wait()
		next := mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		db.Close()
		db, _ = openStore(t, testOptions(next))
		for _, name := range names {
			c, err := db.Container(name)
			if err == nil {
				_, err = c.Read(ctx, StringKey("a"), "1")
			}
			if err != nil {
				t.Fatalf("round %d: container %s: %v", round, name, err)
			}
		}
	}
}

// TestLogBudgetBelowMemtables: a log cannot be smaller than what only it holds,
// and is not written anew for that again and again.
func TestLogBudgetBelowMemtables(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.LogBytes, opts.memtableBytes = 16<<10, 1<<20
	db, c := openStore(t, opts)
	for i := range 150 {
		upsert(t, c, fmt.Sprint(i), 1000)
		if err := db.retention.Hold(); err != nil {
			t.Fatal(err)
		}
	}
	before := db.Stats().CarriedBytes
	for range 20 {
		if err := db.retention.Hold(); err != nil {
			t.Fatal(err)
		}
	}
	if after := db.Stats().CarriedBytes; after != before {
		t.Errorf("%d bytes carried on at rest", after-before)
	}
}

// TestCrashLoop kills a store that is hardly written to, again and again: what
// it takes on disk stays bounded.
func TestCrashLoop(t *testing.T) {
	mem := vfs.NewMem()
	for range 40 {
		opts := testOptions(mem)
		_, c := openStore(t, opts)
		upsert(t, c, "a", 10)
		mem = mem.Kill()
	}
	files := 0
	for _, name := range mem.Names() {
		if strings.HasPrefix(name, manifest.LogDir+"/") {
			files++
		}
	}
	if files > logretention.MostFiles+1 {
		t.Errorf("%d log files after 40 kills", files)
	}
	_, c := openStore(t, testOptions(mem))
	if _, err := c.Read(context.Background(), StringKey("a"), "a"); err != nil {
		t.Error(err)
	}
}
