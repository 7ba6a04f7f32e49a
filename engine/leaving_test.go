package engine

import (
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestAfterFailedCreate has a container fail to be made half-way, on a full disk.
// Nothing of it stays, and if that could not be removed a split, a merge, a move
// and an installation, which get the same numbers, are not bothered by it.
func TestAfterFailedCreate(t *testing.T) {
	for _, stays := range []bool{false, true} {
		for _, next := range []string{"split", "merge", "move", "install", "create"} {
			t.Run(next, func(t *testing.T) {
				ctx := t.Context()
				mem := vfs.NewMem()
				faulty := vfs.NewFaulty(mem)
				s := newReplicaStore(t, testOptions(faulty))
				dirs := func() (n int) {
					names, err := mem.List(manifest.PartitionsDir)
					must(t, err)
					return len(names)
				}
				before := dirs()
				manifests := 0
				faulty.SetHook(func(c vfs.Call) error {
					switch {
					case c.Op == vfs.OpCreate && strings.HasPrefix(c.Name, manifest.PartitionsDir+"/"):
						if manifests++; manifests == 3 {
							return syscall.ENOSPC
						}
					case c.Op == vfs.OpList && stays:
						return syscall.EIO
					}
					return nil
				})
				if _, err := s.db.CreateContainer(ctx, "more", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4}); !errors.Is(err, ErrDiskFull) {
					t.Fatalf("%v, want ErrDiskFull", err)
				}
				faulty.SetHook(nil)
				if n := dirs(); !stays && n != before {
					t.Errorf("%d directories, %d before", n, before)
				} else if stays && n == before {
					t.Fatal("nothing is left: the test reached too little")
				}
				ids := s.plain.Partitions()
				var job *ReshapeJob
				var err error
				switch next {
				case "split":
					job, err = s.plain.Split(ctx, ids[0].ID, &SplitOptions{At: "08"})
				case "merge":
					job, err = s.plain.Merge(ctx, ids[0].ID, ids[1].ID)
				case "move":
					job, err = s.plain.MoveBoundary(ctx, ids[0].ID, ids[1].ID, "08")
				case "install":
					err = s.install()
				case "create":
					_, err = s.db.CreateContainer(ctx, "more", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
				}
				if err == nil && job != nil {
					err = job.Wait(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLateRemoval: the directory of a container that could not be made is removed late, and meets no other
// partition, though others are made meanwhile.
func TestLateRemoval(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	db, _ := openStore(t, testOptions(faulty))
	faulty.SetHook(func(c vfs.Call) error {
		switch {
		case c.Op == vfs.OpSyncDir && c.Name == manifest.PartitionsDir:
			return syscall.ENOSPC
		case c.Op == vfs.OpRemove && strings.HasPrefix(c.Name, manifest.PartitionsDir+"/"):
			return syscall.EBUSY
		}
		return nil
	})
	if _, err := db.CreateContainer(ctx, "more", byK); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("%v, want ErrDiskFull", err)
	}
	faulty.SetHook(nil)
	makeMore(t, db)
	if names, err := mem.List(manifest.PartitionsDir); err != nil || len(names) != 2 {
		t.Errorf("directories %v, %v; want those of two partitions", names, err)
	}
	wantMore(t, mem)
}

// makeMore makes the container "more" with an item in a file, before what was put off is removed.
func makeMore(t *testing.T, db *DB) {
	c, err := db.CreateContainer(t.Context(), "more", byK)
	must(t, err)
	upsert(t, c, "1", 100)
	must(t, db.Flush(t.Context()))
	db.env.Reclaim.RetryRemovals()
}

// wantMore wants the item of makeMore when the process is killed and the store opened again.
func wantMore(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	db, _ := openStore(t, testOptions(mem.Kill()))
	c, err := db.Container("more")
	must(t, err)
	must(t, second(c.Read(t.Context(), StringKey("a"), "1")))
}

// TestLateRemovalAfterKill: a process was killed while it made a container. The directory of a partition that it left
// is in use at the next open. The number may be given out again, so the directory is not removed late.
func TestLateRemovalAfterKill(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := openStore(t, testOptions(mem))
	left := manifest.PartitionDir(db.storeManifest.state.NextPartition)
	mem = mem.Kill()
	must(t, mem.Mkdir(left))
	must(t, mem.WriteFile(path.Join(left, manifest.Name(1)), nil))
	faulty := vfs.NewFaulty(mem)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRemove && strings.HasPrefix(c.Name, left) {
			return syscall.EBUSY
		}
		return nil
	})
	db, _ = openStore(t, testOptions(faulty))
	faulty.SetHook(nil)
	makeMore(t, db)
	wantMore(t, mem)
}
