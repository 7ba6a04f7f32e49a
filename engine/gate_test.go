package engine

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// gateFS holds back the making of segment files, or the syncs of log files,
// until it is released.
type gateFS struct {
	vfs.FS
	segments, syncs atomic.Bool
	open            chan struct{}
	beside          func(name string) // runs before each sync of a log file
}

func newGate(inner vfs.FS) *gateFS { return &gateFS{FS: inner, open: make(chan struct{})} }

// openGated opens a store with the document "old", in which no more is synced until
// the gate is released.
func openGated(t *testing.T) (*gateFS, *DB, *Container) {
	t.Helper()
	gate := newGate(vfs.NewMem())
	db, c := openStore(t, testOptions(gate))
	upsert(t, c, "old", 10)
	gate.syncs.Store(true)
	return gate, db, c
}

func (f *gateFS) pass(shut *atomic.Bool) {
	if shut.Load() {
		<-f.open
	}
}

// release opens the gate for good.
func (f *gateFS) release() { close(f.open) }

func (f *gateFS) Create(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".seg.tmp") {
		f.pass(&f.segments)
	}
	return f.FS.Create(name)
}

func (f *gateFS) OpenWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenWrite(name)
	if err == nil && strings.HasPrefix(name, "wal/") {
		return gateFile{file, f}, nil
	}
	return file, err
}

type gateFile struct {
	vfs.File
	gate *gateFS
}

func (f gateFile) Sync() error {
	if f.gate.beside != nil {
		f.gate.beside(f.Name())
	}
	f.gate.pass(&f.gate.syncs)
	return f.File.Sync()
}

func (f gateFile) SyncReserved() error {
	f.gate.pass(&f.gate.syncs)
	return f.File.SyncReserved()
}
