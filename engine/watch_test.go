package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Every store that a test of this package opens is watched: when it is closed, or
// could not be opened, no goroutine of it, open file, mapping or lent memory may be
// left. Memory that it gives back before is fenced off (arena.Pool.Guard), so that a
// reader that comes late does not go unnoticed.

func init() {
	watch.opened, watch.closed = watched.open, watched.close
}

// TestMain fails if a store left something behind.
func TestMain(m *testing.M) {
	status := m.Run()
	if left := watched.report(); left != "" {
		fmt.Fprint(os.Stderr, left)
		status = max(status, 1)
	}
	os.Exit(status)
}

// watched are the stores that are open.
var watched = watcher{stores: make(map[*DB]*watchedStore), closed: make(map[int]string)}

type watcher struct {
	mu     sync.Mutex
	lastID int
	stores map[*DB]*watchedStore
	closed map[int]string // directories by id
	left   []string       // what closed stores left behind
}

// goroutinesEvery is at the how manieth Close goroutines are looked for at once; that
// stops the world. Those of all stores are looked for at the end of the tests.
const goroutinesEvery = 16

type watchedStore struct {
	id   int
	dir  string     // nonempty: on disk
	fs   *watchedFS // else
	look bool       // for goroutines, at whichever Close this is

	turns int // to wait for goroutines that are at their end, 0: endingTurns
}

// endingTurns is how often goroutines are looked for, until none is left.
const endingTurns = 1000

const watchLabel = "watched-store"

func (w *watcher) open(db *DB) (begun func()) {
	db.env.Pool.Guard()
	w.mu.Lock()
	w.lastID++
	s := &watchedStore{id: w.lastID}
	if db.opts.fs != nil {
		fsys := db.opts.fs
		if former, ok := fsys.(*watchedFS); ok {
			fsys = former.FS // a Refresh: the state before has a watch of its own
		}
		s.fs = &watchedFS{FS: fsys, open: make(map[io.Closer]string)}
		db.opts.fs = s.fs
	} else if dir, err := filepath.Abs(db.dir); err == nil {
		s.dir = dir
	}
	w.stores[db] = s
	w.mu.Unlock()
	// The goroutines that Open starts, and those that they start, have the label.
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(watchLabel, strconv.Itoa(s.id))))
	return func() { pprof.SetGoroutineLabels(context.Background()) }
}

// ignore ends the watch over a store that is not to be closed in order.
func (w *watcher) ignore(db *DB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stores, db)
}

// holds says whether a store on a file system is open.
func (w *watcher) holds(fsys vfs.FS) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		if s.fs != nil && s.fs.FS == fsys {
			return true
		}
	}
	return false
}

func (w *watcher) close(db *DB) {
	w.mu.Lock()
	s := w.stores[db]
	delete(w.stores, db)
	if s != nil {
		w.closed[s.id] = db.dir
	}
	look := len(w.closed)%goroutinesEvery == 1 || s != nil && s.look
	others := false
	if s != nil && s.dir != "" {
		for _, o := range w.stores {
			others = others || o.dir == s.dir
		}
	}
	w.mu.Unlock()
	if s == nil {
		return
	}
	var left []string
	if n := db.env.Pool.Used(); n != 0 {
		left = append(left, fmt.Sprintf("%d bytes of memory are lent", n))
	}
	if s.fs != nil {
		left = append(left, s.fs.names()...)
	} else if !others {
		left = append(left, openBelow(s.dir)...)
	}
	if look {
		if text := s.goroutines(); text != "" {
			left = append(left, text)
		}
	}
	if len(left) > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.left = append(w.left, fmt.Sprintf("left behind by the store %s:\n%s\nclosed by\n%s\n", db.dir, strings.Join(left, "\n"), debug.Stack()))
	}
}

func (w *watcher) report() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, text := range labelled(endingTurns, func(id int) bool { return w.closed[id] != "" }) {
		w.left = append(w.left, fmt.Sprintf("left behind by the store %s, at the end of the tests: a goroutine:\n%s\n", w.closed[id], text))
	}
	if len(w.left) == 0 {
		return ""
	}
	return fmt.Sprintf("%sFAIL: %d stores left something behind\n", strings.Join(w.left, ""), len(w.left))
}

// goroutines describes those of the store but the caller.
func (s *watchedStore) goroutines() string {
	pprof.SetGoroutineLabels(context.Background()) // a failed Open has the label itself
	if text, ok := labelled(cmp.Or(s.turns, endingTurns), func(id int) bool { return id == s.id })[s.id]; ok {
		return "a goroutine:\n" + text
	}
	return ""
}

// labelled describes a goroutine of each of the chosen stores that has one. What has
// said that it is at its end may need some turns to get there.
func labelled(turns int, chosen func(id int) bool) (left map[int]string) {
	for range turns {
		left = make(map[int]string)
		var text bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
			panic(err)
		}
		for part := range strings.SplitSeq(text.String(), "\n\n") {
			_, label, found := strings.Cut(part, fmt.Sprintf("%q:\"", watchLabel))
			label, _, _ = strings.Cut(label, "\"")
			if id, err := strconv.Atoi(label); found && err == nil && chosen(id) {
				left[id] = part
			}
		}
		if len(left) == 0 {
			return nil
		}
		for range 100 {
			runtime.Gosched()
		}
	}
	return left
}

// openBelow lists what the process has open or mapped below a directory, where the
// system tells.
func openBelow(dir string) (left []string) {
	below := func(name string) bool { return strings.HasPrefix(name, dir+"/") || name == dir }
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && below(to) {
			left = append(left, "descriptor of "+to)
		}
	}
	text, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(text)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && below(strings.TrimSpace(line[i:])) {
			left = append(left, "mapping of "+strings.TrimSpace(line[i:]))
		}
	}
	return left
}

// watchedFS knows the files that a store has open, and its lock.
type watchedFS struct {
	vfs.FS
	mu   sync.Mutex
	open map[io.Closer]string
}

func (f *watchedFS) names() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Values(f.open)) {
		left = append(left, "open file "+name)
	}
	return left
}

func (f *watchedFS) note(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &watchedFile{File: file, fs: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[w] = file.Name()
	return w, nil
}

func (f *watchedFS) gone(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

func (f *watchedFS) Create(name string) (vfs.File, error)    { return f.note(f.FS.Create(name)) }
func (f *watchedFS) Open(name string) (vfs.File, error)      { return f.note(f.FS.Open(name)) }
func (f *watchedFS) OpenWrite(name string) (vfs.File, error) { return f.note(f.FS.OpenWrite(name)) }

func (f *watchedFS) Lock(name, note string) (io.Closer, error) {
	lock, err := f.FS.Lock(name, note)
	if err != nil {
		return nil, err
	}
	w := &watchedLock{Closer: lock, fs: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[w] = name
	return w, nil
}

type watchedFile struct {
	vfs.File
	fs *watchedFS
}

func (w *watchedFile) Close() error {
	w.fs.gone(w)
	return w.File.Close()
}

type watchedLock struct {
	io.Closer
	fs *watchedFS
}

func (w *watchedLock) Close() error {
	w.fs.gone(w)
	return w.Closer.Close()
}
