package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
)

// tree is one physical partition's memtables and files: an LSM tree.
type tree struct {
	env    *env
	family *family
	id     partmap.PartitionID
	dir    string
	rng    partmap.Range
	limits atomic.Pointer[bounds] // rng as keys; nil until it is first needed
	span   memtable.Range

	// visible is the newest sequence that readers see. It only rises, and
	// only to sequences whose records, and all before them in this partition,
	// have the durability that their writers asked for.
	visible atomic.Uint64
	// version is the state that readers use; never nil.
	version atomic.Pointer[version]
	dropped atomic.Bool // with its container, or because other partitions replaced it
	lost    error       // why its manifest cannot be read, if it is set aside; else nil
	// inherits are the log streams of its parents that it still needs.
	inherits atomic.Pointer[[]manifest.Inherited]
	// changeFloor is the sequence above which no version was dropped, in a
	// container that keeps changes. It rises before the files that lack dropped
	// versions are shown.
	changeFloor atomic.Uint64
	// purgeable returns a time stamp: a flush or compaction may drop the items that
	// expired at or before it. 0: none.
	purgeable func() int64

	// versionMu serialises changes of version.
	versionMu lockorder.Mutex[locks.Version]

	// install serialises changes of the set of files: manifest first, then
	// version.
	install struct {
		lockorder.Mutex[locks.Install]
		dir        *manifest.Dir
		flushedSeq atomic.Uint64
		applied    manifest.Applied // newest entry that flushedSeq includes
		behind     bool             // replay has flushed memtables, but not yet raised flushedSeq
	}

	// obsolete holds the numbers of merged files that are not removed yet.
	obsolete struct {
		lockorder.Mutex[locks.Obsolete]
		numbers []uint64
		held    map[uint64]*file // the obsolete files that readers have pinned, so that their names stay
	}

	// building holds the numbers of files that are being written.
	building struct {
		lockorder.Mutex[locks.Building]
		numbers map[uint64]struct{}
	}

	compacting ctxlock.Mutex // held during compaction; taken before flushing
	flushing   ctxlock.Mutex // held during a flush
}

// errMoved is returned by work in a partition that was dropped or replaced. A call must
// then be routed again.
var errMoved = errors.New("partition moved")

// bounds returns the range of the partition as keys.
func (t *tree) bounds() *bounds {
	b := t.limits.Load()
	if b == nil {
		b = newBounds(t.rng, t.family.levels)
		t.limits.Store(b)
	}
	return b
}

// hold returns the present version and keeps its files readable until release is
// called. Its memtables are not held.
func (t *tree) hold() (v *version, release func()) {
	guard := t.env.epoch.Enter()
	defer guard.Leave()
	v = t.version.Load()
	for _, r := range v.runs {
		for _, f := range r.files {
			f.Pin()
		}
	}
	return v, func() {
		for _, r := range v.runs {
			for _, f := range r.files {
				f.Unpin()
			}
		}
		t.env.unpinned()
	}
}

// newFileNumber gives a number to a file that the partition will write.
func (t *tree) newFileNumber() uint64 {
	t.building.Lock()
	defer t.building.Unlock()
	n := t.env.nextFile.Add(1)
	if t.building.numbers == nil {
		t.building.numbers = make(map[uint64]struct{})
	}
	t.building.numbers[n] = struct{}{}
	return n
}

// built says that the files with these numbers are published or given up.
func (t *tree) built(numbers []uint64) {
	t.building.Lock()
	defer t.building.Unlock()
	for _, n := range numbers {
		delete(t.building.numbers, n)
	}
}

// floor returns a number such that no file of the partition numbered at or
// above it is complete.
func (t *tree) floor() uint64 {
	t.building.Lock()
	defer t.building.Unlock()
	floor := t.env.nextFile.Load() + 1
	for n := range t.building.numbers {
		floor = min(floor, n)
	}
	return floor
}

// swap publishes the version that change makes of the present one and returns
// the old one.
func (t *tree) swap(change func(v version) version) *version {
	t.versionMu.Lock()
	defer t.versionMu.Unlock()
	old := t.version.Load()
	next := change(*old)
	t.version.Store(&next)
	return old
}

// listed returns the numbers of the files of the present version.
func (t *tree) listed() []uint64 {
	guard := t.env.epoch.Enter()
	defer guard.Leave()
	var numbers []uint64
	for _, r := range t.version.Load().runs {
		for _, f := range r.files {
			numbers = append(numbers, f.ref.Number)
		}
	}
	return numbers
}
