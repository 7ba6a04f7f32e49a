package physical

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Open loads the manifest of the partition, which the store manifest must suit, and opens
// its files. Files that cannot be read are set aside where bears says so; aside are the
// reasons.
func (p *Partition) Open(store *manifest.Store, shared *lsm.SharedFiles, bears func(error) bool) (aside []error, err error) {
	names, err := p.Env.FS.List(p.Dir)
	if err != nil {
		return nil, err
	}
	p.Env.NamesTaken(names)
	var m manifest.Files
	if err = p.Install.Dir.LoadListed(names, &m); err != nil {
		return nil, err
	}
	if err = store.CheckFiles(uint32(p.ID), &m); err != nil {
		return nil, fault.Corrupt(p.Env.FS.Path(path.Join(p.Dir, manifest.Name(p.Install.Dir.Generation()))), 0, "%w", err)
	}
	p.leftovers = m.Leftovers(names)
	p.Install.FlushedSeq.Store(m.FlushedSeq)
	p.Visible.Store(m.FlushedSeq)
	p.Commit.LastSeq = m.FlushedSeq
	p.Install.Applied = m.Applied.OrZero()
	p.ReachLocked(p.Install.Applied)
	p.Inherits.Store(&m.Inherits)
	p.ChangeFloor.Store(m.ChangeFloor)
	p.Commit.mixed = len(m.Inherits) > 0
	// New files get numbers from m.Floor on. If the process ends before a manifest
	// names a new file, the next open knows by the number that it is left over.
	p.Env.NumberTaken(max(m.Floor, 1) - 1)
	aside, err = p.OpenRuns(&m, shared, bears)
	p.foundStamp(p.Version.Load().NewestStamp())
	return aside, err
}

// SweepLeftovers removes what a crash left in the directory of the partition.
func (p *Partition) SweepLeftovers() {
	p.Sweep(p.leftovers)
	p.leftovers = nil
}

// foundStamp notes the stamp of a version that was found at open. Stamps of a replicated
// container are not the store's own, and are ignored.
func (p *Partition) foundStamp(stamp int64) {
	if !p.Family.Replicated {
		p.Env.Stamps.Found(min(stamp, item.MaxTime))
	}
}

// Data returns the partition's memtables and files. It implements replay.Partition and
// scheduler.Partition; NoteVersion and NoteEntry implement the former.
func (p *Partition) Data() *lsm.Tree { return &p.Tree }

// NoteVersion notes a version that replay has put into the memtable.
func (p *Partition) NoteVersion(v *item.Version) {
	p.Commit.LastSeq = max(p.Commit.LastSeq, v.Seq)
	p.Visible.Store(max(p.Visible.Load(), v.Seq))
	p.foundStamp(v.Modified)
}

// NoteEntry notes an entry that replay found in a record of the log. last is the
// sequence of the record.
func (p *Partition) NoteEntry(last uint64, at manifest.Applied) {
	p.Commit.LastSeq = max(p.Commit.LastSeq, last)
	p.Visible.Store(max(p.Visible.Load(), last))
	now := p.Commit.Applied
	if at.Index > now.Index {
		now.Index = at.Index
	}
	now.Time = max(now.Time, at.Time)
	if at.TTL.Revision > now.TTL.Revision { // the marks of other entries do not say it
		now.TTL = at.TTL
	}
	p.ReachLocked(now)
}

// MakeRoom flushes the largest memtables until half of the write buffers is free, at most
// atOnce at a time. Replay calls it when they are nearly full. The flushed sequences do not
// rise: carried records further on in the log may hold older versions that no file has. If
// the open fails, the next one reads the same log again, and versions get into two files; a
// compaction keeps one of each.
func (e *Env) MakeRoom(ctx context.Context, parts []*Partition, atOnce int) error {
	parts = slices.Clone(parts)
	for e.Pool.Used() > e.Pool.Limit()/2 {
		reserved := func(p *Partition) int64 { return p.Version.Load().Active.Reserved() }
		slices.SortStableFunc(parts, func(a, b *Partition) int { return cmp.Compare(reserved(b), reserved(a)) })
		full := 0
		for used := e.Pool.Used(); full < len(parts) && used > e.Pool.Limit()/2; full++ {
			used -= reserved(parts[full])
			if !parts[full].FreezeLocked() {
				break
			}
		}
		if full == 0 {
			return nil
		}
		if err := flushAll(ctx, parts[:full], atOnce); err != nil {
			return err
		}
		e.Reclaim.Now()
	}
	return nil
}

// NoteFlushed raises the flushed sequences of the partitions that MakeRoom flushed. It is
// called when the whole log was read.
func (e *Env) NoteFlushed(ctx context.Context, parts []*Partition, atOnce int) error {
	var behind []*Partition
	for _, p := range parts {
		if !p.Install.Behind {
			continue
		}
		p.Install.Behind = false
		if p.FreezeLocked() {
			behind = append(behind, p)
		} else if err := p.StoreFiles(p.Version.Load().Runs, p.Commit.LastSeq, p.Commit.Applied, nil); err != nil {
			return err
		}
	}
	err := flushAll(ctx, behind, atOnce)
	e.Reclaim.Now()
	return err
}

// flushAll flushes the frozen memtables of partitions, at most atOnce at a time.
func flushAll(ctx context.Context, parts []*Partition, atOnce int) error {
	_, err := atonce.Do(ctx, atOnce, len(parts), func(i int) error { return parts[i].FlushOldest(ctx) })
	return err
}
