// Package logretention decides which files of the log a store keeps.
//
// The log keeps a file until every partition with records in it has flushed them. When
// the log is over its budget, the partition with the oldest record gives way:
//
//   - It flushes, if its memtables are worth a file.
//   - Otherwise the versions in its memtables are written to the log again, at its head,
//     each with the sequence that it has ("carried"). Once they are durable, the
//     partition needs no log file before the one with the first of them.
//
// Invariants:
//
//  1. A log file is removed only when no partition needs a record in it: neither the
//     partition that wrote it, nor one that inherits its stream.
//  2. Before that, the store manifest names the first needed file, durably. So an open can
//     tell a missing file from a removed one.
//  3. A crash before carried records are durable finds the old files: they are removed
//     only after that. A crash later finds both, or only the carried records. Replay skips
//     a sequence that an item already has.
//  4. A partition counts as carried when its carried records are durable, however many
//     partitions wait for the same sync.
//  5. Hold ends: it looks at no file that was begun after its call, so records that it
//     carries are not carried again.
//
// A Keeper has no locks. Its methods may be called by several goroutines.
package logretention

import (
	"cmp"
	"errors"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/wal"
)

const (
	// MostFiles is the number of log files, beside those that are at least half full, past which
	// the log is shrunk even if it is small: each process that is killed leaves one.
	MostFiles = 8

	// small is the size up to which a closed log is not worth trimming.
	small = 64 << 10

	// mostUnwritten is about how many carried bytes are in memory until they are written.
	mostUnwritten = 1 << 20
)

// Keeper keeps the log of a store. Its fields are set before its first use.
type Keeper struct {
	Env       *physical.Env
	Budget    int64 // bytes that the log may take
	FileBytes int64 // of a log file that is full
	// Partitions returns the physical partitions of all containers. A new partition is
	// listed before its first record.
	Partitions func() []*physical.Partition
	// Begin stores in the store manifest that the log begins with a file, unless it begins
	// later already, and then has the log drop the files before it.
	Begin func(first uint64) error
}

// Owners maps the streams of the log to the partitions that need them.
type Owners map[wal.Stream][]*physical.Partition

// OwnersOf returns which of the partitions need which streams.
func OwnersOf(parts []*physical.Partition) Owners {
	owners := make(Owners)
	for _, p := range parts {
		owners[wal.Stream(p.ID)] = append(owners[wal.Stream(p.ID)], p)
		for _, in := range p.Inherited() {
			owners[wal.Stream(in.Stream)] = append(owners[wal.Stream(in.Stream)], p)
		}
	}
	return owners
}

// done returns a sequence: the records of a stream in a log file that are at or below it
// are no longer needed. It is lsm.MaxSequence if no partition needs the stream.
func (o Owners) done(s wal.Stream, file uint64) uint64 {
	least := uint64(lsm.MaxSequence)
	for _, p := range o[s] {
		if wal.Stream(p.ID) == s {
			least = min(least, p.Needs(file))
			continue
		}
		for _, in := range p.Inherited() {
			if wal.Stream(in.Stream) == s {
				least = min(least, in.FlushedSeq)
			}
		}
	}
	return least
}

// Release removes log files that no partition needs.
func (k *Keeper) Release() error {
	owners := OwnersOf(k.Partitions())
	return k.Begin(k.Env.Log.FirstNeeded(func(s wal.Stream, file uint64) uint64 {
		if owners[s] == nil {
			owners = OwnersOf(k.Partitions()) // it may be that of a new partition
		}
		return owners.done(s, file)
	}))
}

// Hold shrinks the log to its budget. It stops at the file that was the newest when it
// began. A log cannot be smaller than what memtables hold, so it is left alone until it is
// twice as large.
func (k *Keeper) Hold() error {
	log := k.Env.Log
	end := log.Newest()
	released := false // the log knows only as of the last release which streams are needed
	var stays error   // why a file that is not needed is there still: the log is shrunk all the same
	for k.Env.Work.Context().Err() == nil && log.First() < end {
		now := log.Stats()
		if int64(now.Files) <= MostFiles+2*now.Bytes/k.FileBytes && (now.Bytes <= k.Budget || now.Bytes <= 2*k.tableBytes()) {
			return stays
		}
		if !released {
			released = true
			if stays = k.Release(); stays != nil && (k.Env.Failed() || errors.Is(stays, fault.ErrDiskFull)) {
				return stays
			}
			continue
		}
		if more, err := k.shrink(); err != nil || !more {
			return cmp.Or(err, stays)
		}
	}
	return stays
}

// shrink makes partitions with the oldest records in the log give way: those with little in
// their memtables up to the first that has more, or else that one. It reports whether it
// did anything.
func (k *Keeper) shrink() (bool, error) {
	streams := k.Env.Log.Oldest()
	if len(streams) == 0 {
		return false, nil
	}
	parts := make(map[wal.Stream]*physical.Partition)
	for _, p := range k.Partitions() {
		parts[wal.Stream(p.ID)] = p
	}
	var light []*physical.Partition
	for _, s := range streams {
		p := parts[s]
		if p == nil || p.Lost != nil {
			break
		}
		if v := p.Version.Load(); len(v.Frozen) > 0 || v.Active.Bytes() >= scheduler.SmallMemtable {
			break
		}
		light = append(light, p)
	}
	if len(light) > 0 {
		if err := k.carry(light); err != lsm.ErrMoved {
			return true, err
		}
		return false, nil // dropped, or its flush is on the way
	}
	p := parts[streams[0]]
	if p == nil {
		k.Env.Work.FlushSoon() // a partition inherited the stream, or none needs it
		return false, nil
	}
	if p.Lost != nil || len(p.Version.Load().Frozen) > 0 {
		return false, nil // its records stay in the log, or its flush is on the way
	}
	p.Freeze()
	k.Env.Work.FlushSoon()
	return true, nil
}

// Carry writes the contents of a partition's active memtable to the log again, and
// releases what the log had of them. It returns lsm.ErrMoved if a memtable of the
// partition is frozen, or the partition was dropped.
func (k *Keeper) Carry(p *physical.Partition) error { return k.carry([]*physical.Partition{p}) }

// carry is Carry for partitions in turn, with one sync for all of them. It ends with the first
// that cannot be carried; those before it are carried.
func (k *Keeper) carry(parts []*physical.Partition) error {
	log := k.Env.Log
	var end wal.Position
	var carried []func()
	var failed error
	for _, p := range parts {
		at, durable, err := p.Carry()
		if err != nil {
			failed = err
			break
		}
		end, carried = max(end, at), append(carried, durable)
		if end-log.Written() > mostUnwritten {
			if err := log.Wait(end, false); err != nil {
				return k.Env.Uncertain(err)
			}
		}
	}
	if failed != nil && len(carried) == 0 {
		return failed
	}
	if err := log.Wait(end, true); err != nil {
		return k.Env.Uncertain(err)
	}
	for _, durable := range carried {
		durable()
	}
	if err := k.Release(); err != nil {
		return err
	}
	return failed
}

// Trim shrinks a log that is much larger than what only the log holds, before the store
// closes. It writes those records again, to a new log file, and releases the old files. If
// the disk is full, the log stays as it is.
func (k *Keeper) Trim() error {
	if k.Env.Log.Stats().Bytes <= small+2*k.tableBytes() {
		return nil
	}
	if err := k.Env.Log.Rotate(); errors.Is(err, fault.ErrDiskFull) {
		return nil
	} else if err != nil {
		return k.Env.Uncertain(err)
	}
	var live []*physical.Partition
	for _, p := range k.Partitions() {
		if p.Version.Load().Active.Versions() > 0 || p.Family.Replicated {
			live = append(live, p)
		}
	}
	if err := k.carry(live); err != nil && !errors.Is(err, fault.ErrDiskFull) {
		return err
	}
	return nil
}

// tableBytes is the memory that versions take in all memtables.
func (k *Keeper) tableBytes() (n int64) {
	for _, p := range k.Partitions() {
		n += p.Version.Load().TableBytes()
	}
	return n
}
