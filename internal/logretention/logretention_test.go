package logretention

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// keeping is a store with some partitions, and the Keeper of its log.
type keeping struct {
	*physicaltest.Store
	Keeper
	t     testing.TB
	parts []*physical.Partition
	begun []uint64 // what Begin was given
}

func newKeeping(t testing.TB, parts int) *keeping {
	k := &keeping{t: t, Store: physicaltest.New(t)}
	for i, rng := range partmap.Ranges(parts) {
		k.parts = append(k.parts, k.Store.Partition(partmap.PartitionID(i+1), rng))
	}
	k.Keeper = Keeper{
		Env: &k.Store.Env, FileBytes: 1 << 30, Partitions: func() []*physical.Partition { return k.parts },
		Begin: func(first uint64) error {
			k.begun = append(k.begun, first)
			return k.Log.Drop(first)
		},
	}
	return k
}

// write writes an item of some bytes to a partition, and then begins another log file.
func (k *keeping) write(p *physical.Partition, bytes int) {
	k.t.Helper()
	k.put(p, bytes)
	k.OK(k.Log.Rotate())
}

// put writes an item of some bytes to a partition.
func (k *keeping) put(p *physical.Partition, bytes int) {
	k.t.Helper()
	p.Commit.Lock()
	key, v := lsmtest.Key(partmap.String("p"), "a"), item.Version{Modified: 1, Body: make([]byte, bytes)}
	k.OK(k.Log.MakeFile())
	seq, pos, err := k.Log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &key, &v), v.Body)
	k.OK(err)
	v.Seq = seq
	active := p.Version.Load().Active
	k.OK(active.Put(&key, &v, true))
	r := p.NoteLocked(active, seq, pos, true)
	p.Commit.Unlock()
	k.OK(p.Show(r))
}

// flushed stands for a flush of a partition.
func (k *keeping) flushed(p *physical.Partition) {
	p.Freeze()
	old := p.Swap(func(v lsm.Version) lsm.Version {
		v.Frozen = nil
		return v
	})
	old.Frozen[0].LetGo(&k.Store.Env.Env)
	p.Install.FlushedSeq.Store(p.LastSeq())
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
	k.OK(k.Release())
	if got := k.Log.First(); got != 1 {
		t.Fatalf("the log begins with file %d; a partition inherits what is in file 1", got)
	}
	second.Inherits.Store(&[]manifest.Inherited{{Stream: uint32(first.ID), FlushedSeq: first.LastSeq()}})
	k.OK(k.Release())
	if got := k.Log.First(); got != 2 {
		t.Errorf("the log begins with file %d; file 2 has what was not flushed", got)
	}
	second.Install.FlushedSeq.Store(second.LastSeq())
	k.OK(k.Release())
	if got, newest := k.Log.First(), k.Log.Newest(); got != newest || k.begun[len(k.begun)-1] != newest {
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
	end := k.Log.Newest()
	k.OK(k.Release())
	if got := k.Log.First(); got != 1 {
		t.Fatalf("the log begins with file %d", got)
	}
	k.OK(k.Hold())
	if got := k.Log.First(); got < end || k.Carried.Load() == 0 {
		t.Errorf("the log begins with file %d, was at %d, %d bytes were carried", got, end, k.Carried.Load())
	}
	before := k.Carried.Load()
	k.OK(k.Hold())
	if got := k.Carried.Load(); got != before {
		t.Errorf("%d bytes were carried again", got-before)
	}
	for range MostFiles + 2 {
		k.write(p, scheduler.SmallMemtable/4)
	}
	k.OK(k.Release())
	k.OK(k.Hold())
	if n := len(p.Version.Load().Frozen); n != 1 || k.Carried.Load() != before {
		t.Errorf("%d frozen memtables, %d bytes were carried", n, k.Carried.Load()-before)
	}
}

// TestHoldNotNeeded: what a partition has ceased to inherit since the log was last released does
// not keep Hold from the files that follow.
func TestHoldNotNeeded(t *testing.T) {
	k := newKeeping(t, 2)
	parent, child := k.parts[0], k.parts[1]
	k.write(parent, 10)
	k.parts = k.parts[1:]
	child.Inherits.Store(&[]manifest.Inherited{{Stream: uint32(parent.ID)}})
	for range MostFiles + 2 {
		k.write(child, 10)
	}
	k.OK(k.Release())
	child.Inherits.Store(nil)
	end := k.Log.Newest()
	k.OK(k.Hold())
	if got := k.Log.First(); got < end {
		t.Errorf("the log begins with file %d, was at %d", got, end)
	}
}

// TestHoldBesideFileThatStays: that files of the log cannot be removed does not keep it from being shrunk.
func TestHoldBesideFileThatStays(t *testing.T) {
	k := newKeeping(t, 1)
	for range MostFiles + 2 {
		k.write(k.parts[0], 10)
	}
	end, stays := k.Log.Newest(), errors.New("it stays")
	begin := k.Keeper.Begin
	k.Keeper.Begin = func(first uint64) error { return errors.Join(begin(first), stays) }
	if err := k.Hold(); !errors.Is(err, stays) {
		t.Errorf("Hold: %v", err)
	}
	if got := k.Log.First(); got < end || k.Carried.Load() == 0 {
		t.Errorf("the log begins with file %d, was at %d, %d bytes were carried", got, end, k.Carried.Load())
	}
}

// TestHoldFull: however many files a log has, it is left alone within its budget if they are full.
func TestHoldFull(t *testing.T) {
	k := newKeeping(t, 1)
	k.Budget, k.FileBytes = 1<<20, 1000
	for range 3 * MostFiles {
		k.write(k.parts[0], 1000)
	}
	k.OK(k.Release())
	k.OK(k.Hold())
	if first, n := k.Log.First(), len(k.parts[0].Version.Load().Frozen); first != 1 || n > 0 || k.Carried.Load() > 0 {
		t.Errorf("the log begins with file %d; %d frozen memtables, %d bytes were carried", first, n, k.Carried.Load())
	}
}

// TestLost: the records of a partition that cannot be read stay in the log.
func TestLost(t *testing.T) {
	k := newKeeping(t, 1)
	for range MostFiles + 2 {
		k.write(k.parts[0], 10)
	}
	k.parts[0].Lost = lsm.ErrMoved // any reason
	k.OK(k.Release())
	k.OK(k.Hold())
	if got := k.Log.First(); got != 1 {
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
	k.OK(k.Trim())
	if n := k.Carried.Load(); n > 0 {
		t.Fatalf("%d bytes were carried of a log whose records are live", n)
	}
	k.flushed(flushed)
	k.OK(k.Trim())
	if n := k.Carried.Load(); n == 0 || n > 1<<10 || k.Log.First() != k.Log.Newest() {
		t.Errorf("%d bytes carried, the log begins with file %d of %d", n, k.Log.First(), k.Log.Newest())
	}
}

// TestOneSync: partitions that are carried together wait for one sync, when the log is shrunk
// and when the store closes.
func TestOneSync(t *testing.T) {
	for name, shrink := range map[string]func(*keeping) error{
		"hold": func(k *keeping) error { return k.Hold() },
		"trim": func(k *keeping) error { return k.Trim() },
	} {
		t.Run(name, func(t *testing.T) {
			const parts, most = 300, 4
			k := newKeeping(t, parts)
			for _, p := range k.parts[1:] {
				k.put(p, 10)
			}
			k.OK(k.Log.Rotate())
			for range 4 * MostFiles {
				k.write(k.parts[0], 100<<10)
			}
			k.flushed(k.parts[0])
			k.OK(k.Log.Sync())
			end, syncs := k.Log.Newest(), k.Log.Stats().Syncs
			k.OK(shrink(k))
			if got := k.Log.First(); got < end || k.Carried.Load() == 0 {
				t.Errorf("the log begins with file %d, was at %d, %d bytes were carried", got, end, k.Carried.Load())
			}
			if got := k.Log.Stats().Syncs - syncs; got > most {
				t.Errorf("%d syncs for %d partitions, want at most %d", got, parts, most)
			}
			if n := len(k.begun); n > most {
				t.Errorf("the log was released %d times, want at most %d", n, most)
			}
			if p := k.parts[parts-1]; p.Needs(1) != p.LastSeq() {
				t.Error("the last partition was not carried")
			}
		})
	}
}
