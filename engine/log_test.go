package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/logretention"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
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

// TestOpenOnFullDiskWithManyLogs: that the log cannot be shrunk for want of room keeps nobody from the store.
func TestOpenOnFullDiskWithManyLogs(t *testing.T) {
	mem := vfs.NewMem()
	options := func() *Options {
		o := testOptions(mem)
		o.LogFileBytes, o.memtableBytes = 1<<20, 1<<20
		return o
	}
	_, c := openStore(t, options())
	for i := range 150 {
		upsert(t, c, fmt.Sprint(i), 1000)
	}
	mem = mem.Kill()
	for range logretention.MostFiles - 1 {
		_, c := openStore(t, options())
		upsert(t, c, "x", 10)
		mem = mem.Kill()
	}
	const plenty = 1 << 40
	mem.SetCapacity(plenty)
	free, err := mem.Free()
	must(t, err)
	mem.SetCapacity(plenty - int64(free) + 100<<10)
	db, c := openStore(t, options())
	if n := db.log.Stats().Files; n <= logretention.MostFiles {
		t.Fatalf("%d log files", n)
	}
	must(t, second(c.Read(t.Context(), StringKey("a"), "x")))
	mem.SetCapacity(plenty)
	must(t, db.retention.Hold())
	if n := db.log.Stats().Files; n > logretention.MostFiles {
		t.Errorf("%d log files when there is room", n)
	}
}

// TestLogFilesRemovedLater: log files that could not be removed are when the log is next released.
func TestLogFilesRemovedLater(t *testing.T) {
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	o := testOptions(faulty)
	o.memtableBytes = 1 << 20
	db, c := openStore(t, o)
	for i := range 300 {
		upsert(t, c, fmt.Sprint(i), 1000)
	}
	faulty.SetHook(func(call vfs.Call) error {
		if (call.Op == vfs.OpRename || call.Op == vfs.OpRemove) && strings.HasPrefix(call.Name, manifest.LogDir+"/") {
			return errInjected
		}
		return nil
	})
	if err := db.Flush(t.Context()); !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	faulty.SetHook(nil)
	stay := func() (n int) {
		for number := range db.storeManifest.state.LogFirst {
			if slices.Contains(mem.Names(), manifest.LogDir+"/"+wal.FileName(number)) {
				n++
			}
		}
		return n
	}
	if stay() == 0 {
		t.Fatal("no file stays")
	}
	must(t, db.retention.Release())
	if n := stay(); n > 0 {
		t.Errorf("%d files stay", n)
	}
}

// TestOpenWithLogThatStays: that log files cannot be removed keeps nobody from the store, and is told.
// Where the outcome of a manifest is unknown, the open fails.
func TestOpenWithLogThatStays(t *testing.T) {
	mem := vfs.NewMem()
	for range logretention.MostFiles {
		_, c := openStore(t, testOptions(mem))
		upsert(t, c, "x", 10)
		mem = mem.Kill()
	}
	open := func(hook func(vfs.Call) error) (*vfs.Faulty, *DB, error) {
		faulty := vfs.NewFaulty(mem.Clone())
		faulty.SetHook(hook)
		db, err := Open(t.Context(), "mem", testOptions(faulty))
		faulty.SetHook(nil)
		return faulty, db, err
	}
	met := 0
	faulty, db, err := open(func(call vfs.Call) error {
		if (call.Op == vfs.OpRename || call.Op == vfs.OpRemove) && call.Name == manifest.LogDir+"/"+wal.FileName(1) {
			met++
			return errInjected
		}
		return nil
	})
	must(t, err)
	if n := db.Stats().BackgroundErrors; met == 0 || n != 1 {
		t.Errorf("%d calls failed, %d background errors", met, n)
	}
	must(t, db.Close())
	_, c := openStore(t, testOptions(faulty))
	must(t, second(c.Read(t.Context(), StringKey("a"), "x")))

	renames := 0
	_, db, err = open(func(call vfs.Call) error {
		if _, ok := manifest.ParseName(call.To); !ok || call.Op != vfs.OpRename {
			return nil
		}
		if renames++; renames == 2 { // that the log begins later
			return errInjected
		}
		return nil
	})
	if err == nil {
		db.Close()
	}
	if renames != 2 || !errors.Is(err, errInjected) {
		t.Errorf("%d manifests, %v", renames, err)
	}
}

// TestReleaseLogAfterInheritance: the files of the log that an inheritance needed go when it ends.
func TestReleaseLogAfterInheritance(t *testing.T) {
	s := newSplitStore(t, byK, func(o *Options) { o.keepInheritance = true })
	for i := range 20 {
		s.put(i, fmt.Sprint(i), "text")
	}
	s.split(0, nil)
	must(t, s.db.log.Rotate())
	must(t, s.db.retention.Release())
	if got := s.db.log.First(); got == s.db.log.Newest() {
		t.Fatalf("the log begins with file %d, though it is inherited", got)
	}
	if wait := s.db.endInheritances(); wait != 0 {
		t.Fatal("an inheritance is left")
	}
	if got, newest := s.db.log.First(), s.db.log.Newest(); got != newest {
		t.Errorf("the log begins with file %d of %d", got, newest)
	}
}
