package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// A restore into DIR works in DIR.restoring:
//
//  1. DIR.restoring is made. If it exists, the restore is refused.
//  2. Of each stream, segment files are written to DIR.restoring/files and
//     synced, log records to a log in DIR.restoring/wal. An incremental stream first
//     removes the log, and the files that it does not need, of the stream before.
//  3. After the last stream the log is closed. The files get their names below
//     DIR.restoring/p, and partitions their manifests. All directories are synced.
//  4. The store manifest is written.
//  5. An empty DIR is removed. Commit point: DIR.restoring is
//     renamed to DIR, and their parent directory is synced.
//
// A crash before the commit point leaves DIR.restoring, which nothing opens by itself;
// remove it by hand. DIR is as it was or, if it was empty, may be gone. An error before
// the commit point removes DIR.restoring.

const (
	restoringSuffix = ".restoring"
	restoredFiles   = "files" // directory below DIR.restoring
)

// Restore makes a store in the directory base of a file system from the full backup that
// r holds and the incremental backups, if any, that follow it in r. After an error that
// does not match fault.ErrOutcomeUnknown nothing is left of it.
//
// Errors: fault.ErrExists if base is not empty, or if there is a directory of another
// restore; ErrParent; *fault.CorruptionError with the offset in r; those of r, of the
// file system and of ctx.
func Restore(ctx context.Context, fsys vfs.FS, base string, r io.Reader) error {
	return restore(ctx, fsys, base, r, nil)
}

// restore is Restore of the files that may have items of a place; nil: of all files.
func restore(ctx context.Context, fsys vfs.FS, base string, r io.Reader, only *Place) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore into %s: %w", fsys.Path(base), err)
		}
	}()
	vacant := func() error {
		names, listErr := fsys.List(base)
		if listErr == nil && len(names) > 0 {
			return fmt.Errorf("%w: it has a file %q", fault.ErrExists, names[0])
		}
		if errors.Is(listErr, fault.ErrMissing) {
			return nil
		}
		return listErr
	}
	if err = vacant(); err != nil {
		return err
	}
	s := restorer{fs: fsys, dir: base + restoringSuffix, only: only}
	if err = s.mkdir("."); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s: another restore is under way, or was broken off: then remove it", fault.ErrExists, fsys.Path(s.dir))
	} else if err != nil {
		return err
	}
	if err = s.fill(ctx, r); err != nil {
		s.abandon()
		return err
	}
	d, err := fsys.OpenDir(".")
	if err != nil {
		s.abandon()
		return err
	}
	defer d.Close()
	err = vacant()
	if _, statErr := fsys.Stat(base); err == nil && statErr == nil {
		err = fsys.Remove(base)
	}
	if err == nil {
		err = fsys.Rename(s.dir, base)
	}
	if err != nil {
		s.abandon()
		return err
	}
	if err := d.Sync(); err != nil {
		return fault.Outcome(fault.ErrOutcomeUnknown, err)
	}
	return nil
}

// restorer fills a directory with a store.
type restorer struct {
	fs      vfs.FS
	dir     string
	catalog *Catalog        // of the stream that is read
	only    *Place          // nil: everything
	wanted  map[uint64]bool // files that may have items of only, by number; nil: all of them
	have    map[uint64]bool // files that were written, by number
	log     *wal.Log        // nil: no records yet

	writing *File
	file    vfs.File
	off     int64
}

// at returns the path of a name in the directory.
func (s *restorer) at(name ...string) string { return path.Join(append([]string{s.dir}, name...)...) }

func (s *restorer) mkdir(name string) error { return s.fs.Mkdir(s.at(name)) }

// fill does steps 2 to 4.
func (s *restorer) fill(ctx context.Context, r io.Reader) error {
	s.have = make(map[uint64]bool)
	for _, dir := range []string{restoredFiles, manifest.PartitionsDir, manifest.LogDir} {
		if err := s.mkdir(dir); err != nil {
			return err
		}
	}
	if err := readAll(ctx, r, s, func(Info) error { return s.endFile() }); err != nil {
		return err
	}
	return s.finish(ctx)
}

// Begin implements Handler.
func (s *restorer) Begin(c *Catalog) error {
	if s.catalog == nil && !c.Full {
		return fmt.Errorf("%w: it is an incremental one, and the first: give the full backup first", ErrParent)
	}
	s.catalog, s.wanted = c, s.only.files(c)
	if s.log != nil {
		_, err := s.log.Close()
		s.log = nil
		if err != nil {
			return err
		}
	}
	if err := s.clear(manifest.LogDir); err != nil {
		return err
	}
	needed := make(map[uint64]bool, len(c.Files))
	for i := range c.Files {
		needed[c.Files[i].Number] = !c.Files[i].Carried && s.wants(c.Files[i].Number)
	}
	for number := range maps.Clone(s.have) {
		if needed[number] {
			continue
		}
		if err := s.fs.Remove(s.at(restoredFiles, manifest.SegmentName(number))); err != nil {
			return err
		}
		delete(s.have, number)
	}
	return nil
}

// Record implements Handler.
func (s *restorer) Record(stream wal.Stream, highest uint64, payload []byte) error {
	if s.log == nil {
		o := wal.Options{StoreID: s.catalog.Store.StoreID}
		dir := s.at(manifest.LogDir)
		none, err := wal.Recover(context.Background(), s.fs, dir, wal.State{}, o, nil)
		if err != nil {
			return err
		}
		if s.log, err = wal.Create(s.fs, dir, none, s.catalog.Seq+1, o); err != nil {
			return err
		}
	}
	_, _, err := s.log.AppendCarried(stream, highest, payload)
	return err
}

// wants says whether the file is to be written.
func (s *restorer) wants(number uint64) bool { return s.wanted == nil || s.wanted[number] }

// File implements Handler.
func (s *restorer) File(f *File) error {
	if err := s.endFile(); err != nil {
		return err
	}
	if !s.wants(f.Number) {
		return nil
	}
	file, err := s.fs.Create(s.at(restoredFiles, manifest.SegmentName(f.Number)))
	if err != nil {
		return err
	}
	s.writing, s.file, s.off = f, file, 0
	s.have[f.Number] = true
	return nil
}

// Data implements Handler.
func (s *restorer) Data(p []byte) error {
	if s.file == nil { // the file is passed over
		return nil
	}
	_, err := s.file.WriteAt(p, s.off)
	s.off += int64(len(p))
	return err
}

// endFile syncs the file that is being written, if there is one, and checks that it is
// the file that the catalog names.
func (s *restorer) endFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Sync()
	if closeErr := s.file.Close(); err == nil {
		err = closeErr
	}
	s.file = nil
	if err != nil {
		return err
	}
	name := s.at(restoredFiles, manifest.SegmentName(s.writing.Number))
	r, err := segment.Open(s.fs, name, segment.ReaderOptions{EPK: lsm.AppendEPK, Mode: segment.Pread})
	if err != nil {
		return err
	}
	defer r.Release()
	p := r.Properties()
	if p.FileNumber != s.writing.Number || p.FooterCRC != s.writing.FooterCRC || p.StoreID != s.catalog.Store.StoreID {
		return fault.Corrupt(s.fs.Path(name), 0, "file %d of store %x with footer %08x, the backup says %d of %x with %08x",
			p.FileNumber, p.StoreID, p.FooterCRC, s.writing.Number, s.catalog.Store.StoreID, s.writing.FooterCRC)
	}
	return nil
}

// finish does steps 3 and 4.
func (s *restorer) finish(ctx context.Context) error {
	state := s.catalog.Store
	if s.log != nil {
		closed, err := s.log.Close()
		if err != nil {
			return err
		}
		s.log = nil
		state.LogFirst, state.LogClosed = 1, []wal.Closed{closed}
	}
	if s.only != nil {
		for number := range s.wanted {
			if !s.have[number] {
				return fmt.Errorf("%w: file %d of container %q was passed over, restore the whole backup", fault.ErrMissing, number, s.only.Container)
			}
		}
		s.only.prune(s.catalog.Partitions, s.have)
		s.only.setTTL(&state)
	}
	if err := s.nameFiles(ctx); err != nil {
		return err
	}
	for i := range s.catalog.Partitions {
		p := &s.catalog.Partitions[i]
		if err := manifest.NewDir(s.fs, s.at(manifest.PartitionDir(p.Partition)), manifest.PartitionKind).Store(p); err != nil {
			return err
		}
	}
	if err := s.fs.Remove(s.at(restoredFiles)); err != nil {
		return err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir, "."} {
		if err := s.fs.SyncDir(s.at(dir)); err != nil {
			return err
		}
	}
	if err := manifest.NewDir(s.fs, s.dir, manifest.StoreKind).Store(&state); err != nil {
		return err
	}
	for _, c := range state.LogClosed {
		if err := wal.Cut(s.fs, s.at(manifest.LogDir), c); err != nil {
			return err
		}
	}
	return nil
}

// nameFiles makes the directories of partitions and gives the files their names
// there. The last name of each file is made by a rename, the others are links.
func (s *restorer) nameFiles(ctx context.Context) error {
	uses := make(map[uint64][]uint32) // partitions, by file
	for i := range s.catalog.Partitions {
		p := &s.catalog.Partitions[i]
		if err := s.mkdir(manifest.PartitionDir(p.Partition)); err != nil {
			return err
		}
		for _, r := range p.Runs {
			for _, f := range r.Files {
				if list := uses[f.Number]; !slices.Contains(list, p.Partition) {
					uses[f.Number] = append(list, p.Partition)
				}
			}
		}
	}
	for number, parts := range uses {
		if err := ctx.Err(); err != nil {
			return err
		}
		base := manifest.SegmentName(number)
		from := s.at(restoredFiles, base)
		for i, id := range parts {
			to := s.at(manifest.PartitionDir(id), base)
			if i < len(parts)-1 {
				if _, err := vfs.LinkOrCopy(s.fs, from, to); err != nil {
					return err
				}
			} else if err := s.fs.Rename(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes the files in a directory.
func (s *restorer) clear(dir string) error {
	names, err := s.fs.List(s.at(dir))
	for _, name := range names {
		if err == nil {
			err = s.fs.Remove(s.at(dir, name))
		}
	}
	return err
}

// abandon removes the directory and its files, as far as possible.
func (s *restorer) abandon() {
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.log != nil {
		_, _ = s.log.Close()
	}
	_ = s.clearTree(".")
	_ = s.fs.Remove(s.dir)
}

// clearTree removes all that is in a directory.
func (s *restorer) clearTree(dir string) error {
	names, err := s.fs.List(s.at(dir))
	for _, name := range names {
		name = path.Join(dir, name)
		if info, statErr := s.fs.Stat(s.at(name)); statErr == nil && info.Dir {
			err = errors.Join(err, s.clearTree(name))
		}
		err = errors.Join(err, s.fs.Remove(s.at(name)))
	}
	return err
}
