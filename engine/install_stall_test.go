package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/vfs"
)

// replicaStore is a store with a replicated container of one physical partition,
// an image of which was exported, and another container.
type replicaStore struct {
	*testing.T
	db     *DB
	docs   *Container
	plain  *Container
	image  []byte
	index  uint64
	filler int
}

func newReplicaStore(t *testing.T, o *Options) *replicaStore {
	t.Helper()
	s := &replicaStore{T: t}
	var err error
	s.db, err = Open(t.Context(), "store", o)
	must(t, err)
	t.Cleanup(func() { s.db.Close() })
	s.docs, err = s.db.CreateContainer(t.Context(), "docs", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(t, err)
	s.plain, err = s.db.CreateContainer(t.Context(), "plain", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
	must(t, err)
	must(t, s.apply("first", 100))
	var image bytes.Buffer
	_, err = s.docs.ExportPartition(t.Context(), s.docs.Partitions()[0].ID, &image)
	must(t, err)
	s.image = image.Bytes()
	return s
}

// apply applies an entry with one document to the replicated container.
func (s *replicaStore) apply(id string, size int) error {
	s.index++
	b := s.docs.NewBatch(StringKey("a"))
	if err := b.Upsert(smallDocument(id, "a", size), nil); err != nil {
		return err
	}
	at := time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(s.index) * time.Second)
	_, err := s.docs.ApplyAt(context.Background(), s.docs.Partitions()[0].ID, Entry{Index: s.index, Time: at, Batches: []*Batch{b}})
	return err
}

// fill writes so many bytes to the other container, to all of its partitions.
func (s *replicaStore) fill(bytes int) error {
	const size = 100_000
	for ; bytes > 0; bytes -= size {
		s.filler++
		if _, err := s.plain.Upsert(context.Background(), smallDocument("x", fmt.Sprint(s.filler), size), &WriteOptions{Durability: Buffered}); err != nil {
			return err
		}
	}
	return nil
}

func (s *replicaStore) install() error {
	_, err := s.docs.InstallPartition(context.Background(), bytes.NewReader(s.image))
	return err
}

// ended returns the error of a call that must have come to its end by now.
func (s *replicaStore) ended(what string, done <-chan error) error {
	s.Helper()
	select {
	case err := <-done:
		return err
	default:
		s.Fatalf("%s has not ended", what)
		return nil
	}
}

// TestInstallBesideDrop has an installation and a drop of its container come to
// the same partition while somebody merges there: both come to an end.
func TestInstallBesideDrop(t *testing.T) {
	for _, dropFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			opts.manual = false
			s := newReplicaStore(t, opts)
			p := s.docs.routing.Load().parts[0]
			must(t, p.Compacting.Lock(t.Context())) // as a merge does
			var installed, dropped <-chan error
			for i := range 2 {
				if (i == 0) == dropFirst {
					dropped = background(func() error { return s.db.DropContainer(context.Background(), "docs") })
				} else {
					installed = background(s.install)
				}
				synctest.Wait()
			}
			p.Compacting.Unlock()
			synctest.Wait()
			must(t, s.ended("the drop", dropped))
			if err := s.ended("the installation", installed); dropFirst && !errors.Is(err, ErrClosed) || !dropFirst && err != nil {
				t.Errorf("installation: %v", err)
			}
			must(t, s.db.Close())
		})
	}
}

// TestInstallBesideMerge installs a partition while a merge in the one that it
// replaces takes long: the other containers take many times the memory that
// writes have meanwhile.
func TestInstallBesideMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := testOptions(vfs.NewMem())
		opts.manual, opts.memtableBytes, opts.LogFileBytes = false, 1<<30, 256<<20 // only memory asks for flushes
		s := newReplicaStore(t, opts)
		for i := 0; s.db.env.Pool.Used() < s.db.env.Pool.Limit()/5*2; i++ { // the largest memtable of all
			must(t, s.apply(fmt.Sprint(i), 100_000))
		}
		p := s.docs.routing.Load().parts[0]
		must(t, p.Compacting.Lock(t.Context())) // as a merge does
		installed := background(s.install)
		synctest.Wait()
		wrote := background(func() error { return s.fill(2 * minMemoryBudget) })
		time.Sleep(scheduler.IdleFlush / 2) // of the bubble: writers that are slowed down get their time
		synctest.Wait()
		select {
		case err := <-wrote:
			must(t, err)
		default:
			t.Error("writes to another container wait for the merge")
		}
		p.Compacting.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		must(t, s.ended("the installation", installed))
		must(t, s.db.Close())
	})
}

// storeSyncs holds back the sync of store manifests once it is shut.
type storeSyncs struct {
	vfs.FS
	shut    atomic.Bool
	reached chan struct{} // one waits
	open    chan struct{} // closed: it goes on
}

func (f *storeSyncs) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err == nil && strings.HasPrefix(name, "MANIFEST-") {
		return storeManifest{file, f}, nil
	}
	return file, err
}

type storeManifest struct {
	vfs.File
	gate *storeSyncs
}

func (f storeManifest) Sync() error {
	if f.gate.shut.Load() {
		f.gate.reached <- struct{}{}
		<-f.gate.open
	}
	return f.File.Sync()
}

// TestWritesBesideInstall holds an installation back at its commit point: writes
// to all partitions go on meanwhile, to the one too that it replaces.
func TestWritesBesideInstall(t *testing.T) {
	gate := &storeSyncs{FS: vfs.NewMem(), reached: make(chan struct{}, 10), open: make(chan struct{})}
	s := newReplicaStore(t, testOptions(gate))
	p := s.docs.routing.Load().parts[0]
	// Before its commit point comes the manifest of the new partition.
	gate.FS = &renameFS{FS: gate.FS, renamed: func(to string) {
		if strings.HasPrefix(to, manifest.PartitionsDir+"/") && strings.Contains(to, "/MANIFEST-") {
			gate.shut.Store(true)
		}
	}}
	installed := background(s.install)
	<-gate.reached
	if !p.Commit.TryLock() {
		t.Error("the commit lock is held over the sync of the store manifest")
	} else {
		p.Commit.Unlock()
		must(t, s.apply("meanwhile", 100))
		must(t, s.fill(1))
	}
	close(gate.open)
	must(t, <-installed)
	// It shows what was installed, and takes writes.
	if _, err := s.docs.Read(t.Context(), StringKey("a"), "first"); err != nil {
		t.Error(err)
	}
	if _, err := s.docs.Read(t.Context(), StringKey("a"), "meanwhile"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a write to the partition that was replaced: %v", err)
	}
	s.index = 1
	must(t, s.apply("after", 100))
	must(t, s.db.Close())
}

// endless counts how often it is asked whether it has ended.
type endless struct {
	context.Context
	asked atomic.Int64
}

func (e *endless) Err() error { e.asked.Add(1); return nil }

// TestInstallYields: an installation works in pieces of 64 items, as flushes and compactions do,
// and not in one go.
func TestInstallYields(t *testing.T) {
	s := newReplicaStore(t, testOptions(vfs.NewMem()))
	install := func() int64 {
		var image bytes.Buffer
		_, err := s.docs.ExportPartition(t.Context(), s.docs.Partitions()[0].ID, &image)
		must(t, err)
		ctx := &endless{Context: t.Context()}
		_, err = s.docs.InstallPartition(ctx, &image)
		must(t, err)
		return ctx.asked.Load()
	}
	few := install()
	for i := range 640 {
		must(t, s.apply(fmt.Sprintf("%04d", i), 40))
	}
	if many := install(); many < few+10 {
		t.Errorf("640 items more are installed with %d pauses in place of %d", many, few)
	}
}

// TestCutsOfFormerPartitions: a snapshot that comes to a partition that was replaced meanwhile sees what its successors have.
func TestCutsOfFormerPartitions(t *testing.T) {
	ctx := t.Context()
	s := newReplicaStore(t, testOptions(vfs.NewMem()))
	before := s.docs.routing.Load()
	job, err := s.docs.Split(ctx, s.docs.Partitions()[0].ID, &SplitOptions{At: "20"})
	must(t, err)
	must(t, job.Wait(ctx))
	b := s.docs.NewBatch(StringKey("a"))
	must(t, b.Upsert(smallDocument("first", "a", 200), nil))
	must(t, second(s.docs.ApplyAt(ctx, partitionOf(s.docs, StringKey("a")), Entry{Index: s.index + 1, Time: time.Unix(1_000_000_000, 0), Batches: []*Batch{b}})))
	must(t, s.db.Flush(ctx))
	must(t, s.db.Compact(ctx))
	snapshot := &Snapshot{c: s.docs, by: pins.Snapshot, done: make(chan struct{})}
	must(t, second(snapshot.takeCuts(before)))
	must(t, second(snapshot.Read(ctx, StringKey("a"), "first")))
	must(t, snapshot.Close())
	if held := s.db.env.Pins.Held(); len(held) > 0 {
		t.Errorf("still pinned: %+v", held)
	}
}

// TestSnapshotFailsWithoutPin: a snapshot of a replicated container that fails is none, and leaves nothing pinned.
func TestSnapshotFailsWithoutPin(t *testing.T) {
	mem := vfs.NewMem()
	mem.SetCopyOnWrite(true)
	s := newReplicaStore(t, testOptions(mem))
	mem.SetCapacity(0)
	var err error
	for range 1000 {
		if err = s.apply("more", 1000); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the disk was never full")
	}
	if snapshot, err := s.docs.Snapshot(t.Context()); err == nil || snapshot != nil {
		t.Fatalf("%v, %v", snapshot, err)
	}
	if held := s.db.env.Pins.Held(); len(held) > 0 {
		t.Errorf("still pinned: %+v", held)
	}
	mem.SetCapacity(math.MaxInt64)
}
