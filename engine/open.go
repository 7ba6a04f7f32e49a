package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// Opening for writing goes through these steps. Until step 6 nothing that a
// manifest names is changed.
//
//  1. Take the lock; load the store manifest (or make a new store).
//  2. Load the manifest of each partition and open its files. What cannot be read is
//     set aside (aside.go).
//  3. Make durable what was found by its name: see settleNames. Sync the log
//     files whose length is not noted and drop their pages, so that what step 4
//     reads is on the device: pages left by a failed sync are readable and not on
//     disk.
//  4. Replay the log into memtables, records up to a partition's flushed
//     sequence excepted. Damage before the synced-up-to mark ends the open. If
//     the memtables get full and must be flushed, the log is first read through
//     to its end, so that an open that fails has flushed nothing.
//  5. Note the valid length of the old log files, "not clean", and a new
//     sequence limit in the store manifest, and no intent of a reshape any more.
//     Commit point of the recovery: run before it, recovery finds the same again.
//  6. Start a new log file. Remove temporary files and the directories of
//     partitions that the manifest does not list.
//
// If the disk is full, Open removes the reserve file and begins anew, once.
func (db *DB) open(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	var err error
	note := fmt.Sprintf("pid %d", os.Getpid())
	if db.lock, err = db.fs.Lock(manifest.LockName, note); err != nil {
		if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: what cannot be written is opened with Options.ReadOnly", err)
		}
		return err
	}
	db.bearing = !db.opts.RefuseDamaged
	db.structure.dir = manifest.NewDir(db.fs, ".", manifest.StoreKind)
	if db.opts.foldBytes > 0 {
		db.structure.dir.FoldFrom(db.opts.foldBytes)
	}
	latest, err := db.structure.dir.Latest()
	if err != nil {
		return err
	}
	if latest == 0 {
		if err = db.makeStore(); err != nil {
			return err
		}
	} else if err = db.structure.dir.Load(&db.structure.state); err != nil {
		return err
	}
	state := &db.structure.state
	db.id = state.StoreID
	db.marks.open(state.Marks, db.markMillis())
	if err = db.openPartitions(ctx, state); err != nil {
		return err
	}
	if err = db.settleNames(state); err != nil {
		return err
	}
	logState := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	if err = wal.Settle(db.fs, manifest.LogDir, logState); err != nil {
		return err
	}
	db.replaying = true
	recovery, err := db.replay(ctx, state)
	db.replaying = false
	if err != nil {
		return err
	}
	if err = db.noteFlushed(ctx); err != nil {
		return err
	}
	nextSeq := state.SeqLimit
	if state.Clean {
		nextSeq = state.LastSeq + 1
	}
	nextSeq = max(nextSeq, recovery.LastSeq+1, 1)
	if err = db.checkSequences(nextSeq); err != nil {
		return err
	}
	if nextSeq > item.MaxSeq-sequenceReserve {
		return fmt.Errorf("the store has come to sequence %d: %w", nextSeq, errNoSequences)
	}
	e := state.Edit()
	e.Clean, e.Intents = false, nil
	e.SeqLimit = nextSeq + sequenceReserve
	e.LogFirst, e.LogClosed = firstOf(recovery), recovery.Closed
	if err = db.structure.dir.Edit(state, e); err != nil {
		return err
	}
	db.stamps.found(state.TimeHigh)
	if db.log, err = wal.Create(db.fs, manifest.LogDir, recovery, nextSeq, db.logOptions()); err != nil {
		return err
	}
	db.tellDropped(recovery)
	if err := db.sweep(); err != nil {
		return err
	}
	if err := db.holdLog(); err != nil {
		return err
	}
	for c := range db.containers.Load().all() {
		c.divide()
	}
	if !db.short {
		db.keepReserve()
	}
	db.work.start(db)
	return nil
}

// settleNames makes durable the manifests of partitions and the names of their
// files. A process that was killed between the rename of a manifest and the sync
// of its directory leaves a manifest that is found and not durable. For its sake
// the log is let go and merged files are removed: a power cut that took it away
// would leave neither. The other names that an open relies on are durable when
// it does: a partition's directory before the store manifest names it, a log
// file's by wal.Settle, the store manifest's by that of the next generation. After
// a clean close all are.
func (db *DB) settleNames(state *manifest.Store) error {
	if state.Clean {
		return nil
	}
	for i := range state.Partitions {
		err := db.fs.SyncDir(manifest.PartitionDir(state.Partitions[i].ID))
		if err != nil && !(db.bearing && errors.Is(err, ErrMissing)) { // one without its directory is set aside
			return err
		}
	}
	return nil
}

// checkSequences makes sure that what is written next is newer than all that is
// there, whatever the store manifest says.
func (db *DB) checkSequences(next uint64) error {
	for _, p := range db.partitions() {
		if p.c.def.Replicated {
			continue // it has its own
		}
		highest := p.install.flushedSeq.Load()
		for _, r := range p.version.Load().runs {
			for _, f := range r.files {
				if f.Broken() == nil { // else what it holds is not known
					highest = max(highest, f.Properties().MaxSeq)
				}
			}
		}
		if highest >= next {
			return fault.Corrupt(db.fs.Path(manifest.Name(db.structure.dir.Generation())), 0, "partition %d has sequence %d, the store goes on from %d", p.id, highest, next)
		}
	}
	return nil
}

func firstOf(r *wal.Recovery) uint64 {
	if len(r.Closed) == 0 {
		return r.NextFile
	}
	return r.Closed[0].File
}

func (db *DB) logOptions() wal.Options {
	o := wal.Options{MaxFileBytes: db.opts.LogFileBytes, Unsettled: db.opts.ReadOnly, StoreID: db.id, RandomID: db.opts.random}
	if db.short {
		o.FirstFileBytes = 1 // as small as it can be
	}
	return o
}

// openRoot finds the directory, and refuses one with files in it that is no
// store.
func (db *DB) openRoot() error {
	if db.opts.fs != nil {
		db.fs = db.opts.fs
	} else {
		var err error
		if db.opts.ReadOnly {
			if db.fs, err = vfs.OpenRoot(db.dir); errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %w", ErrNotStore, err)
			}
		} else {
			db.fs, err = vfs.CreateRoot(db.dir)
		}
		if err != nil {
			return err
		}
	}
	db.fs = vfs.Sparing(db.fs, db.files.Spare)
	names, err := db.fs.List(".")
	if err != nil {
		return err
	}
	if hasManifest(names) {
		var m manifest.Files
		if !slices.Contains(names, manifest.PartitionsDir) && manifest.NewDir(db.fs, ".", manifest.PartitionKind).Load(&m) == nil {
			return fmt.Errorf("%w: it is the directory of partition %d of one", ErrNotStore, m.Partition)
		}
		return nil
	}
	refusal := db.foreign(names)
	if refusal == nil {
		return nil
	}
	if err := db.checkOrphans(); err != nil {
		// Unless somebody has just made the store.
		if names, listErr := db.fs.List("."); listErr == nil && hasManifest(names) {
			return nil
		}
		return err
	}
	return refusal
}

func hasManifest(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := manifest.ParseName(name)
		return ok
	})
}

// foreign says why a directory without a manifest is not made a store.
func (db *DB) foreign(names []string) error {
	for _, name := range names {
		switch {
		case name == manifest.LockName, name == manifest.ReserveName, name == manifest.LogDir, name == manifest.PartitionsDir:
		case strings.HasSuffix(name, manifest.TempSuffix), name == "lost+found":
		default:
			return fmt.Errorf("%w: it has no manifest, and a file %q", ErrNotStore, name)
		}
	}
	if db.opts.ReadOnly {
		return fmt.Errorf("%w: it has no manifest", ErrNotStore)
	}
	return nil
}

// checkOrphans refuses a directory without a manifest in which files of a log
// or of partitions are left: it has lost its manifest.
func (db *DB) checkOrphans() error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		names, err := db.fs.List(dir)
		if err != nil && !errors.Is(err, fault.ErrMissing) {
			return err
		}
		if len(names) > 0 {
			return fault.IO("open", db.fs.Path(manifest.Name(1)), -1, fmt.Errorf("the manifest is gone, %s/%s is there: %w", dir, names[0], os.ErrNotExist))
		}
	}
	return nil
}

// makeStore makes the directories and the first manifest of a store.
func (db *DB) makeStore() error {
	if err := db.checkOrphans(); err != nil {
		return err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		if err := vfs.MkdirSync(db.fs, dir); err != nil {
			return err
		}
	}
	state := manifest.Store{Head: manifest.Head{StoreID: newStoreID(db.opts.random), Clean: true, NextContainer: 1, NextPartition: 1}}
	if err := db.structure.dir.Store(&state); err != nil {
		return err
	}
	db.structure.state = state
	return nil
}

// openPartitions builds containers and partitions and opens their files.
func (db *DB) openPartitions(ctx context.Context, state *manifest.Store) error {
	entries := make(map[uint32][]partmap.Entry)
	parents := make(map[PartitionID][]PartitionID)
	for i := range state.Partitions {
		m := &state.Partitions[i]
		lo, err := partmap.EPKFromBytes(m.Min)
		if err != nil {
			return fmt.Errorf("partition %d: lower boundary: %w", m.ID, err)
		}
		hi, err := partmap.EPKFromBytes(m.Max)
		if err != nil {
			return fmt.Errorf("partition %d: upper boundary: %w", m.ID, err)
		}
		for _, id := range m.Parents {
			parents[PartitionID(m.ID)] = append(parents[PartitionID(m.ID)], PartitionID(id))
		}
		entries[m.Container] = append(entries[m.Container], partmap.Entry{ID: PartitionID(m.ID), Range: partmap.Range{Min: lo, Max: hi}})
	}
	containers := make(map[string]*Container, len(state.Containers))
	db.containers.Store(&containerSet{settled: containers})
	opened := make(sharedFiles)
	for i := range state.Containers {
		c, err := db.newContainer(&state.Containers[i], entries[state.Containers[i].ID])
		if err != nil && !errors.Is(err, ErrTooNew) {
			err = fault.Corrupt(db.fs.Path(manifest.Name(db.structure.dir.Generation())), 0, "%w", err)
		}
		if err != nil {
			return err
		}
		containers[c.name] = c
		for _, p := range c.routing.Load().parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.parents = parents[p.id]
			err := p.open(opened)
			if db.bears(err) {
				err = p.setAside(err)
			}
			if err != nil {
				return fmt.Errorf("container %q, partition %d: %w", c.name, p.id, err)
			}
		}
	}
	return nil
}

// open loads the manifest of a partition and opens its files.
func (p *partition) open(opened sharedFiles) error {
	var m manifest.Files
	if err := p.install.dir.Load(&m); err != nil {
		return err
	}
	if err := p.db.structure.state.CheckFiles(uint32(p.id), &m); err != nil {
		return fault.Corrupt(p.db.fs.Path(path.Join(p.dir, manifest.Name(p.install.dir.Generation()))), 0, "%w", err)
	}
	p.left = m
	p.install.flushedSeq.Store(m.FlushedSeq)
	p.visible.Store(m.FlushedSeq)
	p.mu.lastSeq = m.FlushedSeq
	p.install.applied = appliedFrom(m.Applied)
	p.mu.applied = p.install.applied
	p.c.raiseEntryTime(p.mu.applied.time)
	p.inherits.Store(&m.Inherits)
	p.changeFloor.Store(m.ChangeFloor)
	p.mu.mixed = len(m.Inherits) > 0
	if err := p.noteNames(); err != nil {
		return err
	}
	// A file of this run must not look like one that an older manifest named: it
	// is known by its number to be left over if this run ends before its commit.
	p.db.nextFile.Store(max(p.db.nextFile.Load(), max(m.Floor, 1)-1))
	v := *p.version.Load()
	for i := range m.Runs {
		r := &run{shadowed: m.Runs[i].Shadowed, expiring: expiringFrom(m.Runs[i].Expiring), keptAbove: m.ChangeFloor}
		v.runs = append(v.runs, r)
		p.version.Store(&v) // so that abandon closes what was opened
		for _, ref := range m.Runs[i].Files {
			f, err := p.openFile(ref, opened)
			if p.db.bears(err) {
				f, err = p.asideFile(ref, path.Join(p.dir, manifest.SegmentName(ref.Number)), err)
			}
			if err != nil {
				return err
			}
			r.files = append(r.files, f)
			p.db.nextFile.Store(max(p.db.nextFile.Load(), ref.Number))
			if f.Broken() == nil {
				p.foundStamp(f.Properties().MaxModified)
			}
		}
	}
	v.setRuns(v.runs)
	p.version.Store(&v)
	return nil
}

// noteNames makes sure that no file gets the number of one that is in the directory.
func (p *partition) noteNames() error {
	names, err := p.db.fs.List(p.dir)
	for _, name := range names {
		if number, ok := manifest.ParseSegmentName(strings.TrimSuffix(name, manifest.TempSuffix)); ok {
			p.db.nextFile.Store(max(p.db.nextFile.Load(), number))
		}
	}
	return err
}

// openFile opens a file reference and checks it against the file.
func (p *partition) openFile(ref manifest.File, opened sharedFiles) (*file, error) {
	lo, err := partmap.EPKFromBytes(ref.Min)
	if err != nil {
		return nil, err
	}
	hi, err := partmap.EPKFromBytes(ref.Max)
	if err != nil {
		return nil, err
	}
	name := path.Join(p.dir, manifest.SegmentName(ref.Number))
	info, err := p.db.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size != ref.Size {
		return nil, fault.Corrupt(p.db.fs.Path(name), min(info.Size, ref.Size), "file has %d bytes, the manifest says %d", info.Size, ref.Size)
	}
	reader, err := opened.open(p.db, name, ref.Number, info)
	if err != nil {
		return nil, err
	}
	if reader.FooterCRC() != ref.FooterCRC {
		err := fault.Corrupt(p.db.fs.Path(name), info.Size-4, "footer checksum %08x, the manifest says %08x", reader.FooterCRC(), ref.FooterCRC)
		delete(opened, sharedFile{ref.Number, info.ID}) // it may be closed now
		reader.Release()
		return nil, err
	}
	f := &file{Reader: reader, ref: ref, min: lo, max: hi, name: name, path: p.db.fs.Path(name)}
	f.clipTo(p.c.levels())
	return f, nil
}

// sharedFiles are the files that an open has opened so far: partitions that
// share one share its reader.
type sharedFiles map[sharedFile]*segment.Reader

type sharedFile struct{ number, inode uint64 }

func (s sharedFiles) open(db *DB, name string, number uint64, info vfs.Info) (*segment.Reader, error) {
	key := sharedFile{number, info.ID}
	if r := s[key]; r != nil && info.Links > 1 {
		r.AddName(name)
		r.Acquire()
		return r, nil
	}
	r, err := segment.Open(db.fs, name, db.readerOptions())
	if err == nil {
		s[key] = r
	}
	return r, err
}

func (db *DB) readerOptions() segment.ReaderOptions {
	return segment.ReaderOptions{
		Mode: db.opts.ReadMode, EPK: appendEPK, Cold: db.cold, Hot: db.hot, Budget: db.files,
		Keep: db.opts.ReadOnly, // a writer may remove what it has merged
	}
}

// appendEPK computes the EPK of an encoded partition key for the segments.
func appendEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}

// replay reads the log into the memtables.
func (db *DB) replay(ctx context.Context, state *manifest.Store) (*wal.Recovery, error) {
	owners := db.streamOwners()
	fenced := make(map[wal.Stream]bool)
	var op operation
	st := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	checked := false
	recovery, err := wal.Recover(ctx, db.fs, manifest.LogDir, st, db.logOptions(), func(rec *wal.Record) error {
		if rec.Seq > item.MaxSeq || rec.Last() > item.MaxSeq {
			return recordError(db, rec, fmt.Errorf("sequences %d to %d, which no store comes to", rec.Seq, rec.Last()))
		}
		if rec.Type == wal.TypeFence {
			fenced[rec.Stream] = true
		}
		if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
			return nil
		}
		if fenced[rec.Stream] {
			return recordError(db, rec, fmt.Errorf("record of partition %d behind its fence", rec.Stream))
		}
		parts := owners[rec.Stream]
		if parts == nil {
			if uint32(rec.Stream) < state.NextPartition {
				return nil // dropped
			}
			return recordError(db, rec, fmt.Errorf("record of partition %d, which was never made", rec.Stream))
		}
		for _, p := range parts {
			if p.lost != nil {
				continue // its records stay in the log
			}
			if err := p.replay(rec, &op); err != nil {
				return err
			}
		}
		if db.opts.ReadOnly || db.pool.Used() < db.pool.Limit()/8*7 {
			return nil
		}
		if !checked {
			// Nothing is flushed before all of the log is known to be good.
			if _, err := wal.Recover(ctx, db.fs, manifest.LogDir, st, db.logOptions(), func(*wal.Record) error { return nil }); err != nil {
				return err
			}
			checked = true
		}
		return db.makeRoom(ctx)
	})
	if err != nil {
		return nil, err
	}
	db.dropped = recovery.Dropped
	return recovery, nil
}

// tellDropped reports what the log had behind its end.
func (db *DB) tellDropped(r *wal.Recovery) {
	if r.Dropped == (wal.Dropped{}) {
		return
	}
	db.opts.Logger.Warn("log ends in a torn record", "file", r.TornFile, "offset", r.TornOffset, "bytes", r.Dropped.Bytes, "records", r.Dropped.Records, "reason", r.TornReason)
	notify(db, db.opts.Events.LogDropped, LogDroppedEvent{
		File: r.TornFile, Offset: r.TornOffset, Reason: r.TornReason, Bytes: r.Dropped.Bytes, Records: r.Dropped.Records,
	})
}

// makeRoom flushes the largest memtables, when those that replay fills come near
// the memory budget, until half of it is free. The flushed sequence stays as it was: carried records
// further on in the log may hold older items that are nowhere else. If the open
// fails, the next one reads the same log again, and finds versions that are in
// files too; a merge keeps one of each.
func (db *DB) makeRoom(ctx context.Context) error {
	for db.pool.Used() > db.pool.Limit()/2 {
		var largest *partition
		for _, p := range db.partitions() {
			if largest == nil || p.version.Load().active.Reserved() > largest.version.Load().active.Reserved() {
				largest = p
			}
		}
		if !largest.freezeLocked() {
			return nil
		}
		if err := db.flushOldest(ctx, largest); err != nil {
			return err
		}
		db.work.reclaimNow()
	}
	return nil
}

// noteFlushed makes the flushed sequences true of the partitions that makeRoom
// flushed, now that the whole log was read.
func (db *DB) noteFlushed(ctx context.Context) error {
	for _, p := range db.partitions() {
		if !p.install.behind {
			continue
		}
		p.install.behind = false
		if p.freezeLocked() {
			if err := db.flushOldest(ctx, p); err != nil {
				return err
			}
			continue
		}
		if err := p.storeFiles(p.version.Load().runs, p.mu.lastSeq, p.mu.applied, nil); err != nil {
			return err
		}
	}
	db.work.reclaimNow()
	return nil
}

// recordError reports a log record that does not make sense.
func recordError(db *DB, rec *wal.Record, err error) error {
	return fault.Corrupt(db.fs.Path(path.Join(manifest.LogDir, wal.FileName(rec.File))), rec.Offset, "%w", err)
}

// replay applies a log record to the memtable. What is there already, flushed
// or carried, is skipped by its sequence.
func (p *partition) replay(rec *wal.Record, op *operation) error {
	carried := rec.Type == wal.TypeCarried
	own := rec.Stream == wal.Stream(p.id)
	flushed := p.flushedOf(rec.Stream)
	rest := rec.Payload
	for i := 0; len(rest) > 0; i++ {
		var err error
		if rest, err = decodeOperation(rest, carried, op); err != nil {
			return recordError(p.db, rec, fmt.Errorf("operation %d: %w", i, err))
		}
		if !carried {
			op.ver.Seq = rec.Seq + uint64(i)
		}
		if op.ver.Seq <= flushed {
			continue
		}
		if op.at.index != 0 {
			p.replayMark(rec.Seq, op.at)
			continue
		}
		if !p.rng.Contains(&op.epk) {
			if !own {
				continue // another one inherits it, or has flushed it
			}
			return recordError(p.db, rec, fmt.Errorf("operation %d: key %x lies outside of partition %d", i, op.key.EPK, p.id))
		}
		// A carried version may come after newer ones of its item, whose records are
		// there yet.
		if carried && p.install.behind {
			if err := p.restoreNewest(op); err != nil {
				return err
			}
		}
		if err := p.version.Load().active.Restore(&op.key, &op.ver); err != nil {
			return err
		}
		p.mu.lastSeq = max(p.mu.lastSeq, op.ver.Seq)
		p.visible.Store(max(p.visible.Load(), op.ver.Seq))
		p.foundStamp(op.ver.Modified)
	}
	return nil
}

// restoreNewest puts what makes a carried version an old one into the memtable
// above it, if replay has flushed that: sources follow each other by age. A crash
// in the middle of carrying may have left only the old one in the log behind it.
func (p *partition) restoreNewest(op *operation) error {
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	v := p.version.Load()
	var newest item.Version
	// What this replay has flushed comes first. Damage is met behind it: what is there was
	// flushed before, and the log has it again if it is newer.
	body, found, err := v.lookup(&op.key, &op.epk, maxSequence, nil, false, &newest)
	if err != nil || !found || newest.Seq <= op.ver.Seq {
		return nil
	}
	newest.Body = body
	key := op.key
	if deleted, err := v.partitionTombstone(&op.key, maxSequence); err == nil && deleted == newest.Seq {
		key = key.Partition()
	}
	return v.active.Restore(&key, &newest)
}

// sweep removes what a crash left: temporary files and directories of
// partitions that the store manifest does not list. Other unknown files stay.
func (db *DB) sweep() error {
	bases, err := db.fs.List(manifest.PartitionsDir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		id, ok := manifest.ParsePartitionDir(base)
		if !ok {
			continue
		}
		dir := manifest.PartitionDir(id)
		if db.structure.state.Partition(id) != nil {
			continue
		}
		if err := removeTree(db.fs, dir); vfs.InUse(err) {
			db.remove("remove a replaced partition", 0, func() error { return removeTree(db.fs, dir) })
		} else if err != nil {
			db.opts.Logger.Warn("cannot remove a dropped partition", "directory", dir, "error", err)
		}
	}
	for _, p := range db.partitions() {
		if p.lost != nil {
			continue // nobody knows what it needs
		}
		if err := db.sweepDirectory(p.dir, p); err != nil {
			return err
		}
		p.left = manifest.Files{}
	}
	return db.sweepDirectory(".", nil)
}

// sweepDirectory removes temporary files, and segment files that the partition
// which the directory is of does not name. Those in use stay obsolete.
func (db *DB) sweepDirectory(dir string, p *partition) error {
	names, err := db.fs.List(dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name := path.Join(dir, base)
		if strings.HasSuffix(base, manifest.TempSuffix) {
			if err := db.fs.Remove(name); err != nil {
				return err
			}
			continue
		}
		number, isSegment := manifest.ParseSegmentName(base)
		if !isSegment || p == nil || !p.left.Disposable(number) || slices.Contains(p.listed(), number) {
			continue
		}
		if err := db.fs.Remove(name); vfs.InUse(err) {
			p.obsolete.numbers = append(p.obsolete.numbers, number)
			db.remove("remove a merged file", 0, func() error { return p.removeObsolete(name, number) })
		} else if err != nil {
			return err
		}
	}
	return nil
}

// openReadOnly reads a consistent past state without taking the lock: store
// manifest, partition manifests, files, log. Each step only ever finds a newer
// state than the one before, and what a newer state no longer needs may be
// gone: then it starts over, as long as a live writer changes the store.
func (db *DB) openReadOnly(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	var before []uint64
	var last string // the error that it was before
	for try := 1; ; try++ {
		err := db.readState(ctx)
		if err == nil && db.bearing && !db.asideStill() {
			err = errStale
		}
		if err == nil || !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errStale) {
			return err
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		now := db.generations()
		same := before != nil && slices.Equal(now, before)
		if same && (db.bearing || !unreadable(err)) {
			return err
		}
		if try == readTries {
			return fmt.Errorf("%w, at each of %d attempts; try again (the last one met: %v)", errStale, try, err)
		}
		// What is gone because a writer replaced it is found elsewhere the next time; what
		// is damaged is met again.
		db.bearing = !db.opts.RefuseDamaged && unreadable(err) && (same || err.Error() == last)
		if same && !db.bearing {
			return err
		}
		before, last = now, err.Error()
		for _, p := range db.partitions() {
			p.version.Load().release(db)
		}
		db.containers.Store(nil)
		select { // the writer has better use for the processor
		case <-time.After(time.Duration(min(try, 20)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readTries bounds the attempts to read a store that a writer changes.
const readTries = 50

// generations tells the generations of the manifests that were found: of the
// store and of each partition.
func (db *DB) generations() []uint64 {
	latest, _ := db.structure.dir.Latest() // what cannot be read is no change
	found := []uint64{latest}
	for _, p := range db.structure.state.Partitions {
		latest, _ := manifest.NewDir(db.fs, manifest.PartitionDir(p.ID), manifest.PartitionKind).Latest()
		found = append(found, latest)
	}
	return found
}

var errStale = errors.New("the store changed while it was read")

func (db *DB) readState(ctx context.Context) error {
	db.structure.dir = manifest.NewDir(db.fs, ".", manifest.StoreKind)
	db.structure.state = manifest.Store{}
	if err := db.structure.dir.Load(&db.structure.state); err != nil {
		return err
	}
	state := &db.structure.state
	db.id = state.StoreID
	if err := db.openPartitions(ctx, state); err != nil {
		return err
	}
	recovery, err := db.replay(ctx, state)
	if err != nil {
		return err
	}
	// Log files that a newer manifest let go were read before they went, or are
	// missing, or got another use, which their records and seals tell: but not
	// in the last one, which may end anywhere.
	last := state.LogFirst
	for _, f := range recovery.Files {
		if len(f.Streams) > 0 {
			last = max(last, f.Number)
		}
	}
	var now manifest.Store
	if err := manifest.NewDir(db.fs, ".", manifest.StoreKind).Load(&now); err != nil {
		return err
	}
	if now.LogFirst > last || !samePartitions(state, &now) {
		return errStale
	}
	db.tellDropped(recovery)
	return nil
}

// samePartitions says whether no partition of a container that is still there
// was replaced: what was read of the log then belongs to those that were read.
func samePartitions(read, now *manifest.Store) bool {
	for i := range read.Partitions {
		m := &read.Partitions[i]
		if now.Container(m.Container) != nil && now.Partition(m.ID) == nil {
			return false
		}
	}
	return true
}
