// Package census counts what the memtables and files of a physical partition hold, from
// their properties: it reads no item.
//
// The caller keeps the version from being released meanwhile. The functions keep no
// state and take no lock.
package census

import (
	"math"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
)

// Count is what a version holds. The fields mean what those of engine.PartitionStats
// mean.
type Count struct {
	Items, Tombstones, Dead, Logical            int64
	RawBytes, FileBytes, ForeignBytes, MemBytes int64
	Memtables, Runs, Files                      int
	Exact                                       bool
}

// Of counts what a version holds for readers that go by past.
func Of(v *lsm.Version, past lifetime.Past) Count {
	c := Count{
		Items: v.Active.Items(), RawBytes: v.DocumentBytes(), MemBytes: v.Active.Bytes(),
		Memtables: len(v.Frozen), Runs: len(v.Runs),
	}
	if v.Active.Versions() > 0 {
		c.Memtables++
	}
	known := true
	for i := range v.Frozen {
		known = known && v.Frozen[i].Clip == nil // else some of it belongs to other partitions
		c.Items += v.Frozen[i].Items()
		c.MemBytes += v.Frozen[i].Bytes()
	}
	for f := range Files(v) {
		c.Files++
		c.FileBytes += f.SizeWithin()
		if f.Broken() != nil {
			known = false
			continue
		}
		props := f.Properties()
		c.ForeignBytes += f.Foreign()
		c.Logical += int64(props.LogicalPartitions)
		c.Items += f.Share(props.Items - props.Tombstones)
		c.Tombstones += f.Share(props.Tombstones)
		c.RawBytes += f.RawBytes()
	}
	dead := v.Dead(past)
	c.Dead = int64(math.Ceil(dead))
	c.Exact = known && c.Memtables+c.Runs <= 1 && v.Active.Versions() == 0 && dead == 0
	return c
}

// Files yields the files of all runs.
func Files(v *lsm.Version) func(yield func(*lsm.File) bool) {
	return func(yield func(*lsm.File) bool) {
		for _, r := range v.Runs {
			for _, f := range r.Files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// FileSeq returns the highest sequence of the versions in files that can be read, 0 if there
// are none.
func FileSeq(v *lsm.Version) (highest uint64) {
	for f := range Files(v) {
		if f.Broken() == nil {
			highest = max(highest, f.Properties().MaxSeq)
		}
	}
	return highest
}

// Stale counts the files without an index for a policy, and their bytes. Those that are
// set aside are not counted: damage is that of one of them, nil if there is none.
func Stale(v *lsm.Version, policy *index.Compiled) (files int, bytes int64, damage error) {
	for f := range Files(v) {
		switch {
		case !f.StaleFor(policy):
		case !f.Aside.Load():
			files++
			bytes += f.SizeWithin()
		case damage == nil:
			damage = *f.Damage.Load()
		}
	}
	return files, bytes, damage
}

// HoldsChanges says whether files have versions that stay only since a change feed may
// read what is above the sequence floor.
func HoldsChanges(v *lsm.Version, floor uint64) bool {
	for _, r := range v.Runs {
		if r.Passed(floor) < 1 && r.Older()+r.Tombstones() > 0 {
			return true
		}
	}
	return false
}

// HoldsExpired says whether files have items that have expired and that compactions keep:
// they drop only those that are removable.
func HoldsExpired(v *lsm.Version, past, removable lifetime.Past) bool {
	for _, r := range v.Runs {
		if r.Expiring.Gone(past) > r.Expiring.Gone(removable) {
			return true
		}
	}
	return false
}
