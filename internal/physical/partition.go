package physical

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/feed"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/timestamp"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Env is what the physical partitions of a store have in common, and all that they know
// of the store. It is set before the first partition is made and not copied.
type Env struct {
	lsm.Env
	Log           *wal.Log // nil until the store has been recovered, and if it is read-only
	Gate          *pressure.Gate
	Work          *scheduler.Scheduler
	Stamps        *timestamp.Source
	MemtableBytes int64        // size from which an active memtable is frozen
	TrimRate      *pacing.Rate // of all trims together, within CompactionRate; nil: that
	Carried       atomic.Int64 // bytes of carried records

	// Elapsed returns for how long the store has been open, by a clock that does not jump.
	Elapsed func() time.Duration
	// Lost fails the store: a version of a record that has its place in the log did not get
	// into the memtable. It returns the error of the write.
	Lost func(error) error
	// Flushed and Compacted are told what a flush, and a compaction or rewriting, has done.
	Flushed   func(*Partition, Flushed)
	Compacted func(p *Partition, kind Rewriting, done *lsm.Compacted, took time.Duration)
}

// Family is what the physical partitions of a container have in common.
type Family struct {
	lsm.Family
	Name         string
	Replicated   bool // its writes come from logs that are kept outside of the store
	KeepsChanges bool // for feeds of all versions
	Followers    feed.Followers
}

// Partition is a physical partition.
type Partition struct {
	lsm.Tree
	Env    *Env    // that of the tree too
	Family *Family // that of the tree too

	Parents      []partmap.PartitionID
	InstallEpoch uint64                // generation of its content: an installation raises it
	heirs        atomic.Pointer[heirs] // nil while it is in use; each read loads it
	// Absent says that the store does not have the items of the range: calls that ask for them
	// fail with ErrNotHere. The partition is empty. Absent is set before the partition is in use.
	Absent    bool
	EntryTime timestamp.Highest // if Family.Replicated: the time of its newest entry
	// SplitQueued says whether an automatic split of the partition is queued or under way.
	SplitQueued func() bool

	// Commit is the commit lock, and what it guards.
	Commit struct {
		lockorder.Mutex[locks.Commit]
		Last     wal.Position     // end of the newest record of the partition
		Synced   wal.Position     // end of its newest record that asked for a sync
		Lazy     wal.Position     // end of its newest record that asked for none
		LastSeq  uint64           // of the newest write applied to the memtable
		Applied  manifest.Applied // newest entry of the replicated log
		reserved int64            // memory of the active memtable when it last grew
		left     progress         // what the parents had reached; replicated containers only
		mixed    bool             // replay put records of inherited streams into the active memtable
		// allSynced says that every write waits for a sync, whatever it asks for.
		allSynced bool
	}

	carried   atomic.Pointer[carried]
	leftovers []string // names in its directory that a crash left, to be removed
}

// Init makes p an empty partition, without files.
func (p *Partition) Init(env *Env, family *Family, e partmap.Entry) {
	p.Env, p.Family = env, family
	p.Tree.Env, p.Tree.Family = &env.Env, &family.Family
	p.ID, p.Dir, p.Range = e.ID, manifest.PartitionDir(uint32(e.ID)), e.Range
	p.Span = memtable.Range{Lo: e.Range.Min.Head(), Hi: e.Range.Max.Head()}
	if p.Span.Hi > maxHash {
		p.Span.Hi = maxHash
	}
	p.Flushing, p.Compacting = ctxlock.New(locks.Flushing{}), ctxlock.New(locks.Compacting{})
	p.Install.Dir = manifest.NewDir(env.FS, p.Dir, manifest.PartitionKind)
	p.TableBytes.Store(min(env.MemtableBytes, env.Pool.Limit()/2))
	p.RunBytes.Store(p.TableBytes.Load())
	p.Version.Store(&lsm.Version{Active: memtable.New(env.Pool, p.Span, 0, env.Seed)})
}

// maxHash is one past the largest first word of an EPK, whose top two bits are clear.
const maxHash = 1 << 62

// MakeFirst makes the directory and the first manifest of a new partition.
func (p *Partition) MakeFirst() error {
	if err := storedir.MakePartition(p.Env.FS, p.Dir); err != nil {
		return err
	}
	return p.Install.Dir.Store(&manifest.Files{StoreID: p.Env.StoreID, Partition: uint32(p.ID)})
}

// ReachLocked notes the newest entry of the replicated log that the partition has applied, with
// its time, and the rule for times to live that holds from it on.
func (p *Partition) ReachLocked(at manifest.Applied) {
	p.Commit.Applied = at
	p.EntryTime.Raise(at.Time)
	if at.TTL.Revision != 0 && p.Family.Replicated && p.Life.Follows() {
		p.Life.Take(at.TTL, p.Env.Elapsed(), p.Env.Clock().UnixMilli())
	}
}

// EndLocked ends the partition: nothing is written to it any more, and background work in
// it gives up.
func (p *Partition) EndLocked() { p.Dropped.Store(true) }

// Replaced says whether others have taken the place of the partition and inherited its
// stream.
func (p *Partition) Replaced() bool { return p.heirs.Load() != nil }
