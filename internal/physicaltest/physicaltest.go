// Package physicaltest makes stores of physical partitions in memory, with a log and without
// background work, for the tests of packages that use partitions.
package physicaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/timestamp"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Store is a store of physical partitions.
type Store struct {
	physical.Env
	Family physical.Family
	Mem    *vfs.Mem

	Flushes   []physical.Flushed // what was told
	Rewritten []string

	t      testing.TB
	failed error
}

// New makes a store.
func New(tb testing.TB) *Store {
	s := &Store{t: tb, Mem: vfs.NewMem()}
	common := lsmtest.New(tb, 64<<20)
	s.Epoch, s.Pool, s.Seed, s.Clock, s.Reclaim = common.Env.Epoch, common.Env.Pool, common.Env.Seed, common.Env.Clock, common.Env.Reclaim
	s.FS, s.Stamps, s.MemtableBytes = s.Mem, new(timestamp.Source), 1<<20
	s.Uncertain = func(err error) error { s.failed = errors.Join(s.failed, err); return err }
	s.Failed = func() bool { return s.failed != nil }
	s.Gate = new(pressure.Gate)
	s.Gate.Init(&s.Env.Env, quiet{}, true)
	s.Work = scheduler.New(&s.Env.Env, s.Gate, quiet{})
	s.Family.Levels, s.Family.ChangeFloor = 1, func() uint64 { return lsm.MaxSequence }
	s.FileBytes, s.IndexBytes, s.Reader.EPK = 1<<20, 1<<20, lsm.AppendEPK
	s.Background = func(what string, err error) { tb.Errorf("%s: %v", what, err) }
	s.Crowded = func() bool { return false }
	s.Flushed = func(_ *physical.Partition, f physical.Flushed) { s.Flushes = append(s.Flushes, f) }
	s.Compacted = func(_ *physical.Partition, kind physical.Rewriting, c *lsm.Compacted, _ time.Duration) {
		s.Rewritten = append(s.Rewritten, fmt.Sprintf("%v: %d of %d items", kind, c.ItemsOut, c.ItemsIn))
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		s.OK(vfs.MkdirSync(s.Mem, dir))
	}
	var err error
	s.Log, err = wal.Create(s.Mem, manifest.LogDir, &wal.Recovery{NextFile: 1}, 1, wal.Options{MaxFileBytes: 256 << 10, FirstFileBytes: 256 << 10})
	s.OK(err)
	tb.Cleanup(func() { s.Log.Close() })
	return s
}

// OK ends the test if err is not nil.
func (s *Store) OK(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// quiet is what a store does that has nothing to do.
type quiet struct{}

func (quiet) Refused() error                    { return nil }
func (quiet) Relieve()                          {}
func (quiet) Partitions() []scheduler.Partition { return nil }
func (quiet) ReleaseLog() error                 { return nil }
func (quiet) ShrinkLog() error                  { return nil }
func (quiet) Tick()                             {}

// Partition makes a partition with its directory.
func (s *Store) Partition(id partmap.PartitionID, rng partmap.Range) *physical.Partition {
	s.t.Helper()
	p := s.New(id, rng)
	s.OK(p.MakeFirst())
	return p
}

// New makes a partition without files.
func (s *Store) New(id partmap.PartitionID, rng partmap.Range) *physical.Partition {
	p := new(physical.Partition)
	p.Init(&s.Env, &s.Family, partmap.Entry{ID: id, Range: rng})
	p.Purgeable, p.SplitQueued = func() lifetime.Past { return lifetime.Past{} }, func() bool { return false }
	s.t.Cleanup(func() { p.Version.Load().Release(&s.Env.Env) })
	return p
}

// Halves returns the halves of the key space.
func Halves() (low, high partmap.Range) {
	both := partmap.Ranges(2)
	return both[0], both[1]
}

// Whole returns the key space.
func Whole() partmap.Range { return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()} }

// KeyIn returns a partition key whose place lies in a range.
func KeyIn(rng partmap.Range) partmap.Key {
	for i := 0; ; i++ {
		pk := partmap.String(fmt.Sprint(i))
		if epk := pk.EPK(); rng.Contains(&epk) {
			return pk
		}
	}
}

// Write does what a writer does under the commit lock.
func (s *Store) Write(p *physical.Partition, pk partmap.Key, id string, sync bool) physical.Record {
	s.t.Helper()
	p.Commit.Lock()
	defer p.Commit.Unlock()
	k, v := lsmtest.Key(pk, id), item.Version{Modified: 1, Body: []byte("{}")}
	seq, pos, err := s.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	if err == wal.ErrNoFile {
		s.OK(s.MakeLogFile())
		seq, pos, err = s.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	}
	s.OK(err)
	v.Seq = seq
	active := p.Version.Load().Active
	s.OK(active.Put(&k, &v, true))
	return p.NoteLocked(active, seq, pos, sync)
}

// Holds says whether the memtables of a partition show an item.
func (s *Store) Holds(p *physical.Partition, pk partmap.Key, id string) bool {
	k := lsmtest.Key(pk, id)
	var v item.Version
	return p.Version.Load().LookupMemory(k.Lookup(), p.Visible.Load(), &v)
}

// Records reads the log as a reader after a crash would, and returns how many records of a
// type a stream has.
func (s *Store) Records(p *physical.Partition, want wal.Type) (n int) {
	s.t.Helper()
	s.OK(s.Log.Sync())
	_, err := wal.Recover(context.Background(), s.Mem.Clone(), manifest.LogDir, wal.State{First: 1}, wal.Options{}, func(r *wal.Record) error {
		if r.Stream == wal.Stream(p.ID) && r.Type == want {
			n++
		}
		return nil
	})
	s.OK(err)
	return n
}

// Manifest returns the manifest that the partition's directory has.
func (s *Store) Manifest(p *physical.Partition) (m manifest.Files) {
	s.t.Helper()
	s.OK(manifest.NewDir(s.Mem, p.Dir, manifest.PartitionKind).Load(&m))
	return m
}
