package backup

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// TestCheckpoint fails each call to the file system of a checkpoint: what was made is
// removed. If none fails the checkpoint has the files of the partition, but for a damaged
// one that is missing, and of the log those from the first that is needed to the newest.
func TestCheckpoint(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	logFile := func(n uint64) string { return path.Join(manifest.LogDir, wal.FileName(n)) }
	from := vfs.NewMem()
	dir := manifest.PartitionDir(3)
	for _, d := range []string{manifest.LogDir, manifest.PartitionsDir, dir} {
		must(from.Mkdir(d))
	}
	segment := path.Join(dir, manifest.SegmentName(5))
	must(from.WriteFile(segment, []byte("segment")))
	for n := range uint64(4) {
		must(from.WriteFile(logFile(n+1), []byte("log")))
	}
	tree := &lsm.Tree{
		Env: &lsm.Env{FS: from, StoreID: manifest.ID{7}}, Family: &lsm.Family{Levels: 1}, ID: 3, Dir: dir,
		Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()},
	}
	var runs []*lsm.Run
	for _, number := range []uint64{5, 6} {
		f, err := tree.AsideFile(manifest.File{Number: number, Size: 7, Max: manifest.Bytes{0xFF}}, "file", fault.Corrupt("file", 0, "damaged"))
		must(err)
		runs = append(runs, &lsm.Run{Files: []*lsm.File{f}})
	}
	tree.Version.Store(&lsm.Version{Runs: runs})
	state := manifest.Store{
		Head: manifest.Head{
			StoreID: manifest.ID{7}, SeqLimit: 10, NextContainer: 2, NextPartition: 4, Clean: true, LogFirst: 2,
			Intents: []manifest.Intent{{}},
		},
		Containers: []manifest.Container{{ID: 1, Name: "c"}},
		Partitions: []manifest.Partition{{ID: 3, Container: 1, Max: manifest.Bytes{0xFF}}},
	}
	injected := errors.New("injected")
	for n := int64(1); ; n++ {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.FailAt(n, injected, false)
		c := NewCheckpoint(from, faulty)
		err := c.Begin()
		if err == nil {
			err = c.LinkPartition(t.Context(), tree)
		}
		if err == nil {
			err = c.LinkLog(state.Clone(), 4)
		}
		if err == nil {
			err = c.Commit()
		}
		if faulty.Calls() >= n {
			if err != nil {
				must(c.Remove())
				if names, listErr := mem.List("."); listErr != nil || len(names) > 0 {
					t.Errorf("call %d failed (%v), left: %v, %v", n, err, names, listErr)
				}
			}
			continue
		}
		must(err)
		image := mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		want := []string{manifest.Name(1), path.Join(dir, manifest.Name(1)), segment, logFile(2), logFile(3)}
		names := image.Names()
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("the checkpoint has %q, want %q", names, want)
		}
		s, err := manifest.LoadNewest[manifest.Store](image, ".", manifest.StoreKind)
		must(err)
		p, err := manifest.LoadNewest[manifest.Files](image, dir, manifest.PartitionKind)
		must(err)
		if s.Clean || len(s.Intents) > 0 || s.LogFirst != 2 || len(s.Partitions) != 1 || !p.Lists(5) || !p.Lists(6) {
			t.Errorf("manifests %+v and %+v", s, p)
		}
		break
	}
}

// TestTwoCheckpoints: of two checkpoints into one directory, which both have found empty, the first
// is made. The other is refused, and removes nothing of it.
func TestTwoCheckpoints(t *testing.T) {
	from, to := vfs.NewMem(), vfs.NewMem()
	first, second := NewCheckpoint(from, to), NewCheckpoint(from, to)
	state := manifest.Store{Head: manifest.Head{StoreID: manifest.ID{7}, SeqLimit: 10, NextContainer: 1, NextPartition: 1}}
	if err := errors.Join(from.Mkdir(manifest.LogDir), first.Begin(), first.LinkLog(state, 1), first.Commit()); err != nil {
		t.Fatal(err)
	}
	if err := second.Begin(); !errors.Is(err, fault.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if err := second.Remove(); err != nil {
		t.Error(err)
	}
	var made manifest.Store
	if err := manifest.NewDir(to, ".", manifest.StoreKind).Load(&made); err != nil || made.StoreID != state.StoreID {
		t.Errorf("of the first there is %+v, %v", made.Head, err)
	}
}
