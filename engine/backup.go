package engine

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
)

// BackupInfo describes a backup. As BackupOptions.Since it says what an earlier backup
// has. It can be stored as JSON.
type BackupInfo struct {
	ID      string       `json:"id"`
	Parent  string       `json:"parent,omitempty"`   // ID of the backup that it is restored after; "": it is a full backup
	Store   string       `json:"store"`              // identity of the store
	Seq     uint64       `json:"seq"`                // newest sequence in it
	NextSeq uint64       `json:"next_seq,omitempty"` // sequence that the store gives out next; 0: not known, in JSON of an older program
	Time    time.Time    `json:"time"`               // when it was begun
	Bytes   int64        `json:"bytes"`              // of the stream
	Files   []BackupFile `json:"files"`              // segment files that belong to it, by number
}

// BackupFile is a segment file that belongs to a backup:
//
//	Number    uint64 `json:"number"`
//	Size      int64  `json:"size"` // bytes
//	FooterCRC uint32 `json:"footer_crc"`
//	Carried   bool   `json:"carried"` // the stream has it, not that of a parent
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
// (docs/backup.md). Writes, flushes, compactions and splits go on meanwhile. The space of
// files that compactions replace is freed only when the backup has ended. The backup has
// everything that was acknowledged before the call; of each logical partition it has a
// prefix of the writes. It needs little memory, whatever the size of the store, and also
// works on a store that is open read-only.
//
// Each segment file is verified while it is copied: damage is a *CorruptionError that
// names the file. After an error, also one of w or ctx, the bytes in w are no backup.
// Errors: ErrWrongParent if o.Since is not of this store's past.
func (db *DB) Backup(ctx context.Context, w io.Writer, o *BackupOptions) (BackupInfo, error) {
	if w == nil {
		return BackupInfo{}, invalidf("Backup: no writer is given")
	}
	if o == nil {
		o = new(BackupOptions)
	}
	db, call, err := db.enterNewest(ctx)
	if err != nil {
		return BackupInfo{}, err
	}
	defer call.Leave()
	if !db.opts.ReadOnly {
		if err = db.writable(); err != nil {
			return BackupInfo{}, err
		}
	}
	// The pin keeps no versions: its sequence is the highest. A backup holds files only.
	defer db.env.Pins.Release(db.env.Pins.Take(pins.Backup, func() uint64 { return lsm.MaxSequence }, db.opts.clock()))
	info, err := db.backup(ctx, w, o)
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	return info, nil
}

// backup makes a backup; package backup numbers the steps.
func (db *DB) backup(ctx context.Context, w io.Writer, o *BackupOptions) (BackupInfo, error) {
	b, err := db.capture(ctx)
	if err != nil {
		return BackupInfo{}, err
	}
	defer b.Release()
	if err = b.List((*backup.Info)(o.Since)); err != nil {
		return BackupInfo{}, err
	}
	if db.log != nil { // else the store is read-only, and its memtables do not change
		if err = db.log.Sync(); err != nil {
			return BackupInfo{}, db.uncertain(err)
		}
		if err = b.Spool(ctx); err != nil {
			return BackupInfo{}, err
		}
	}
	var progress func(bytes, total int64)
	if o.Progress != nil {
		progress = func(bytes, total int64) { o.Progress(BackupProgress{Bytes: bytes, Total: total}) }
	}
	info, err := b.Write(ctx, w, progress)
	return BackupInfo(info), err
}

// capture does steps 1 and 2.
func (db *DB) capture(ctx context.Context) (*backup.Capture, error) {
	unlock, err := db.lockFiles(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	guard := db.env.Epoch.Enter()
	state := db.storeManifest.state.Clone()
	if db.log != nil {
		state.LastSeq = db.log.LastSeq()
	}
	var parts []backup.Part
	for _, p := range db.partitions() {
		parts = append(parts, p.capture(state.LastSeq))
	}
	state.TimeHigh = max(state.TimeHigh, db.stamps.Newest())
	return backup.NewCapture(db.env.FS, guard, manifest.NewID(db.opts.random), time.UnixMilli(db.clockMillis()), state, parts), nil
}

// capture takes the partition as a backup up to a sequence has it.
func (p *partition) capture(seq uint64) backup.Part {
	// A write takes its sequence under the commit lock. So once the lock was free, every
	// write of this partition up to seq is applied.
	p.Commit.Lock()
	defer p.Commit.Unlock()
	at := backup.Part{Tree: &p.Tree, Cut: seq, Applied: p.Commit.Applied, Replicated: p.c.def.Replicated}
	at.Version, at.Release = p.PinVersion()
	if p.db.log == nil || p.c.def.Replicated { // a replicated partition has sequences of its own
		at.Cut = p.Commit.LastSeq
	}
	if p.c.def.ChangeRetention > 0 {
		at.Floor = min(p.Commit.LastSeq, at.Cut)
	}
	return at
}
