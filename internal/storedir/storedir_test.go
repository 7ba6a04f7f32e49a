package storedir

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	must(t, vfs.WriteFileAtomic(fsys, name+".tmp", name, []byte("x")))
}

func made(t *testing.T, fsys vfs.FS) {
	t.Helper()
	state, err := Make(fsys, manifest.NewDir(fsys, ".", manifest.StoreKind), manifest.ID{1})
	must(t, err)
	if !state.Clean || state.NextPartition != 1 {
		t.Errorf("%+v", state)
	}
}

// TestCheck: an empty directory and one that a crash left may become a store; one with
// other files, or a store without its manifest, may not.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name     string
		make     func(vfs.FS)
		readOnly bool
		want     error
	}{
		{"empty", func(vfs.FS) {}, false, nil},
		{"empty, to be read", func(vfs.FS) {}, true, ErrNotStore},
		{"a store", func(f vfs.FS) { made(t, f) }, true, nil},
		{"a foreign file", func(f vfs.FS) { write(t, f, "notes.txt") }, false, ErrNotStore},
		{"left by a crash", func(f vfs.FS) { must(t, f.Mkdir(manifest.LogDir)); write(t, f, manifest.LockName) }, false, nil},
		{"a lost manifest", func(f vfs.FS) {
			must(t, f.Mkdir(manifest.LogDir))
			write(t, f, path.Join(manifest.LogDir, "000001.log"))
			write(t, f, "notes.txt")
		}, false, fault.ErrMissing},
	} {
		fsys := vfs.NewMem()
		tc.make(fsys)
		if err := Check(fsys, tc.readOnly); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestMakeRefuses: a directory with log files is not made a store, even where it was not
// checked.
func TestMakeRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, fsys.Mkdir(manifest.LogDir))
	write(t, fsys, path.Join(manifest.LogDir, "000001.log"))
	if _, err := Make(fsys, manifest.NewDir(fsys, ".", manifest.StoreKind), manifest.ID{1}); !errors.Is(err, fault.ErrMissing) {
		t.Error(err)
	}
}

// TestSweep: directories of unlisted partitions and temporary files go; listed ones and
// files that this program did not make stay.
func TestSweep(t *testing.T) {
	fsys := vfs.NewMem()
	made(t, fsys)
	for id := uint32(1); id <= 3; id++ {
		must(t, MakePartition(fsys, manifest.PartitionDir(id)))
		write(t, fsys, path.Join(manifest.PartitionDir(id), manifest.Name(1)))
	}
	write(t, fsys, path.Join(manifest.PartitionDir(3), "mine.txt"))
	left := []string{manifest.Name(9), manifest.ReserveName, manifest.BackupPrefix + "00c0ffee"}
	mine := []string{"thesis", manifest.BackupPrefix + "of-monday", manifest.BackupPrefix}
	for _, name := range append(left, mine...) {
		write(t, fsys, name+manifest.TempSuffix)
	}
	for _, dir := range []string{"drafts" + manifest.TempSuffix, manifest.Name(8) + manifest.TempSuffix} {
		must(t, fsys.Mkdir(dir))
		write(t, fsys, path.Join(dir, "mine.txt"))
	}
	write(t, fsys, path.Join(manifest.PartitionDir(3), "mine"+manifest.TempSuffix))
	write(t, fsys, path.Join(manifest.PartitionDir(2), manifest.SegmentName(4)+manifest.IndexSuffix+manifest.TempSuffix))
	write(t, fsys, "mine.txt")
	var failed []string
	must(t, Sweep(fsys, func(id uint32) bool { return id == 1 }, func(dir string, err error) { failed = append(failed, dir) }))
	if !slices.Equal(failed, []string{manifest.PartitionDir(3)}) {
		t.Errorf("not removed: %v", failed)
	}
	want := map[string]bool{
		manifest.PartitionDir(1): true, manifest.PartitionDir(2): false, path.Join(manifest.PartitionDir(3), "mine.txt"): true,
		path.Join(manifest.PartitionDir(3), "mine"+manifest.TempSuffix): true, "mine.txt": true,
		"drafts" + manifest.TempSuffix: true, manifest.Name(8) + manifest.TempSuffix: true,
	}
	for _, name := range left {
		want[name+manifest.TempSuffix] = false
	}
	for _, name := range mine {
		want[name+manifest.TempSuffix] = true
	}
	for name, want := range want {
		names, err := fsys.List(path.Dir(name))
		must(t, err)
		if slices.Contains(names, path.Base(name)) != want {
			t.Errorf("%s: is there: %v", name, !want)
		}
	}
	// An attempt that was not committed leaves nothing to the next one.
	must(t, MakePartition(fsys, manifest.PartitionDir(1)))
	if names, err := fsys.List(manifest.PartitionDir(1)); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestReserve: the file is made once, grows with the manifest, and is removed.
func TestReserve(t *testing.T) {
	fsys := vfs.NewMem()
	size := func() int64 {
		info, err := fsys.Stat(manifest.ReserveName)
		must(t, err)
		return info.Size
	}
	keep := func(manifestBytes int64, want bool) {
		t.Helper()
		kept, err := KeepReserve(fsys, 1000, manifestBytes)
		if must(t, err); kept != want {
			t.Errorf("kept: %v", kept)
		}
	}
	keep(400, true)
	if size() != 1000 {
		t.Error(size())
	}
	keep(1700, true)
	if size() != 4000 {
		t.Error(size())
	}
	keep(0, true)
	if size() != 4000 {
		t.Errorf("a reserve that is large enough was written again: %d", size())
	}
	if !ReleaseReserve(fsys) || ReleaseReserve(fsys) {
		t.Error("the reserve goes once")
	}
	fsys.SetCapacity(4000)
	keep(0, false) // there is no room
}
