package physical

import (
	"context"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/jobtrace"
	"github.com/cleavestore/cleave/internal/lsm"
)

// A flush goes through these steps:
//
//  1. Wait until all writes in the oldest frozen memtable are published. In a
//     failed store they never are, and nothing is flushed.
//  2. Write the memtable to temporary files, sync them, open them again by name
//     and check every block.
//  3. Rename them, sync the directory.
//  4. Commit point: the partition's manifest names them and the flushed
//     sequence.
//  5. Readers get a version with the run in place of the memtable. When the last
//     reader of the old version has left, the memtable is released. Log files that
//     no partition needs any more are removed.
//
// A crash before 4 leaves files that no manifest names; the log still holds their
// contents. After 4 their contents no longer need the log.

// Flushed describes a flush.
type Flushed struct {
	Items    int64 // versions written
	RawBytes int64 // of their documents
	Bytes    int64 // of the files
	Took     time.Duration
}

// Job describes work on the partition to profilers.
func (p *Partition) Job(name string) jobtrace.Job {
	return jobtrace.Job{Name: name, Container: p.Family.Name, Partition: uint32(p.ID)}
}

// FlushOldest turns the oldest frozen memtable into a run, unless the partition is
// dropped. Tree.Flushing is held.
func (p *Partition) FlushOldest(ctx context.Context) error {
	job := p.Job("flush")
	defer job.End()
	if err := p.writeOldest(job.Start(ctx)); err != lsm.ErrMoved {
		return err
	}
	return nil
}

// writeOldest is FlushOldest, with lsm.ErrMoved if the partition is dropped.
func (p *Partition) writeOldest(ctx context.Context) error {
	v, release := p.PinVersion()
	defer release()
	if len(v.Frozen) == 0 || p.Dropped.Load() {
		return nil
	}
	// Only a flush removes memtables, and a partition has one flush at a time: mem
	// stays without a guard.
	mem := v.Frozen[len(v.Frozen)-1]
	if err := p.Show(Record{Seq: mem.LastSeq, Pos: mem.Last, Need: mem.Synced}); err != nil {
		return err
	}
	start := p.Env.Clock()
	drained := p.Env.Gate.Drain.Begin(mem.Reserved(), mem.Reserved())
	mem.Drain = drained
	done, ok, err := p.Flush(ctx, v, &mem)
	if err != nil || !ok {
		drained.End(true)
		return err
	}
	// One small memtable says little.
	p.TableBytes.Add((mem.Reserved() - p.TableBytes.Load()) / 4)
	p.RunBytes.Add((done.Bytes - p.RunBytes.Load()) / 4)
	p.Env.Reclaim.Retire(func() {
		mem.LetGo(&p.Env.Env)
		drained.End(false)
		p.Env.Gate.Release()
	})
	p.Env.Flushed(p, Flushed{Items: done.Items, RawBytes: mem.RawBytes(), Bytes: done.Bytes, Took: p.Env.Clock().Sub(start)})
	return nil
}

// FlushAlone is FlushOldest for a caller that does not hold Tree.Flushing.
func (p *Partition) FlushAlone(ctx context.Context) error {
	if err := p.Flushing.Lock(ctx); err != nil {
		return err
	}
	defer p.Env.Work.FlushSoon() // flushers pass over a partition that is being flushed
	defer p.Flushing.Unlock()
	return p.FlushOldest(ctx)
}

// FlushFrozen flushes what is frozen now, and not what writers freeze meanwhile.
func (p *Partition) FlushFrozen(ctx context.Context) error {
	frozen := p.Version.Load().Frozen
	if len(frozen) == 0 {
		return nil
	}
	newest := frozen[0].Table
	waits := func(f lsm.Frozen) bool { return f.Table == newest }
	for slices.ContainsFunc(p.Version.Load().Frozen, waits) && !p.Dropped.Load() {
		if err := p.FlushAlone(ctx); err != nil {
			return err
		}
		p.Env.Gate.Flushed(nil)
	}
	if p.Family.Replicated {
		return p.noteEntries()
	}
	return nil
}
