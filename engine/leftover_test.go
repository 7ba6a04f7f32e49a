package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// mappedFS behaves as Windows does: no name of a file goes while the file is
// open under any of its names.
type mappedFS struct {
	vfs.FS
	open    map[uint64]int // by inode
	refused int
}

func (m *mappedFS) Open(name string) (vfs.File, error) {
	info, err := m.FS.Stat(name)
	if err != nil {
		return nil, err
	}
	f, err := m.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".seg") {
		return f, err
	}
	m.open[info.ID]++
	return &mappedFile{f, m, info.ID}, nil
}

func (m *mappedFS) Remove(name string) error {
	if info, err := m.FS.Stat(name); err == nil && m.open[info.ID] > 0 {
		m.refused++
		return fmt.Errorf("remove %s: %w", name, syscall.EBUSY)
	}
	return m.FS.Remove(name)
}

type mappedFile struct {
	vfs.File
	fs *mappedFS
	id uint64
}

func (f *mappedFile) Close() error {
	if f.fs != nil {
		f.fs.open[f.id]--
		f.fs = nil
	}
	return f.File.Close()
}

// names lists the segment files and directories of partitions.
func (m *mappedFS) names(t *testing.T) (segments, directories int) {
	t.Helper()
	dirs, err := m.FS.List(manifest.PartitionsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		names, err := m.FS.List(manifest.PartitionsDir + "/" + d)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasSuffix(n, ".seg") {
				segments++
			}
		}
	}
	return segments, len(dirs)
}

// TestRemoveWhileInUse splits, merges and trims where no name of an open file
// can be removed: the names go when the files are closed, and nothing is
// reported.
func TestRemoveWhileInUse(t *testing.T) {
	mapped := &mappedFS{FS: vfs.NewMem(), open: make(map[uint64]int)}
	s := newSplitStore(t, byK, func(o *Options) {
		o.fs = mapped
		o.Events = &EventListener{BackgroundError: func(err error) { t.Errorf("in the background: %v", err) }}
	})
	fill := func(text string) {
		for i := range 300 {
			s.put(i%40, fmt.Sprint(i), text)
		}
		must(s.t, s.db.Flush(context.Background()))
	}
	fill("first")
	fill("second")
	reader, err := s.c.Snapshot(context.Background())
	must(s.t, err)
	s.split(0, nil)
	if mapped.refused == 0 {
		t.Fatal("the parent's names went while the children had the files open")
	}
	s.check()
	must(s.t, s.db.Compact(context.Background()))
	must(s.t, reader.Close())
	must(s.t, s.db.Compact(context.Background()))
	s.check()
	if segments, directories := mapped.names(t); directories != 2 || segments != 2 {
		t.Errorf("%d segment files in %d directories after all were written anew", segments, directories)
	}
	// The store closes, or ends, with names that are still in use.
	fill("third")
	s.split(0, nil)
	s.merge(0)
	if _, directories := mapped.names(t); directories == len(s.ids()) {
		t.Error("nothing was in use")
	}
	s.check()
	must(s.t, s.db.Close())
	if _, directories := mapped.names(t); directories != len(s.db.partitions()) {
		t.Errorf("%d directories of %d partitions after it was closed", directories, len(s.db.partitions()))
	}
	s.open()
	s.check()
	s.split(0, nil)
	must(s.t, s.db.Compact(context.Background()))
	next := &mappedFS{FS: mapped.FS.(*vfs.Mem).Kill(), open: make(map[uint64]int)}
	s.db.Close()
	mapped, s.opts.fs = next, next
	s.open()
	s.check()
	must(s.t, s.db.Compact(context.Background()))
	s.check()
	if segments, directories := mapped.names(t); directories != len(s.ids()) || segments > 2*len(s.ids()) {
		t.Errorf("%d segment files in %d directories of %d partitions", segments, directories, len(s.ids()))
	}
}

// TestLeftoverStays: a store opens though what a crash has left cannot be removed. A later open removes it.
func TestLeftoverStays(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	db, _ := openStore(t, testOptions(mem))
	file := db.partitions()[0].Dir + "/" + manifest.SegmentName(1000)
	must(t, db.Close())
	left := []string{file, file + manifest.TempSuffix, manifest.Name(900) + manifest.TempSuffix}
	for _, name := range left {
		must(t, mem.WriteFile(name, []byte("unfinished")))
	}
	faulty := vfs.NewFaulty(mem)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRemove && slices.Contains(left, c.Name) {
			return fault.IO("remove", c.Name, -1, syscall.EPERM)
		}
		return nil
	})
	db, c := openStore(t, testOptions(faulty))
	upsert(t, c, "a", 100)
	must(t, db.Flush(ctx))
	checkVerified(t, db)
	must(t, db.Close())
	db, c = openStore(t, testOptions(mem))
	must(t, second(c.Read(ctx, StringKey("a"), "a")))
	for _, name := range left {
		if _, err := mem.Stat(name); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	checkVerified(t, db)
}
