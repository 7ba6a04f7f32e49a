package engine

import (
	"math"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// fileBytes sums the bytes of the version's files within their bounds.
func (v *version) fileBytes() (n int64) {
	for _, r := range v.runs {
		for _, f := range r.files {
			n += f.bytes()
		}
	}
	return n
}

// filesAside counts the files of the partition that are set aside.
func (v *version) filesAside() (n int) {
	for _, r := range v.runs {
		for _, f := range r.files {
			if f.aside.Load() {
				n++
			}
		}
	}
	return n
}

// firstAside returns the damage of a file that is set aside, nil if there is none.
func (v *version) firstAside() error {
	for _, r := range v.runs {
		for _, f := range r.files {
			if f.aside.Load() {
				return *f.damage.Load()
			}
		}
	}
	return nil
}

// release releases the memtables and files of a version that no reader can reach any
// more.
func (v *version) release(e *env) {
	e.memIndexes.forget(v.active)
	v.active.Release()
	for i := range v.frozen {
		v.frozen[i].letGo(e)
	}
	for _, r := range v.runs {
		for _, f := range r.files {
			f.Release()
		}
	}
}

// holdsInherited says whether some frozen memtable holds records of inherited
// streams.
func (v *version) holdsInherited() bool {
	for i := range v.frozen {
		if v.frozen[i].from != 0 || v.frozen[i].mixed {
			return true
		}
	}
	return false
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

// tableBytes is the memory that versions take in memtables.
func (v *version) tableBytes() int64 {
	n := v.active.Bytes()
	for i := range v.frozen {
		n += v.frozen[i].Bytes()
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
	applied manifest.Applied

	// For an inherited memtable:
	from  wal.Stream    // the stream of the parent; 0: not inherited
	clip  *bounds       // the part of it that belongs to the partition; nil: all
	refs  *atomic.Int32 // number of partitions that share it; nil: one
	mixed bool          // replay put records of inherited streams into it
}

// letGo drops a partition's reference to the memtable. The last one gives its memory
// back: then nothing may read it.
func (f *frozenTable) letGo(e *env) {
	if f.refs != nil && f.refs.Add(-1) > 0 {
		return
	}
	e.frozenBytes.Add(-f.Reserved())
	e.memIndexes.forget(f.Table)
	f.Release()
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

// ages is the number of runs that merges can reduce. A frozen memtable counts as a run.
func (v *version) ages() int { return v.compactable + len(v.frozen) }

const maxSequence = math.MaxUint64

// visible says whether a version is a document that readers see.
func visible(v *item.Version, now int64) bool {
	return v.IsDocument() && (v.Expires == 0 || v.Expires > now)
}

// tableVersions counts the versions in memtables.
func (v *version) tableVersions() int64 {
	n := v.active.Versions()
	for i := range v.frozen {
		n += v.frozen[i].Versions()
	}
	return n
}

// dead estimates how many versions in files a reader that begins at the time now
// does not see.
func (v *version) dead(now int64) (dead float64) {
	for i, r := range v.runs {
		dead += r.older() + r.tombstones() + float64(r.expiring.expired(now))
		if i < len(v.runs)-1 {
			dead += float64(r.shadowed)
		}
	}
	return dead
}

// documentBytes is the size of the documents in memtables.
func (v *version) documentBytes() int64 {
	n := v.active.RawBytes()
	for i := range v.frozen {
		n += v.frozen[i].RawBytes()
	}
	return n
}

// olderItems and olderRaw sum the runs older than run i.
func (v *version) olderItems(i int) (n int64) {
	for _, r := range v.runs[i+1:] {
		n += r.items()
	}
	return n
}

func (v *version) olderRaw(i int) (n int64) {
	for _, r := range v.runs[i+1:] {
		raw, _ := r.compression()
		n += raw
	}
	return n
}

// newestInMemory says whether a memtable holds a version of an item above at.
func (v *version) newestInMemory(l *item.Lookup, at uint64, newest *item.Version) bool {
	if v.active.MaxSeq() > at && v.active.Get(l, maxSequence, newest) && newest.Seq > at {
		return true
	}
	for i := range v.frozen {
		if v.frozen[i].MaxSeq() > at && v.frozen[i].Get(l, maxSequence, newest) && newest.Seq > at {
			return true
		}
	}
	return false
}
