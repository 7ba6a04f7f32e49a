package physical

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/timestamp"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// store is a store of physical partitions in memory, with a log.
type store struct {
	t testing.TB
	Env
	family Family
	fs     *vfs.Mem
	failed error

	flushed   []Flushed // what was told
	rewritten []string
	parts     []*Partition
}

func newStore(tb testing.TB) *store {
	s := &store{t: tb, fs: vfs.NewMem()}
	common := lsmtest.New(tb, 64<<20)
	s.Epoch, s.Pool, s.Seed, s.Clock, s.Reclaim = common.Env.Epoch, common.Env.Pool, common.Env.Seed, common.Env.Clock, common.Env.Reclaim
	s.FS, s.Stamps, s.MemtableBytes = s.fs, new(timestamp.Source), 1<<20
	s.Uncertain = func(err error) error { s.failed = errors.Join(s.failed, err); return err }
	s.Failed = func() bool { return s.failed != nil }
	s.Gate = new(pressure.Gate)
	s.Gate.Init(&s.Env.Env, s, true)
	s.Work = scheduler.New(&s.Env.Env, s.Gate, s)
	s.family.Levels, s.family.ChangeFloor = 1, func() uint64 { return lsm.MaxSequence }
	s.FileBytes, s.IndexBytes, s.Reader.EPK = 1<<20, 1<<20, lsm.AppendEPK
	s.Background = func(what string, err error) { tb.Errorf("%s: %v", what, err) }
	s.Crowded = func() bool { return false }
	s.Flushed = func(_ *Partition, f Flushed) { s.flushed = append(s.flushed, f) }
	s.Compacted = func(_ *Partition, kind Rewriting, c *lsm.Compacted, _ time.Duration) {
		s.rewritten = append(s.rewritten, fmt.Sprintf("%v: %d of %d items", kind, c.ItemsOut, c.ItemsIn))
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		s.ok(vfs.MkdirSync(s.fs, dir))
	}
	var err error
	s.Log, err = wal.Create(s.fs, manifest.LogDir, &wal.Recovery{NextFile: 1}, 1, wal.Options{})
	s.ok(err)
	tb.Cleanup(func() { s.Log.Close() })
	return s
}

func (s *store) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) Refused() error                    { return nil }
func (s *store) Relieve()                          {}
func (s *store) Partitions() []scheduler.Partition { return nil }
func (s *store) ReleaseLog() error                 { return nil }
func (s *store) ShrinkLog() error                  { return nil }
func (s *store) Tick()                             {}

// partition makes a partition with its directory.
func (s *store) partition(id partmap.PartitionID, rng partmap.Range) *Partition {
	s.t.Helper()
	p := new(Partition)
	p.Init(&s.Env, &s.family, partmap.Entry{ID: id, Range: rng})
	p.Purgeable, p.SplitQueued = func() int64 { return 0 }, func() bool { return false }
	s.ok(p.MakeFirst())
	s.parts = append(s.parts, p)
	s.t.Cleanup(func() { p.Version.Load().Release(&s.Env.Env) })
	return p
}

// halves returns the halves of the key space.
func halves() (low, high partmap.Range) {
	both := partmap.Ranges(2)
	return both[0], both[1]
}

func whole() partmap.Range { return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()} }

// keyIn returns a partition key whose place lies in a range.
func keyIn(rng partmap.Range) partmap.Key {
	for i := 0; ; i++ {
		pk := partmap.String(fmt.Sprint(i))
		if epk := pk.EPK(); rng.Contains(&epk) {
			return pk
		}
	}
}

// write does what a writer does under the commit lock.
func (s *store) write(p *Partition, pk partmap.Key, id string, sync bool) Record {
	s.t.Helper()
	p.Commit.Lock()
	defer p.Commit.Unlock()
	k, v := lsmtest.Key(pk, id), item.Version{Modified: 1, Body: []byte("{}")}
	seq, pos, err := s.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	if err == wal.ErrNoFile {
		s.ok(s.MakeLogFile())
		seq, pos, err = s.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	}
	s.ok(err)
	v.Seq = seq
	active := p.Version.Load().Active
	s.ok(active.Put(&k, &v, true))
	return p.NoteLocked(active, seq, pos, sync)
}

// holds says whether the memtables of a partition show an item.
func (s *store) holds(p *Partition, pk partmap.Key, id string) bool {
	k := lsmtest.Key(pk, id)
	var v item.Version
	return p.Version.Load().LookupMemory(k.Lookup(), p.Visible.Load(), &v)
}

// records reads the log as a reader after a crash would, and returns how many records of a
// type a stream has.
func (s *store) records(p *Partition, want wal.Type) (n int) {
	s.t.Helper()
	s.ok(s.Log.Sync())
	_, err := wal.Recover(context.Background(), s.fs.Clone(), manifest.LogDir, wal.State{First: 1}, wal.Options{}, func(r *wal.Record) error {
		if r.Stream == wal.Stream(p.ID) && r.Type == want {
			n++
		}
		return nil
	})
	s.ok(err)
	return n
}

// reopened returns the manifest that the partition's directory has.
func (s *store) reopened(p *Partition) (m manifest.Files) {
	s.t.Helper()
	s.ok(manifest.NewDir(s.fs, p.Dir, manifest.PartitionKind).Load(&m))
	return m
}
