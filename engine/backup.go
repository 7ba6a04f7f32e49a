package engine

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/wal"
)

// A backup is made in these steps:
//
//  1. Until step 3 no container is made or dropped, no partition is replaced and no set
//     of files changes. Reads and writes go on.
//  2. The backup's sequence is the newest one given out. For each partition, under its
//     commit lock, the version is taken: it has everything up to that sequence. Its
//     files stay open to the end. A partition of a replicated container has sequences
//     of its own: the backup has its state of this moment, with the index up to which
//     entries are applied.
//  3. The operations that step 1 held back go on, and the log is synced.
//  4. The versions in memtables up to the sequence are written to a temporary file, as
//     log records. After this the backup holds nothing in memory.
//  5. The stream is written: the catalog, the records, the files. Commit point: its
//     trailer.
//
// Nothing in the store changes. A crash leaves the temporary file, which the next open
// removes.

// BackupInfo describes a backup. As BackupOptions.Since it says what an earlier backup
// has. It can be stored as JSON.
type BackupInfo = backup.Info

// BackupFile is a segment file that belongs to a backup.
type BackupFile = backup.File

// BackupOptions are the options of a backup. Nil means none.
type BackupOptions struct {
	// Since is an earlier backup of the store. Then the stream is incremental: it carries
	// only the segment files that the earlier backup does not have, and must be restored
	// after it. Nil: a full backup.
	Since *BackupInfo
	// Progress, if not nil, is called on the goroutine of Backup after about each
	// mebibyte, and at the end.
	Progress func(BackupProgress)
}

// BackupProgress tells how far a backup has come.
type BackupProgress struct {
	Bytes int64 // written
	Total int64 // estimate of what will be written, never below Bytes
}

// Backup writes the store as it is at one moment to w, in a form that Restore reads
// (docs/backup.md). Writes, flushes, merges and splits go on meanwhile. The space of
// files that merges replace is freed only when the backup has ended. The backup has
// everything that was acknowledged before the call; of each logical partition it has a
// prefix of the writes. It needs little memory, whatever the size of the store, and also
// works on a store that is open read-only.
//
// Each segment file is verified while it is copied: damage is a *CorruptionError that
// names the file. After an error, also one of w or ctx, the bytes in w are no backup.
// Errors: ErrWrongParent if o.Since is not of this store's past.
func (db *DB) Backup(ctx context.Context, w io.Writer, o *BackupOptions) (BackupInfo, error) {
	if o == nil {
		o = new(BackupOptions)
	}
	call, err := db.enter(ctx)
	if err != nil {
		return BackupInfo{}, err
	}
	defer call.Leave()
	if !db.opts.ReadOnly {
		if err = db.writable(); err != nil {
			return BackupInfo{}, err
		}
	}
	b := backupRun{db: db, options: o}
	defer b.release()
	// The pin keeps no versions: its sequence is the highest. A backup holds files only.
	db.env.Pins.Take(pins.Backup, func() uint64 { return lsm.MaxSequence }, db.opts.clock())
	defer db.env.Pins.Release(pins.Backup, lsm.MaxSequence)
	info, err := b.run(ctx, w)
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	return info, nil
}

// backupRun is a backup under way.
type backupRun struct {
	db      *DB
	options *BackupOptions
	catalog backup.Catalog
	parts   []backupPart
	files   map[uint64]*lsm.File
	guard   epoch.Guard
	guarded bool // guard is held: memtables may be read
}

// backupPart is a partition as the backup has it.
type backupPart struct {
	*partition
	version  *lsm.Version
	release  func() // lets go of its files
	flushed  uint64
	inherits []manifest.Inherited
	cut      uint64           // newest sequence that belongs to the backup
	floor    uint64           // at or below it, overwritten versions in memory are not in the backup
	applied  manifest.Applied // in a replicated container: the entry that cut has come to
}

func (b *backupRun) run(ctx context.Context, w io.Writer) (BackupInfo, error) {
	b.capture()
	if err := b.list(); err != nil {
		return BackupInfo{}, err
	}
	if b.db.log == nil {
		// The store is read-only: its memtables do not change.
		return b.write(ctx, w, b.records)
	}
	if err := b.db.log.Sync(); err != nil {
		return BackupInfo{}, b.db.uncertain(err)
	}
	s := backup.NewSpool(b.db.env.FS, fmt.Sprintf("backup-%x%s", b.catalog.ID, manifest.TempSuffix))
	defer s.Remove()
	if err := b.records(ctx, s.Add); err != nil {
		return BackupInfo{}, err
	}
	b.leaveMemory()
	return b.write(ctx, w, s.Each)
}

// capture does steps 1 and 2.
func (b *backupRun) capture() {
	db := b.db
	unlock := db.lockFiles()
	defer unlock()
	b.guard, b.guarded = db.env.Epoch.Enter(), true
	state := db.storeManifest.state.Clone()
	state.Clean, state.Intents, state.LogFirst, state.LogClosed = false, nil, 0, nil
	seq := state.LastSeq
	parts := db.partitions()
	if db.log != nil {
		seq = db.log.LastSeq()
	}
	taken := make(map[uint32]*backupPart)
	for _, p := range parts {
		// A write takes its sequence under the commit lock. So once the lock was free,
		// every write of this partition up to seq is applied.
		p.mu.Lock()
		v, release := p.PinVersion()
		part := &backupPart{partition: p, version: v, release: release, flushed: p.Install.FlushedSeq.Load(), inherits: p.Inherited()}
		part.cut, part.applied = p.mu.lastSeq, p.mu.applied
		part.floor = part.cut
		p.mu.Unlock()
		if db.log != nil && !p.c.def.Replicated { // a replicated partition has sequences of its own
			part.cut = seq
		}
		part.floor = min(part.floor, part.cut)
		taken[uint32(p.ID)] = part
	}
	for _, part := range taken {
		seq = max(seq, part.cut)
	}
	c := &b.catalog
	for i := range state.Partitions {
		p := taken[state.Partitions[i].ID]
		b.parts = append(b.parts, *p)
		m := p.Manifest(p.version.Runs, p.flushed, p.Install.Applied, p.inherits)
		m.Obsolete = nil
		if p.c.def.ChangeRetention > 0 {
			m.ChangeFloor = max(m.ChangeFloor, p.floor)
		}
		c.Partitions = append(c.Partitions, *m)
	}
	state.LastSeq, state.SeqLimit = seq, max(state.SeqLimit, seq+1)
	state.TimeHigh = max(state.TimeHigh, db.stamps.Newest())
	c.ID, c.Full, c.Seq, c.Time, c.Store = newStoreID(db.opts.random), true, seq, db.opts.clock().UnixMilli(), state
}

// list makes the list of files.
func (b *backupRun) list() error {
	for i := range b.parts {
		if why := b.parts[i].Lost; why != nil {
			return why
		}
	}
	b.files = make(map[uint64]*lsm.File)
	for i := range b.parts {
		for _, r := range b.parts[i].version.Runs {
			for _, f := range r.Files {
				if why := f.Broken(); why != nil {
					return why
				}
				if b.files[f.Ref.Number] == nil {
					b.files[f.Ref.Number] = f
					b.catalog.Files = append(b.catalog.Files, backup.File{Number: f.Ref.Number, Size: f.Ref.Size, FooterCRC: f.Ref.FooterCRC, Carried: true})
				}
			}
		}
	}
	slices.SortFunc(b.catalog.Files, func(x, y backup.File) int { return int(int64(x.Number) - int64(y.Number)) })
	if b.options.Since == nil {
		return nil
	}
	return b.catalog.Follow(b.options.Since)
}

// records calls emit with the versions in memtables that belong to the backup, as carried
// records.
func (b *backupRun) records(ctx context.Context, emit func(s wal.Stream, highest uint64, payload []byte) error) error {
	for i := range b.parts {
		p := &b.parts[i]
		if p.cut > p.flushed && p.applied.Index != 0 {
			if err := emit(wal.Stream(p.ID), p.cut, logrecord.AppendMark(nil, p.cut, p.applied)); err != nil {
				return err
			}
		}
		// The oldest memtable comes first, as in the log: an item that was deleted with
		// its logical partition must come before the partition tombstone.
		for j := len(p.version.Frozen) - 1; j >= 0; j-- {
			t := &p.version.Frozen[j]
			if err := p.tableRecords(ctx, t.Table, t.Clip, emit); err != nil {
				return err
			}
		}
		if err := p.tableRecords(ctx, p.version.Active, nil, emit); err != nil {
			return err
		}
	}
	return nil
}

// write does step 5.
func (b *backupRun) write(ctx context.Context, to io.Writer, records func(ctx context.Context, emit func(s wal.Stream, highest uint64, payload []byte) error) error) (BackupInfo, error) {
	if err := b.catalog.Check(); err != nil {
		return BackupInfo{}, fault.Corrupt(b.db.env.FS.Path(manifest.PartitionsDir), 0, "what partitions say of their files: %w", err)
	}
	w, err := backup.NewWriter(to, &b.catalog)
	if err != nil {
		return BackupInfo{}, err
	}
	total := w.Written() + b.catalog.CarriedBytes()
	told := int64(0)
	tell := func(err error) error {
		if n := w.Written(); err == nil && b.options.Progress != nil && n-told >= 1<<20 {
			told = n
			b.options.Progress(BackupProgress{Bytes: n, Total: max(n, total)})
		}
		return err
	}
	err = records(ctx, func(s wal.Stream, highest uint64, payload []byte) error {
		total += int64(len(payload))
		return tell(w.Record(s, highest, payload))
	})
	b.leaveMemory()
	if err != nil {
		return BackupInfo{}, err
	}
	for _, listed := range b.catalog.Files {
		if !listed.Carried {
			continue
		}
		f := b.files[listed.Number]
		err = f.CopyTo(ctx, func(piece []byte) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return tell(w.Data(piece))
		})
		if err != nil {
			return BackupInfo{}, f.Renamed(err)
		}
	}
	info, err := w.Close()
	if err == nil && b.options.Progress != nil {
		b.options.Progress(BackupProgress{Bytes: info.Bytes, Total: info.Bytes})
	}
	return info, err
}

// leaveMemory leaves the epoch guard: memtables may not be read any more.
func (b *backupRun) leaveMemory() {
	if b.guarded {
		b.guarded = false
		b.guard.Leave()
	}
}

func (b *backupRun) release() {
	b.leaveMemory()
	for i := range b.parts {
		b.parts[i].release()
	}
}
