package engine

import (
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// partition is a physical partition. The package documentation has the order of
// its locks.
type partition struct {
	db     *DB
	c      *Container
	id     PartitionID
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
	// meter limits the throughput; nil: it is unlimited.
	meter   atomic.Pointer[meter]
	dropped atomic.Bool // with its container, or because other partitions replaced it
	carried atomic.Pointer[carried]
	// heirs are the partitions that replaced it; nil while it is in use.
	heirs atomic.Pointer[heirs]
	// inherits are the log streams of its parents that it still needs.
	inherits atomic.Pointer[[]manifest.Inherited]
	// changeFloor is the sequence above which no version was dropped, in a
	// container that keeps changes. It rises before the files that lack dropped
	// versions are shown.
	changeFloor atomic.Uint64
	refusedAt   atomic.Int64        // its size in bytes when a split was refused
	queued      atomic.Pointer[Job] // the automatic split under way; nil: none
	cutting     backoff             // after automatic splits that failed
	parents     []PartitionID
	lost        error  // why its manifest cannot be read, if it is set aside; else nil
	born        uint64 // generation of its content: InstallPartition raises it

	// mu is the commit lock: it orders the writes of the partition. No file
	// is touched under it except by the log when its buffer is full.
	mu struct {
		lockorder.Mutex[commitLock]
		last     wal.Position   // end of the newest record of the partition
		synced   wal.Position   // end of its newest record that asked for a sync
		lazy     wal.Position   // end of its newest record that asked for none
		lastSeq  uint64         // of the newest write applied to the memtable
		reserved int64          // memory of the active memtable when it last grew
		applied  applied        // newest entry of the replicated log
		left     parentProgress // what the parents had reached; replicated containers only
		mixed    bool           // replay put records of inherited streams into the active memtable
		// allSynced says that every write waits for a sync, whatever it asks for.
		allSynced bool
	}

	// versionMu serialises changes of version.
	versionMu lockorder.Mutex[versionLock]

	// install serialises changes of the set of files: manifest first, then
	// version.
	install struct {
		lockorder.Mutex[installLock]
		dir        *manifest.Dir
		flushedSeq atomic.Uint64
		applied    applied // newest entry that flushedSeq includes
		behind     bool    // replay has flushed memtables, but not yet raised flushedSeq
	}

	// obsolete holds the numbers of merged files that are not removed yet.
	obsolete struct {
		lockorder.Mutex[obsoleteLock]
		numbers []uint64
		held    map[uint64]*file // the obsolete files that readers have pinned, so that their names stay
	}

	// building holds the numbers of files that are being written.
	building struct {
		lockorder.Mutex[buildingLock]
		numbers map[uint64]struct{}
	}

	leftovers  []string // names in its directory that a crash left, to be removed
	compacting ctxLock  // held during compaction; taken before flushing
	flushing   ctxLock  // held during a flush
	full       keySizes
	heat       partitionHeat

	expiry expiryPass

	flushBackoff, mergeBackoff backoff
}

// version is an immutable state of a partition. Readers load it inside an
// epoch guard and may use everything it names until they leave.
type version struct {
	active *memtable.Table
	frozen []frozenTable // newest first
	runs   []*run        // newest first
	files  uint64        // rises when the set of runs changes
	// mergeable is the number of runs newer than the newest one that is set aside.
	compactable int
	raw         int64 // bytes of the documents in runs
	// tombstoned says that some run holds partition tombstones.
	tombstoned bool
}

// hold returns the present version and keeps its files readable until release is
// called. Its memtables are not held.
func (p *partition) hold() (v *version, release func()) {
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	v = p.version.Load()
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
		p.db.leftovers.retry(p.db)
	}
}

// tableBytes is the memory that versions take in memtables.
func (v *version) tableBytes() int64 {
	n := v.active.Bytes()
	for i := range v.frozen {
		n += v.frozen[i].Bytes()
	}
	return n
}

// tableBytes is the memory that versions take in all memtables.
func (db *DB) tableBytes() (n int64) {
	for _, p := range db.partitions() {
		n += p.version.Load().tableBytes()
	}
	return n
}

// setRuns replaces the runs.
func (v *version) setRuns(runs []*run) {
	v.runs, v.raw, v.tombstoned = runs, 0, false
	v.files++
	v.compactable = len(runs)
	for i, r := range runs {
		if v.compactable == len(runs) && r.aside() {
			v.compactable = i
		}
		raw, _ := r.compression()
		v.raw += raw
		for _, f := range r.files {
			v.tombstoned = v.tombstoned || f.Properties().OfPartitions > 0
		}
	}
}

// frozenTable is a memtable that takes no more writes and waits for its flush.
type frozenTable struct {
	*memtable.Table
	last    wal.Position // end of its newest record
	synced  wal.Position // end of its newest record that asked for a sync
	lastSeq uint64
	applied applied

	// For an inherited memtable:
	from  wal.Stream    // the stream of the parent; 0: not inherited
	clip  *bounds       // the part of it that belongs to the partition; nil: all
	refs  *atomic.Int32 // number of partitions that share it; nil: one
	mixed bool          // replay put records of inherited streams into it
}

// letGo drops a partition's reference to the memtable. The last one gives its memory
// back: then nothing may read it.
func (f *frozenTable) letGo(db *DB) {
	if f.refs != nil && f.refs.Add(-1) > 0 {
		return
	}
	db.frozenBytes.Add(-f.Reserved())
	db.memIndexes.forget(f.Table)
	f.Release()
}

// run is a sorted sequence of files that do not overlap, all of one age.
type run struct {
	files    []*file
	shadowed int64  // estimate of versions in older runs that it overwrites
	heldBy   heldBy // sequences that readers had pinned when the run was written: see dead.go
	// overwritesNothing says that older runs have none of its keys.
	overwritesNothing atomic.Bool
	// keptAbove is a sequence above which the run has all versions that were written,
	// if the container keeps changes.
	keptAbove uint64
	expiring  expiring
}

// file is a segment file within the bounds of its reference.
type file struct {
	*segment.Reader
	ref  manifest.File
	min  partmap.EPK
	max  partmap.EPK
	clip *bounds // the bounds as keys; nil: all of the file lies within
	name string
	path string // for messages, if the reader was opened by another name; else empty

	opened      atomic.Pointer[index.Reader] // its index; nil until first needed
	span        atomic.Pointer[ordinals]     // its ordinals within the bounds; nil until first needed
	shadows     shadowCache
	fingerprint atomic.Pointer[uint64] // of its index; nil: not read yet
	badIndex    atomic.Bool            // its index or its shadows were found damaged
	damage      atomic.Pointer[error]  // first damage that was met in it; nil: none
	aside       atomic.Bool            // it is damaged: merges pass it over
	failedReads atomic.Int32           // how often a merge failed to read it
}

// named puts the partition's name of the file into an error of the reader.
func (f *file) named(err error) error {
	if f.path == "" {
		return err
	}
	switch e := err.(type) {
	case *CorruptionError:
		return &CorruptionError{File: f.path, Offset: e.Offset, Err: e.Err}
	case *IOError:
		return &IOError{Op: e.Op, File: f.path, Offset: e.Offset, Err: e.Err}
	}
	return err
}

func (r *run) bytes() (n int64) {
	for _, f := range r.files {
		n += f.bytes()
	}
	return n
}

func (r *run) items() (n int64) {
	for _, f := range r.files {
		n += f.items()
	}
	return n
}

// tombstones estimates the number of tombstones in the run, plus the versions that
// its partition tombstones delete in the same file.
func (r *run) tombstones() (n float64) {
	for _, f := range r.files {
		n += f.part(f.Properties().Tombstones + f.Properties().DeletedHere)
	}
	return n
}

// compression returns the sizes of the documents in bytes, raw and as stored.
func (r *run) compression() (raw, stored int64) {
	for _, f := range r.files {
		raw += f.raw()
		stored += f.share(f.Properties().StoredBytes)
	}
	return raw, stored
}

// find returns the file of the run that may hold the key, nil if none does.
func (r *run) find(epk *partmap.EPK) *file {
	lo, hi := 0, len(r.files)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.files[mid].max.Compare(epk) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(r.files) || r.files[lo].min.Compare(epk) > 0 {
		return nil
	}
	return r.files[lo]
}

// newFileNumber gives a number to a file that the partition will write.
func (p *partition) newFileNumber() uint64 {
	p.building.Lock()
	defer p.building.Unlock()
	n := p.db.nextFile.Add(1)
	if p.building.numbers == nil {
		p.building.numbers = make(map[uint64]struct{})
	}
	p.building.numbers[n] = struct{}{}
	return n
}

// built says that the files with these numbers are published or given up.
func (p *partition) built(numbers []uint64) {
	p.building.Lock()
	defer p.building.Unlock()
	for _, n := range numbers {
		delete(p.building.numbers, n)
	}
}

// floor returns a number such that no file of the partition numbered at or
// above it is complete.
func (p *partition) floor() uint64 {
	p.building.Lock()
	defer p.building.Unlock()
	floor := p.db.nextFile.Load() + 1
	for n := range p.building.numbers {
		floor = min(floor, n)
	}
	return floor
}

// publish makes everything up to seq visible, also in the partitions that replaced
// this one. After an error the store has failed, and there it stays invisible.
func (p *partition) publish(seq uint64) error {
	p.raise(seq)
	if h := p.heirs.Load(); h != nil {
		return h.publish(p.db, seq)
	}
	return nil
}

func (p *partition) raise(seq uint64) {
	for {
		old := p.visible.Load()
		if old >= seq {
			return
		}
		if p.visible.CompareAndSwap(old, seq) {
			p.c.followers.signal()
			return
		}
	}
}

// swap publishes the version that change makes of the present one and returns
// the old one.
func (p *partition) swap(change func(v version) version) *version {
	p.versionMu.Lock()
	defer p.versionMu.Unlock()
	old := p.version.Load()
	next := change(*old)
	p.version.Store(&next)
	return old
}

// freezeLocked gives the partition a new memtable if the present one holds
// anything. The commit lock is held.
func (p *partition) freezeLocked() bool {
	active := p.version.Load().active
	if active.Versions() == 0 || p.dropped.Load() {
		return false
	}
	next := memtable.New(p.db.pool, p.span, int(active.Items()), p.db.seed)
	frozen := frozenTable{Table: active, last: p.mu.last, synced: p.mu.synced, lastSeq: p.mu.lastSeq, applied: p.mu.applied, mixed: p.mu.mixed}
	if !p.db.replaying {
		p.mu.mixed = false
	}
	p.swap(func(v version) version {
		v.active = next
		v.frozen = append([]frozenTable{frozen}, v.frozen...)
		return v
	})
	p.db.frozenBytes.Add(active.Reserved())
	return true
}

// lookup finds the newest version of a key at or below maxSeq. If the item was deleted
// with its logical partition, that is the partition tombstone. The body
// is appended to dst unless head is set. lookup returns dst, grown, and whether it
// found a version, perhaps a tombstone. The caller is inside an epoch guard.
func (v *version) lookup(k *item.Key, epk *partmap.EPK, maxSeq uint64, dst []byte, head bool, out *item.Version) ([]byte, bool, error) {
	l := k.Lookup()
	if v.lookupMemory(l, maxSeq, out) {
		if head {
			return dst, true, nil
		}
		n := len(dst)
		dst = append(dst, out.Body...)
		out.Body = dst[n:]
		return dst, true, nil
	}
	for _, r := range v.runs {
		f := r.find(epk)
		if f == nil {
			continue
		}
		found, grown, err := f.get(l, maxSeq, dst, head, out)
		if found || err != nil {
			return grown, found, err
		}
	}
	return dst, false, nil
}

// lookupMemory is lookup in the memtables alone; the body points into them.
func (v *version) lookupMemory(l *item.Lookup, maxSeq uint64, out *item.Version) bool {
	if tableGet(v.active, l, maxSeq, out) {
		return true
	}
	for i := range v.frozen {
		if tableGet(v.frozen[i].Table, l, maxSeq, out) {
			return true
		}
	}
	return false
}
