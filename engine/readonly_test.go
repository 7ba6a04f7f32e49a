package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/readopen"
	"github.com/cleavestore/cleave/internal/vfs"
)

// openReader opens the store of openStore read-only.
func openReader(t *testing.T, opts *Options) *DB {
	t.Helper()
	o := *opts
	o.ReadOnly = true
	reader, err := Open(t.Context(), "mem", &o)
	must(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader
}

// TestVerifyReadOnlyAfterDrop verifies a store that is open read-only, after the
// writer has dropped a container and split a partition: nothing is wrong.
func TestVerifyReadOnlyAfterDrop(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	db, c := openStore(t, opts)
	for i := range 20 {
		_, err := c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil)
		must(t, err)
	}
	other, err := db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}})
	must(t, err)
	upsert(t, other, "1", 10)
	must(t, db.Flush(ctx))
	reader := openReader(t, opts)
	must(t, db.DropContainer(ctx, "other"))
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	must(t, db.Compact(ctx))
	must(t, db.Close()) // what was dropped is removed
	checkVerified(t, reader)
}

// restlessFS lets a writer merge the files of a store away whenever a reader
// has read a manifest and is about to open one of them.
type restlessFS struct {
	vfs.FS
	merge func()
	opens int
}

func (r *restlessFS) Open(name string) (vfs.File, error) {
	if path.Ext(name) == ".seg" {
		r.opens++
		r.merge()
	}
	return r.FS.Open(name)
}

// TestReadOnlyBesideRestlessWriter opens a store whose writer replaces its files
// each time that they are to be opened: the attempts end, and the error is not
// taken for damage.
func TestReadOnlyBesideRestlessWriter(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	db, c := openStore(t, opts)
	n := 0
	merge := func() {
		for range 2 {
			n++
			upsert(t, c, fmt.Sprint(n%5), 10)
			must(t, db.Flush(ctx))
		}
		must(t, db.Compact(ctx))
	}
	merge()
	o := *opts
	restless := &restlessFS{FS: mem, merge: merge}
	o.fs, o.ReadOnly = restless, true
	reader, err := Open(ctx, "mem", &o)
	if err == nil {
		reader.Close()
	}
	if !errors.Is(err, readopen.ErrStale) || errors.Is(err, ErrMissing) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("opened: %v", err)
	}
	if restless.opens < 10 {
		t.Errorf("gave up after %d files", restless.opens)
	}
	restless.merge = func() {}
	reader, err = Open(ctx, "mem", &o)
	must(t, err)
	must(t, reader.Close())
}

// TestOpenPartitionDirectory opens the directory of a partition as a store: it is
// refused, and nothing is left there.
func TestOpenPartitionDirectory(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := Open(ctx, dir, nil)
	must(t, err)
	_, err = db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
	must(t, err)
	must(t, db.Close())
	part := filepath.Join(dir, "p", "000001")
	list := func() string {
		names, err := os.ReadDir(part)
		must(t, err)
		return fmt.Sprint(names)
	}
	before := list()
	for _, readOnly := range []bool{false, true} {
		if _, err = Open(ctx, part, &Options{ReadOnly: readOnly}); !errors.Is(err, ErrNotStore) || !strings.Contains(err.Error(), "partition 1") {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	if now := list(); now != before {
		t.Errorf("there was %s, now %s", before, now)
	}
}

func TestReadOnlyAbsent(t *testing.T) {
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "absent"), &Options{ReadOnly: true}); !errors.Is(err, ErrNotStore) {
		t.Error(err)
	}
}

// lockedOut is a file system that cannot be written.
type lockedOut struct{ vfs.FS }

func (l lockedOut) Lock(name, note string) (io.Closer, error) {
	return nil, fault.IO("lock", l.Path(name), -1, syscall.EROFS)
}

// TestOpenReadOnlyMount: the refusal names the option.
func TestOpenReadOnlyMount(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	db, _ := openStore(t, opts)
	must(t, db.Close())
	o := *opts
	o.fs = lockedOut{opts.fs}
	if _, err := Open(t.Context(), "mem", &o); !errors.Is(err, ErrIO) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "Options.ReadOnly") {
		t.Error(err)
	}
}

// TestReadOnlySequence: a store that is open read-only tells the sequence of the newest write
// that it shows, as its writer does, also in snapshots.
func TestReadOnlySequence(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	db, c := openStore(t, opts)
	upsert(t, c, "1", 10)
	must(t, db.Flush(ctx))
	reader := openReader(t, opts)
	in, err := reader.Container("c")
	must(t, err)
	var snapshots []*Snapshot
	var want []uint64
	for i := range 3 {
		snapshot, err := in.Snapshot(ctx)
		must(t, err)
		defer snapshot.Close()
		snapshots, want = append(snapshots, snapshot), append(want, db.Stats().LastSeq)
		if got := reader.Stats().LastSeq; got != want[i] {
			t.Errorf("Stats: %d, want %d", got, want[i])
		}
		upsert(t, c, fmt.Sprint(i), 10) // in the log only
		must(t, reader.Refresh(ctx))
	}
	for i, s := range snapshots {
		if s.Seq() != want[i] || i > 0 && want[i] <= want[i-1] {
			t.Errorf("snapshot %d: %d, want %d", i, s.Seq(), want[i])
		}
	}
}
