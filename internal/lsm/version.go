package lsm

import (
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/drain"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Files yields the files of all runs, those of newer runs first.
func (v *Version) Files() iter.Seq[*File] {
	return func(yield func(*File) bool) {
		for _, r := range v.Runs {
			for _, f := range r.Files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// FileBytes sums the bytes of the version's files within their bounds.
func (v *Version) FileBytes() (n int64) {
	for f := range v.Files() {
		n += f.SizeWithin()
	}
	return n
}

// FilesAside counts the files of the partition that are set aside.
func (v *Version) FilesAside() (n int) {
	for f := range v.Files() {
		if f.Aside.Load() {
			n++
		}
	}
	return n
}

// FirstAside returns the damage of a file that is set aside, nil if there is none.
func (v *Version) FirstAside() error {
	for f := range v.Files() {
		if f.Aside.Load() {
			return *f.Damage.Load()
		}
	}
	return nil
}

// Release releases the memtables and files of a version that no reader can reach any
// more.
func (v *Version) Release(e *Env) {
	e.MemIndexes.forget(v.Active)
	v.Active.Release()
	for i := range v.Frozen {
		v.Frozen[i].LetGo(e)
	}
	for f := range v.Files() {
		f.Release()
	}
}

// HoldsInherited says whether some frozen memtable holds records of inherited
// streams.
func (v *Version) HoldsInherited() bool {
	return slices.ContainsFunc(v.Frozen, func(f Frozen) bool { return f.From != 0 || f.Mixed })
}

// Version is an immutable state of a partition. Readers load it inside an
// epoch guard and may use everything it names until they leave.
type Version struct {
	Active     *memtable.Table
	Frozen     []Frozen // newest first
	Runs       []*Run   // newest first
	Generation uint64   // rises when the set of runs changes
	// compactable is the number of runs newer than the newest one that is set aside.
	compactable int
	seeksUntil  int64 // seeks of scans from which a compaction is worth it; see tiers.Seeks
	RawBytes    int64 // bytes of the documents in runs
	RunBytes    int64 // bytes of the runs
	// tombstoned says that some run holds partition tombstones.
	tombstoned bool
}

// TableBytes is the memory that versions take in memtables.
func (v *Version) TableBytes() int64 { return v.sum((*memtable.Table).Bytes) }

// sum adds up what of returns for the memtables.
func (v *Version) sum(of func(*memtable.Table) int64) int64 {
	n := of(v.Active)
	for i := range v.Frozen {
		n += of(v.Frozen[i].Table)
	}
	return n
}

// SetRuns replaces the runs.
func (v *Version) SetRuns(runs []*Run) {
	v.Runs, v.RawBytes, v.RunBytes, v.tombstoned = runs, 0, bytesOf(runs), false
	v.Generation++
	v.seeksUntil = math.MaxInt64
	if v.compactable = slices.IndexFunc(runs, (*Run).aside); v.compactable < 0 {
		v.compactable, v.seeksUntil = len(runs), tiers.SeeksUntil(sizesOf(runs))
	}
	for _, r := range runs {
		raw, _ := r.Compression()
		v.RawBytes += raw
		for _, f := range r.Files {
			v.tombstoned = v.tombstoned || f.Properties().OfPartitions > 0
		}
	}
}

// Frozen is a memtable that takes no more writes and waits for its flush.
type Frozen struct {
	*memtable.Table
	Last    wal.Position // end of its newest record
	Synced  wal.Position // end of its newest record that asked for a sync
	LastSeq uint64
	Applied manifest.Applied
	Drain   *drain.Job // measures its flush; nil: it is not measured

	// For an inherited memtable:
	From    wal.Stream        // the stream of the parent; 0: not inherited
	Clip    *keybounds.Bounds // the part of it that belongs to the partition; nil: all
	Sharers *atomic.Int32     // number of partitions that share it; nil: one
	Mixed   bool              // replay put records of inherited streams into it
}

// LetGo drops a reference to the memtable. When the last one is gone nothing may read it.
func (f *Frozen) LetGo(e *Env) {
	if f.Sharers != nil && f.Sharers.Add(-1) > 0 {
		return
	}
	e.FrozenBytes.Add(-f.Reserved())
	e.MemIndexes.forget(f.Table)
	f.Release()
}

// Lookup finds the newest version of a key at or below maxSeq. If the item was deleted
// with its logical partition, that is the partition tombstone. The body
// is appended to dst unless head is set. Lookup returns dst, grown, and whether it
// found a version, perhaps a tombstone. The caller is inside an epoch guard.
func (v *Version) Lookup(k *item.Key, epk *partmap.EPK, maxSeq uint64, dst []byte, head bool, out *item.Version) ([]byte, bool, error) {
	l := k.Lookup()
	if v.LookupMemory(l, maxSeq, out) {
		if head {
			return dst, true, nil
		}
		n := len(dst)
		dst = append(dst, out.Body...)
		out.Body = dst[n:]
		return dst, true, nil
	}
	for _, r := range v.Runs {
		f := r.Find(epk)
		if f == nil {
			continue
		}
		found, grown, err := f.ReadVersion(l, maxSeq, dst, head, out)
		if found || err != nil {
			return grown, found, err
		}
	}
	return dst, false, nil
}

// LookupMemory is lookup in the memtables alone; the body points into them.
func (v *Version) LookupMemory(l *item.Lookup, maxSeq uint64, out *item.Version) bool {
	if GetFromTable(v.Active, l, maxSeq, out) {
		return true
	}
	for i := range v.Frozen {
		if GetFromTable(v.Frozen[i].Table, l, maxSeq, out) {
			return true
		}
	}
	return false
}

// Ages is the number of runs that compactions can reduce. A frozen memtable counts as a run.
func (v *Version) Ages() int { return v.compactable + len(v.Frozen) }

const MaxSequence = math.MaxUint64

// Shown says whether a version is a document that readers see.
func Shown(v *item.Version, past lifetime.Past) bool { return v.IsDocument() && !past.Gone(v) }

// TableVersions counts the versions in memtables.
func (v *Version) TableVersions() int64 { return v.sum((*memtable.Table).Versions) }

// Dead estimates how many versions in files a reader does not see.
func (v *Version) Dead(past lifetime.Past) (dead float64) {
	for i, r := range v.Runs {
		dead += r.Older() + r.Tombstones() + float64(r.Expiring.Gone(past))
		if i < len(v.Runs)-1 {
			dead += float64(r.Overwritten)
		}
	}
	return dead
}

// AnyExpired says whether some run holds items that have expired.
func (v *Version) AnyExpired(past lifetime.Past) bool {
	for _, r := range v.Runs {
		if r.Expiring.Gone(past) > 0 {
			return true
		}
	}
	return false
}

// DocumentBytes is the size of the documents in memtables.
func (v *Version) DocumentBytes() int64 { return v.sum((*memtable.Table).RawBytes) }

// LiveBytes estimates the size of the documents in the partition, without those that
// newer ones overwrite, as if all versions of a run were of one size.
func (v *Version) LiveBytes() int64 {
	n := v.DocumentBytes()
	for i, r := range v.Runs {
		raw, _ := r.Compression()
		n += raw
		if all := float64(r.Items()); all > 0 {
			n -= int64(float64(raw) * min(1, r.Older()/all))
		}
		if items, older := v.below(i); items > 0 {
			n -= int64(float64(older) * float64(min(r.Overwritten, items)) / float64(items))
		}
	}
	return max(n, 0)
}

// below sums the versions of the runs older than run i, and the bytes of their documents.
func (v *Version) below(i int) (items, bytes int64) {
	for _, r := range v.Runs[i+1:] {
		raw, _ := r.Compression()
		items += r.Items()
		bytes += raw
	}
	return items, bytes
}

// NewestInMemory says whether a memtable holds a version of an item above at.
func (v *Version) NewestInMemory(l *item.Lookup, at uint64, newest *item.Version) bool {
	if v.Active.MaxSeq() > at && v.Active.Get(l, MaxSequence, newest) && newest.Seq > at {
		return true
	}
	for i := range v.Frozen {
		if v.Frozen[i].MaxSeq() > at && v.Frozen[i].Get(l, MaxSequence, newest) && newest.Seq > at {
			return true
		}
	}
	return false
}
