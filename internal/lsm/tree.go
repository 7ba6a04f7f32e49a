package lsm

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/backoff"
	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/drain"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/partmap"
)

// Tree is one physical partition's memtables and files: an LSM tree.
type Tree struct {
	Env    *Env
	Family *Family
	ID     partmap.PartitionID
	Dir    string
	Range  partmap.Range
	limits atomic.Pointer[keybounds.Bounds] // rng as keys; nil until it is first needed
	Span   memtable.Range

	// Visible is the newest sequence that readers see. It only rises, and
	// only to sequences whose records, and all before them in this partition,
	// have the durability that their writers asked for.
	Visible atomic.Uint64
	// Version is the state that readers use; never nil.
	Version atomic.Pointer[Version]
	Dropped atomic.Bool // with its container, or because other partitions replaced it
	Lost    error       // why its manifest cannot be read, if it is set aside; else nil
	// Inherits are the log streams of its parents that it still needs.
	Inherits atomic.Pointer[[]manifest.Inherited]
	// ChangeFloor is the sequence above which no version was dropped, in a
	// container that keeps changes. It rises before the files that lack dropped
	// versions are shown.
	ChangeFloor atomic.Uint64
	// Life is the default time to live, that of the container, or of this partition if entries change it;
	// nil: it is fixed.
	Life *lifetime.Life
	// Purgeable says which items have expired for so long that a flush or compaction may
	// drop them; the zero Past: none.
	Purgeable func() lifetime.Past

	// versionMu serialises changes of version.
	versionMu lockorder.Mutex[locks.Version]

	// Install serialises changes of the set of files: manifest first, then
	// version.
	Install struct {
		lockorder.Mutex[locks.Install]
		Dir        *manifest.Dir
		FlushedSeq atomic.Uint64
		Applied    manifest.Applied // newest entry that FlushedSeq includes
		Behind     bool             // replay has flushed memtables, but not yet raised FlushedSeq
	}

	// Obsolete holds the numbers of compacted files that are not removed yet.
	Obsolete struct {
		lockorder.Mutex[locks.Obsolete]
		Numbers []uint64
		held    map[uint64]*File // the obsolete files that readers have pinned, so that their names stay
	}

	// building holds the numbers of files that are being written.
	building struct {
		lockorder.Mutex[locks.Building]
		numbers map[uint64]struct{}
	}

	Drain      drain.Meter  // of its compactions: what they give back are runs
	TableBytes atomic.Int64 // that memtables take of the write buffers when they are flushed, about
	RunBytes   atomic.Int64 // of the runs that flushes make of them, about
	seeks      tiers.Seeks  // of scans, since the last compaction
	room       int64        // its part of Env.room; Compacting is held

	Compacting ctxlock.Mutex // held during compaction; taken before flushing
	Flushing   ctxlock.Mutex // held during a flush

	// When to try again after a flush, and after a compaction or rewriting, has failed.
	FlushRetry, CompactRetry backoff.Retry
	// CompactTurn says that a goroutine of the background work looks what to compact or rewrite,
	// or is at it. Only that uses CompactRetry.
	CompactTurn atomic.Bool
}

// ErrMoved is returned by work in a partition that was dropped or replaced. A call must
// then be routed again.
var ErrMoved = errors.New("partition moved")

// Bounds returns the range of the partition as keys.
func (t *Tree) Bounds() *keybounds.Bounds {
	b := t.limits.Load()
	if b == nil {
		b = keybounds.New(t.Range, t.Family.Levels)
		t.limits.Store(b)
	}
	return b
}

// PinVersion returns the present version and keeps its files readable until release is
// called. Its memtables are not held.
func (t *Tree) PinVersion() (v *Version, release func()) {
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	v = t.Version.Load()
	return v, t.Pin(v)
}

// Pin is PinVersion for a version that the caller has loaded in its stay in the epoch.
func (t *Tree) Pin(v *Version) (release func()) {
	for f := range v.Files() {
		f.Pin()
	}
	return func() {
		for f := range v.Files() {
			f.Unpin()
		}
		t.Env.Reclaim.Unpinned()
	}
}

// NewFileNumber gives a number to a file that the partition will write.
func (t *Tree) NewFileNumber() uint64 {
	t.building.Lock()
	defer t.building.Unlock()
	n := t.Env.NextFile.Add(1)
	if t.building.numbers == nil {
		t.building.numbers = make(map[uint64]struct{})
	}
	t.building.numbers[n] = struct{}{}
	return n
}

// built says that the files with these numbers are published or given up.
func (t *Tree) built(numbers []uint64) {
	t.building.Lock()
	defer t.building.Unlock()
	for _, n := range numbers {
		delete(t.building.numbers, n)
	}
}

// floor returns a number such that no file of the partition numbered at or
// above it is complete.
func (t *Tree) floor() uint64 {
	t.building.Lock()
	defer t.building.Unlock()
	floor := t.Env.NextFile.Load() + 1
	for n := range t.building.numbers {
		floor = min(floor, n)
	}
	return floor
}

// Swap publishes the version that change makes of the present one and returns
// the old one.
func (t *Tree) Swap(change func(v Version) Version) *Version {
	t.versionMu.Lock()
	defer t.versionMu.Unlock()
	old := t.Version.Load()
	next := change(*old)
	t.Version.Store(&next)
	return old
}

// Listed returns the numbers of the files of the present version.
func (t *Tree) Listed() []uint64 {
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	var numbers []uint64
	for f := range t.Version.Load().Files() {
		numbers = append(numbers, f.Ref.Number)
	}
	return numbers
}
