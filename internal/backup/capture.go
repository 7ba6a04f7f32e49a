package backup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
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

// Capture is a store at one sequence, of which a backup is made: what step 2 has taken.
type Capture struct {
	fs      vfs.FS
	catalog Catalog
	parts   []Part // in the order of those in the catalog
	files   map[uint64]*lsm.File
	guard   epoch.Guard
	guarded bool   // guard is held: memtables may be read
	spool   *spool // nil: the records are still in memtables only
}

// Part is a partition of a Capture.
type Part struct {
	*lsm.Tree
	Version    *lsm.Version
	Release    func()           // lets go of its files
	Cut        uint64           // newest sequence that belongs to the backup
	Floor      uint64           // at or below it, overwritten versions in memory are not in the backup; 0: the container keeps no changes
	Applied    manifest.Applied // in a replicated container: the entry that Cut has come to
	Replicated bool             // its sequences are not those that the store gave out

	flushed  uint64
	inherits []manifest.Inherited
}

// NewCapture describes what was taken of a store. parts are all of its partitions; guard
// was entered before their versions were taken. LastSeq in state is the newest sequence
// given out, as far as is known. Until NewCapture returns no set of files may change. The
// backup has the identity id and was begun at a time.
func NewCapture(fs vfs.FS, guard epoch.Guard, id manifest.ID, at time.Time, state manifest.Store, parts []Part) *Capture {
	slices.SortFunc(parts, func(x, y Part) int { return cmp.Compare(x.ID, y.ID) })
	state.Clean, state.Intents, state.LogFirst, state.LogClosed = false, nil, 0, nil
	c := &Capture{fs: fs, parts: parts, guard: guard, guarded: true}
	c.catalog = Catalog{ID: id, Full: true, Time: at.UnixMilli()}
	for i := range parts {
		p := &parts[i]
		p.flushed, p.inherits = p.Install.FlushedSeq.Load(), p.Inherited()
		m := p.Manifest(p.Version.Runs, p.flushed, p.Install.Applied, p.inherits)
		m.Obsolete = nil
		m.ChangeFloor = max(m.ChangeFloor, p.Floor)
		c.catalog.Partitions = append(c.catalog.Partitions, *m)
		if !p.Replicated {
			state.LastSeq = max(state.LastSeq, p.Cut)
		}
		c.catalog.Seq = max(c.catalog.Seq, p.Cut)
	}
	c.catalog.Seq = max(c.catalog.Seq, state.LastSeq)
	state.SeqLimit = max(state.SeqLimit, c.catalog.Seq+1)
	c.catalog.Store = state
	return c
}

// List makes the list of files. since is the backup that this one follows; nil: it is a
// full one.
func (c *Capture) List(since *Info) error {
	for i := range c.parts {
		if why := c.parts[i].Lost; why != nil {
			return why
		}
	}
	c.files = make(map[uint64]*lsm.File)
	for i := range c.parts {
		for _, r := range c.parts[i].Version.Runs {
			for _, f := range r.Files {
				if why := f.Broken(); why != nil {
					return why
				}
				if c.files[f.Ref.Number] == nil {
					c.files[f.Ref.Number] = f
					c.catalog.Files = append(c.catalog.Files, File{Number: f.Ref.Number, Size: f.Ref.Size, FooterCRC: f.Ref.FooterCRC, Carried: true})
				}
			}
		}
	}
	slices.SortFunc(c.catalog.Files, func(x, y File) int { return cmp.Compare(x.Number, y.Number) })
	if since == nil {
		return nil
	}
	return c.catalog.Follow(since)
}

// Spool does step 4. A store whose memtables do not change may leave it out.
func (c *Capture) Spool(ctx context.Context) error {
	c.spool = &spool{fs: c.fs, name: fmt.Sprintf("%s%x%s", manifest.BackupPrefix, c.catalog.ID, manifest.TempSuffix)}
	err := c.records(ctx, c.spool.add)
	c.leaveMemory()
	return err
}

// Write does step 5. It calls progress, if not nil, after about each mebibyte, and at the
// end: bytes were written, and total is an estimate of what will be, never below bytes.
func (c *Capture) Write(ctx context.Context, to io.Writer, progress func(bytes, total int64)) (Info, error) {
	if err := c.catalog.Check(); err != nil {
		return Info{}, fault.Corrupt(c.fs.Path(manifest.PartitionsDir), 0, "what partitions say of their files: %w", err)
	}
	w, err := NewWriter(to, &c.catalog)
	if err != nil {
		return Info{}, err
	}
	total := w.Written() + c.catalog.CarriedBytes()
	told := int64(0)
	tell := func(err error) error {
		if n := w.Written(); err == nil && progress != nil && n-told >= 1<<20 {
			told = n
			progress(n, max(n, total))
		}
		return err
	}
	records := c.records
	if c.spool != nil {
		records = c.spool.each
	}
	err = records(ctx, func(s wal.Stream, highest uint64, payload []byte) error {
		total += int64(len(payload))
		return tell(w.Record(s, highest, payload))
	})
	c.leaveMemory()
	if err != nil {
		return Info{}, err
	}
	for i := range c.catalog.Files {
		if !c.catalog.Files[i].Carried {
			continue
		}
		f := c.files[c.catalog.Files[i].Number]
		err = f.CopyTo(ctx, func(piece []byte) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return tell(w.Data(piece))
		})
		if err != nil {
			return Info{}, f.Renamed(err)
		}
	}
	info, err := w.Close()
	if err == nil && progress != nil {
		progress(info.Bytes, info.Bytes)
	}
	return info, err
}

// leaveMemory leaves the epoch guard: memtables may not be read any more.
func (c *Capture) leaveMemory() {
	if c.guarded {
		c.guarded = false
		c.guard.Leave()
	}
}

// Release lets go of all that was taken, and removes the temporary file.
func (c *Capture) Release() {
	c.leaveMemory()
	if c.spool != nil {
		c.spool.remove()
	}
	for i := range c.parts {
		c.parts[i].Release()
	}
}
