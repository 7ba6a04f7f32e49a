package logretention

import (
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// keeping is a store with some partitions and a log, as a Keeper sees it.
type keeping struct {
	t testing.TB
	Keeper
	parts  []*physical.Partition
	family physical.Family
	begun  []uint64 // what Begin was given
}

// quiet is a scheduler and a gate without work.
type quiet struct{}

func (quiet) Refused() error                    { return nil }
func (quiet) Relieve()                          {}
func (quiet) Partitions() []scheduler.Partition { return nil }
func (quiet) ReleaseLog() error                 { return nil }
func (quiet) ShrinkLog() error                  { return nil }
func (quiet) Tick()                             {}

func newKeeping(t testing.TB, parts int) *keeping {
	k := &keeping{t: t}
	fs := vfs.NewMem()
	common := lsmtest.New(t, 64<<20)
	env := new(physical.Env)
	env.Epoch, env.Pool, env.Seed, env.Clock, env.Reclaim = common.Env.Epoch, common.Env.Pool, common.Env.Seed, common.Env.Clock, common.Env.Reclaim
	env.FS, env.MemtableBytes = fs, 1<<20
	env.Uncertain = func(err error) error { return err }
	env.Failed = func() bool { return false }
	env.Gate = new(pressure.Gate)
	env.Gate.Init(&env.Env, quiet{}, true)
	env.Work = scheduler.New(&env.Env, env.Gate, quiet{})
	k.family.Levels = 1
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		k.ok(vfs.MkdirSync(fs, dir))
	}
	var err error
	env.Log, err = wal.Create(fs, manifest.LogDir, &wal.Recovery{NextFile: 1}, 1, wal.Options{MaxFileBytes: 256 << 10, FirstFileBytes: 256 << 10})
	k.ok(err)
	t.Cleanup(func() { env.Log.Close() })
	for i, rng := range partmap.Ranges(parts) {
		p := new(physical.Partition)
		p.Init(env, &k.family, partmap.Entry{ID: partmap.PartitionID(i + 1), Range: rng})
		k.ok(p.MakeFirst())
		k.parts = append(k.parts, p)
		t.Cleanup(func() { p.Version.Load().Release(&env.Env) })
	}
	k.Keeper = Keeper{
		Env: env, Partitions: func() []*physical.Partition { return k.parts },
		Begin: func(first uint64) error {
			k.begun = append(k.begun, first)
			return env.Log.Drop(first)
		},
	}
	return k
}

func (k *keeping) ok(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// write writes an item of some bytes to a partition, and then begins another log file.
func (k *keeping) write(p *physical.Partition, bytes int) {
	k.t.Helper()
	p.Commit.Lock()
	key, v := lsmtest.Key(partmap.String("p"), "a"), item.Version{Modified: 1, Body: make([]byte, bytes)}
	k.ok(k.Env.Log.MakeFile())
	seq, pos, err := k.Env.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &key, &v), v.Body)
	k.ok(err)
	v.Seq = seq
	active := p.Version.Load().Active
	k.ok(active.Put(&key, &v, true))
	r := p.NoteLocked(active, seq, pos, true)
	p.Commit.Unlock()
	k.ok(p.Show(r))
	k.ok(k.Env.Log.Rotate())
}

// TestRelease: a file stays as long as a partition needs a record in it, its own or one of
// a stream that it inherits.
func TestRelease(t *testing.T) {
	k := newKeeping(t, 2)
	first, second := k.parts[0], k.parts[1]
	k.write(first, 10)
	k.write(second, 10)
	second.Inherits.Store(&[]manifest.Inherited{{Stream: uint32(first.ID)}})
	first.Install.FlushedSeq.Store(first.LastSeq())
	k.ok(k.Release())
	if got := k.Env.Log.First(); got != 1 {
		t.Fatalf("the log begins with file %d; a partition inherits what is in file 1", got)
	}
	second.Inherits.Store(&[]manifest.Inherited{{Stream: uint32(first.ID), FlushedSeq: first.LastSeq()}})
	k.ok(k.Release())
	if got := k.Env.Log.First(); got != 2 {
		t.Errorf("the log begins with file %d; file 2 has what was not flushed", got)
	}
	second.Install.FlushedSeq.Store(second.LastSeq())
	k.ok(k.Release())
	if got, newest := k.Env.Log.First(), k.Env.Log.Newest(); got != newest || k.begun[len(k.begun)-1] != newest {
		t.Errorf("the log begins with file %d of %d; told: %v", got, newest, k.begun)
	}
}

// TestHold: over its budget the log is carried until only newer files are left, and what
// is worth a file is frozen instead. It ends, though carried records are in the log too.
func TestHold(t *testing.T) {
	k := newKeeping(t, 1)
	p := k.parts[0]
	for range MostFiles + 2 {
		k.write(p, 10)
	}
	end := k.Env.Log.Newest()
	k.ok(k.Release())
	if got := k.Env.Log.First(); got != 1 {
		t.Fatalf("the log begins with file %d", got)
	}
	k.ok(k.Hold())
	if got := k.Env.Log.First(); got < end || k.Env.Carried.Load() == 0 {
		t.Errorf("the log begins with file %d, was at %d, %d bytes were carried", got, end, k.Env.Carried.Load())
	}
	before := k.Env.Carried.Load()
	k.ok(k.Hold())
	if got := k.Env.Carried.Load(); got != before {
		t.Errorf("%d bytes were carried again", got-before)
	}
	for range MostFiles + 2 {
		k.write(p, scheduler.SmallMemtable/4)
	}
	k.ok(k.Release())
	k.ok(k.Hold())
	if n := len(p.Version.Load().Frozen); n != 1 || k.Env.Carried.Load() != before {
		t.Errorf("%d frozen memtables, %d bytes were carried", n, k.Env.Carried.Load()-before)
	}
}

// TestLost: the records of a partition that cannot be read stay in the log.
func TestLost(t *testing.T) {
	k := newKeeping(t, 1)
	for range MostFiles + 2 {
		k.write(k.parts[0], 10)
	}
	k.parts[0].Lost = lsm.ErrMoved // any reason
	k.ok(k.Release())
	k.ok(k.Hold())
	if got := k.Env.Log.First(); got != 1 {
		t.Errorf("the log begins with file %d", got)
	}
}

// TestTrim: a log that is much larger than its live records is written anew when the store
// closes; one that has little else is left alone.
func TestTrim(t *testing.T) {
	k := newKeeping(t, 2)
	live, flushed := k.parts[0], k.parts[1]
	k.write(live, 10)
	for range 4 {
		k.write(flushed, 40<<10)
	}
	k.ok(k.Trim())
	if n := k.Env.Carried.Load(); n > 0 {
		t.Fatalf("%d bytes were carried of a log whose records are live", n)
	}
	flushed.Freeze()
	old := flushed.Swap(func(v lsm.Version) lsm.Version {
		v.Frozen = nil
		return v
	})
	old.Frozen[0].LetGo(&k.Env.Env)
	flushed.Install.FlushedSeq.Store(flushed.LastSeq())
	k.ok(k.Trim())
	if n := k.Env.Carried.Load(); n == 0 || n > 1<<10 || k.Env.Log.First() != k.Env.Log.Newest() {
		t.Errorf("%d bytes carried, the log begins with file %d of %d", n, k.Env.Log.First(), k.Env.Log.Newest())
	}
}
