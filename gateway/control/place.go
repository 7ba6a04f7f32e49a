package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/pageapi"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
)

// place is where a store and its checkpoints are.
type place interface {
	// open opens the present store.
	open(ctx context.Context) (*engine.DB, error)
	// keep makes a checkpoint of the open store.
	keep(ctx context.Context, db *engine.DB, name string) error
	// prepare makes the next store out of a checkpoint.
	prepare(ctx context.Context, name string) error
	// turn makes the next store the present one. The function that it returns undoes that;
	// done, that the former one returns, removes the former store, which is closed then.
	turn() (undo, done func() error, err error)
	checkpoints() ([]Checkpoint, error)
	remove(name string) error
}

// Checkpoint is a state of the whole store to which it can return.
type Checkpoint struct {
	Name string `json:"name"`
}

var checkpointName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

func checkName(name string) error {
	if !checkpointName.MatchString(name) {
		return pageapi.BadRequest("name: want 1 to 64 letters, digits and _ - . of which the first is no dot")
	}
	return nil
}

func noCheckpoint(name string) error {
	return pageapi.Failure{Status: http.StatusNotFound, Kind: "not_found", Text: fmt.Sprintf("there is no checkpoint %q", name)}
}

func checkpointExists(name string) error {
	return pageapi.Failure{Status: http.StatusConflict, Kind: "exists", Text: fmt.Sprintf("there is a checkpoint %q already", name)}
}

// environment puts the clock under a store.
func environment(o *engine.Options, c *clock, files func() vfs.FS) *engine.Options {
	out := *o
	testenv.Put(&out, &testenv.Env{
		FS: files, Clock: c.now, Steady: c.elapsed,
		Opened: func(testenv.Store) func() { return func() {} },
		Watch:  func(testenv.Store, string) func() func() { return nil },
	})
	return &out
}

// memory is a place in memory. A checkpoint is a copy of the file system as the death of the
// process would leave it; bytes are shared until one side writes.
type memory struct {
	opts  *engine.Options
	clock *clock

	mu        sync.Mutex
	now, next *vfs.Mem
	kept      map[string]*vfs.Mem
}

func newMemory(o *engine.Options, c *clock) *memory {
	return &memory{opts: o, clock: c, now: vfs.NewMem(), kept: map[string]*vfs.Mem{}}
}

func (m *memory) open(ctx context.Context) (*engine.DB, error) {
	m.mu.Lock()
	files := m.now
	m.mu.Unlock()
	return engine.Open(ctx, "memory", environment(m.opts, m.clock, func() vfs.FS { return files }))
}

func (m *memory) keep(_ context.Context, _ *engine.DB, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.kept[name]; ok {
		return checkpointExists(name)
	}
	m.kept[name] = m.now.Clone()
	return nil
}

func (m *memory) prepare(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.kept[name]
	if !ok {
		return noCheckpoint(name)
	}
	m.next = k.Clone()
	return nil
}

func (m *memory) turn() (undo, done func() error, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	former := m.now
	m.now, m.next = m.next, nil
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now = former
		return nil
	}, func() error { return nil }, nil
}

func (m *memory) checkpoints() ([]Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Checkpoint, 0, len(m.kept))
	for name := range m.kept {
		all = append(all, Checkpoint{name})
	}
	return byName(all), nil
}

func (m *memory) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.kept[name]; !ok {
		return noCheckpoint(name)
	}
	delete(m.kept, name)
	return nil
}

func byName(all []Checkpoint) []Checkpoint {
	slices.SortFunc(all, func(a, b Checkpoint) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// disk is a place on disk: the store in dir, its checkpoints in dir-checkpoints/NAME. A return
// makes dir-checkpoints/.next, renames dir to dir-checkpoints/.former, and .next to dir. So
// after a crash:
//
//	dir is there                    it is the store: .next and .former are removed
//	dir is not there, .next is      .next is whole, since dir is renamed after it was made: it becomes dir
//	dir is not there, .former is    .former becomes dir: a return had failed and was being undone
type disk struct {
	dir, kept string
	opts      *engine.Options
	clock     *clock
	plain     bool // the clock is the system's
}

const (
	nextName   = ".next"
	formerName = ".former"
)

func newDisk(dir string, o *engine.Options, c *clock, plain bool) (*disk, error) {
	dir = filepath.Clean(dir)
	d := &disk{dir: dir, kept: dir + "-checkpoints", opts: o, clock: c, plain: plain}
	return d, d.recover()
}

// recover finishes what a crash has left.
func (d *disk) recover() error {
	if _, err := os.Stat(d.kept); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(d.dir); errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{nextName, formerName} {
			if err = os.Rename(filepath.Join(d.kept, name), d.dir); err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return errors.Join(os.RemoveAll(filepath.Join(d.kept, nextName)), os.RemoveAll(filepath.Join(d.kept, formerName)))
}

func (d *disk) options() *engine.Options {
	if d.plain {
		return d.opts
	}
	return environment(d.opts, d.clock, func() vfs.FS { return nil }) // nil: the directory itself
}

func (d *disk) open(ctx context.Context) (*engine.DB, error) {
	return engine.Open(ctx, d.dir, d.options())
}

func (d *disk) keep(ctx context.Context, db *engine.DB, name string) error {
	_, err := db.Checkpoint(ctx, filepath.Join(d.kept, name))
	if errors.Is(err, engine.ErrExists) {
		return checkpointExists(name)
	}
	return err
}

func (d *disk) prepare(ctx context.Context, name string) (err error) {
	from, next := filepath.Join(d.kept, name), filepath.Join(d.kept, nextName)
	if !hasStore(from) {
		return noCheckpoint(name)
	}
	// What a return before could not remove is gone, or this one fails.
	if err = errors.Join(os.RemoveAll(next), os.RemoveAll(filepath.Join(d.kept, formerName))); err != nil {
		return err
	}
	db, err := engine.Open(ctx, from, d.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.Checkpoint(ctx, next)
	return err
}

func (d *disk) turn() (undo, done func() error, err error) {
	next, former := filepath.Join(d.kept, nextName), filepath.Join(d.kept, formerName)
	if err = os.Rename(d.dir, former); err != nil {
		return nil, nil, err
	}
	undo = func() error {
		return errors.Join(os.RemoveAll(d.dir), os.Rename(former, d.dir))
	}
	if err = os.Rename(next, d.dir); err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	if err = errors.Join(syncDir(filepath.Dir(d.dir)), syncDir(d.kept)); err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	return undo, func() error { return os.RemoveAll(former) }, nil
}

// syncDir makes the names in a directory durable.
func syncDir(name string) error {
	if runtime.GOOS == "windows" { // which cannot sync a directory
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// closeFirst: a directory in which files are open cannot be renamed.
const closeFirst = runtime.GOOS == "windows"

func (d *disk) checkpoints() ([]Checkpoint, error) {
	entries, err := os.ReadDir(d.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return []Checkpoint{}, nil
	}
	all := []Checkpoint{}
	for _, e := range entries {
		if checkName(e.Name()) == nil && hasStore(filepath.Join(d.kept, e.Name())) {
			all = append(all, Checkpoint{e.Name()})
		}
	}
	return byName(all), err
}

// hasStore says whether a directory has a store. What a crash leaves of a checkpoint that was being made or
// removed may have none: opened, it would become an empty one.
func hasStore(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "MANIFEST-") })
}

func (d *disk) remove(name string) error {
	at := filepath.Join(d.kept, name)
	if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
		return noCheckpoint(name)
	}
	return os.RemoveAll(at)
}
