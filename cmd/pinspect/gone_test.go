package main

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// hooked is a file system that calls a hook before each call that looks at a
// name.
type hooked struct {
	vfs.FS
	before func(name string)
	inode  uint64 // of all files, if it is not 0
	denied string // names that begin or end so may not be read
}

func (h *hooked) List(name string) ([]string, error) {
	h.before(name)
	return h.FS.List(name)
}

func (h *hooked) Open(name string) (vfs.File, error) {
	h.before(name)
	if h.denied != "" && (strings.HasPrefix(name, h.denied) || strings.HasSuffix(name, h.denied)) {
		return nil, &engine.IOError{Op: "open", File: h.Path(name), Offset: -1, Err: fs.ErrPermission}
	}
	return h.FS.Open(name)
}

func (h *hooked) Stat(name string) (vfs.Info, error) {
	h.before(name)
	info, err := h.FS.Stat(name)
	if h.inode != 0 {
		info.ID = h.inode
	}
	return info, err
}

// verifyThrough verifies a store through a file system and returns what was
// found and the summary.
func verifyThrough(t *testing.T, dir string, fs *hooked) (found string, sum verifySummary) {
	t.Helper()
	found, sum, err := tryVerifyThrough(t, dir, fs)
	check(t, err)
	return found, sum
}

func tryVerifyThrough(t *testing.T, dir string, fs *hooked) (found string, sum verifySummary, err error) {
	t.Helper()
	root, err := vfs.OpenRoot(dir)
	check(t, err)
	defer layout.CloseRoot(root)
	fs.FS = root
	var b bytes.Buffer
	out := &output{w: bufio.NewWriter(&b)}
	env := &environment{stderr: &b}
	v := &verifier{ctx: t.Context(), files: &layout.Files{FS: fs, Dir: dir}, dir: dir, line: env.newLine(), out: out, seen: make(map[layout.Finding]bool)}
	err = v.run()
	check(t, out.w.Flush())
	return b.String(), v.sum, err
}

// twoContainers makes a store with two containers of one file each, and leaves
// it open.
func twoContainers(t *testing.T, dir string) *engine.DB {
	t.Helper()
	ctx := t.Context()
	db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered})
	check(t, err)
	for _, name := range []string{"goes", "stays"} {
		c, err := db.CreateContainer(ctx, name, engine.ContainerDef{PartitionKey: []string{"/k"}})
		check(t, err)
		_, err = c.Upsert(ctx, []byte(`{"id":"1","k":"x"}`), nil)
		check(t, err)
	}
	check(t, db.Flush(ctx))
	return db
}

// TestDroppedMeanwhile drops a container at each call with which a command
// looks at the store: nothing is damaged, and what is left is read.
func TestDroppedMeanwhile(t *testing.T) {
	ctx := t.Context()
	for at, met := 1, true; met; at++ {
		dir := filepath.Join(t.TempDir(), "store")
		db := twoContainers(t, dir)
		met = false
		looks := 0
		fs := &hooked{before: func(name string) {
			if looks++; looks == at {
				met = true
				check(t, db.DropContainer(ctx, "goes"))
				check(t, db.Close()) // its files are gone then
			}
		}}
		if found, sum := verifyThrough(t, dir, fs); found != "" || sum.Partitions < 1 {
			t.Errorf("dropped at look %d: verify checked %d partitions and found %s", at, sum.Partitions, found)
		}
		if !met {
			check(t, db.Close())
			return
		}
	}
}

// TestLayoutDroppedMeanwhile is TestDroppedMeanwhile for the commands that show
// the files.
func TestLayoutDroppedMeanwhile(t *testing.T) {
	ctx := t.Context()
	for at, met := 1, true; met; at++ {
		dir := filepath.Join(t.TempDir(), "store")
		db := twoContainers(t, dir)
		root, err := vfs.OpenRoot(dir)
		check(t, err)
		met = false
		looks := 0
		f := &layout.Files{Dir: dir, FS: &hooked{FS: root, before: func(name string) {
			if looks++; looks == at {
				met = true
				check(t, db.DropContainer(ctx, "goes"))
				check(t, db.Close())
			}
		}}}
		l, err := f.ReadLayout(ctx, layout.Properties, nil)
		if err != nil || len(l.Damage()) > 0 {
			t.Errorf("dropped at look %d: %v, %v", at, l, err)
		}
		layout.CloseRoot(root)
		if !met {
			check(t, db.Close())
		}
	}
}

// TestLogClosedMeanwhile: a log file that its writer closes while it is read is read again, and its records
// count once.
func TestLogClosedMeanwhile(t *testing.T) {
	s := newSample(t)
	f, err := layout.Open(s.dir)
	check(t, err)
	defer f.Close()
	l, err := f.ReadLayout(t.Context(), layout.ManifestsOnly, nil)
	check(t, err)
	if len(l.State.LogClosed) == 0 {
		t.Fatal("no log file is closed")
	}
	number := l.State.LogClosed[len(l.State.LogClosed)-1].File
	l.State.LogClosed = nil // as it was before
	var text bytes.Buffer
	w := &logView{files: f, layout: l, out: &output{w: bufio.NewWriter(&text)}, listRecords: true, streams: make(map[wal.Stream]*streamRow)}
	check(t, errors.Join(w.read(t.Context(), number, 0), w.out.w.Flush()))
	var inStreams int64
	for _, stream := range w.streams {
		inStreams += stream.Records
	}
	row, listed := w.rows[0], int64(strings.Count(text.String(), "\n")-2)
	if row.State != "closed" || row.Records == 0 || inStreams != row.Records || listed != row.Records {
		t.Errorf("%s with %d records, %d by stream, %d listed", row.State, row.Records, inStreams, listed)
	}
}

// TestLogReleasedMeanwhile: a log file that its writer releases while it is read has the records that its streams have.
func TestLogReleasedMeanwhile(t *testing.T) {
	s := newSample(t)
	f, err := layout.Open(s.dir)
	check(t, err)
	defer f.Close()
	l, err := f.ReadLayout(t.Context(), layout.ManifestsOnly, nil)
	check(t, err)
	number := l.State.LogClosed[len(l.State.LogClosed)-1].File
	release := sync.OnceFunc(func() {
		dir := f.StoreManifests()
		var state manifest.Store
		check(t, dir.Load(&state))
		state.LogFirst, state.LogClosed = number+1, nil
		check(t, dir.Store(&state))
		patch(t, filepath.Join(s.dir, manifest.LogDir, wal.FileName(number)), 40, func(b byte) byte { return b + 1 }) // its header
	})
	w := &logView{files: f, layout: l, out: &output{w: bufio.NewWriterSize(interrupting(release), 16)}, listRecords: true, streams: make(map[wal.Stream]*streamRow)}
	check(t, w.read(t.Context(), number, 0))
	var inStreams int64
	for _, stream := range w.streams {
		inStreams += stream.Records
	}
	if len(w.rows) != 1 || w.rows[0].State != "released" || inStreams == 0 || w.rows[0].Records != inStreams {
		t.Errorf("%+v, %d records by stream", w.rows, inStreams)
	}
}

// TestInodeOfAnother verifies a store in which each file got the inode of the
// one before it, which was released: all are read.
func TestInodeOfAnother(t *testing.T) {
	s := newSample(t)
	names := storeFiles(t, s.dir, "p/*/*.seg")
	found, sum := verifyThrough(t, s.dir, &hooked{before: func(string) {}, inode: 7})
	if found != "" || sum.Segments != len(names) {
		t.Errorf("verified %d of %d files: %s", sum.Segments, len(names), found)
	}
}

// TestUnreadable denies the files of each kind: the store cannot be verified,
// which says nothing about damage.
func TestUnreadable(t *testing.T) {
	s := newSample(t)
	for _, denied := range []string{"MANIFEST-", "p/000001/MANIFEST-", ".seg", ".log"} {
		_, _, err := tryVerifyThrough(t, s.dir, &hooked{before: func(string) {}, denied: denied})
		if !errors.Is(err, fs.ErrPermission) || errors.As(err, new(findingError)) {
			t.Errorf("%s: %v", denied, err)
		}
	}
}
