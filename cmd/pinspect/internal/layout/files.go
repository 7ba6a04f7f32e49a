package layout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// MaxAttempts is how often something below a manifest is read at most while a writer
// replaces the manifest.
const MaxAttempts = 100

// ErrRestless says that something was replaced MaxAttempts times while it was read.
var ErrRestless = errors.New("the store changes faster than it can be read; try again")

// ErrReplaced says that the store manifest was replaced while what it names
// was read.
var ErrReplaced = errors.New("store manifest replaced")

// Files is a store seen as files, without opening it.
type Files struct {
	FS  vfs.FS
	Dir string
}

// Open finds the store in a directory; nothing is read yet.
func Open(dir string) (*Files, error) {
	if dir == "" {
		return nil, cli.Usagef("the name of the directory is empty")
	}
	fs, err := vfs.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Files{FS: fs, Dir: dir}, nil
}

// Close gives back what Open took.
func (f *Files) Close() { CloseRoot(f.FS) }

// StoreManifests returns the manifests of the store.
func (f *Files) StoreManifests() *manifest.Dir {
	return manifest.NewDir(f.FS, ".", manifest.StoreKind)
}

// LoadNewest reads the newest manifest of a directory. An error that it
// returns is not the doing of a writer.
func LoadNewest[T any](ctx context.Context, dir *manifest.Dir) (v T, err error) {
	for range MaxAttempts {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		before, err := dir.Latest()
		if err != nil {
			return v, err
		}
		var fresh T
		loadErr := dir.Load(&fresh)
		if loadErr == nil {
			return fresh, nil
		}
		after, err := dir.Latest()
		if err != nil {
			return v, err
		}
		if after == before {
			return v, loadErr
		}
	}
	return v, ErrRestless
}

// LoadStore reads the store manifest.
func (f *Files) LoadStore(ctx context.Context) (state manifest.Store, generation uint64, err error) {
	dir := f.StoreManifests()
	latest, err := dir.Latest()
	if err != nil {
		return state, 0, err
	}
	if latest == 0 {
		return state, 0, f.noManifest()
	}
	state, err = LoadNewest[manifest.Store](ctx, dir)
	if err != nil {
		var asPartition manifest.Files
		if manifest.NewDir(f.FS, ".", manifest.PartitionKind).Load(&asPartition) == nil {
			err = fmt.Errorf("%s: %w: it is the directory of partition %d of one", f.Dir, engine.ErrNotStore, asPartition.Partition)
		}
		return state, 0, err
	}
	return state, dir.Generation(), nil
}

// ErrNoManifest says that a directory has lost the manifest of its store.
var ErrNoManifest = errors.New("the store manifest is missing")

// noManifest says what a directory without a store manifest is: no store, or
// one that has lost it, if there are files of a log or of partitions.
func (f *Files) noManifest() error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		names, err := f.FS.List(dir)
		if err != nil && !errors.Is(err, engine.ErrMissing) {
			return err
		}
		if len(names) == 0 {
			continue
		}
		if latest, err := f.StoreManifests().Latest(); err != nil || latest > 0 {
			return cmp.Or(err, ErrRestless) // another process has just made the store
		}
		return &engine.IOError{Op: "open", File: f.FS.Path("."), Offset: -1, Err: fmt.Errorf("%w: no MANIFEST file is there, but %s/%s is", ErrNoManifest, dir, names[0])}
	}
	return fmt.Errorf("%s: %w: it has no manifest", f.Dir, engine.ErrNotStore)
}

// Replaced reports whether a newer manifest than this generation is in place.
func Replaced(dir *manifest.Dir, generation uint64) bool {
	latest, err := dir.Latest()
	return err == nil && latest != generation
}

// openSegment reads what a segment file says of itself.
func (f *Files) openSegment(s *Segment, l *Store, d Depth) error {
	full := f.FS.Path(s.Name)
	info, err := f.FS.Stat(s.Name)
	if err != nil {
		return err
	}
	if info.Size != s.Ref.Size {
		return &engine.CorruptionError{File: full, Offset: min(info.Size, s.Ref.Size),
			Err: fmt.Errorf("file has %d bytes, the manifest says %d", info.Size, s.Ref.Size)}
	}
	r, err := segment.Open(f.FS, s.Name, segment.ReaderOptions{Mode: segment.Pread, EPK: appendEPK})
	if err != nil {
		return err
	}
	s.Inode = info.ID
	props := *r.Properties()
	s.Props = &props
	for _, dict := range r.Dictionaries() {
		s.Dictionaries = append(s.Dictionaries, Dictionary{dict.Hash(), len(dict.Bytes())})
	}
	if d == Readers {
		s.Reader = r
	} else {
		r.Release()
	}
	return nil
}

// appendEPK computes the EPK of an encoded partition key.
func appendEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}

// EPKOf returns the EPK of a sort key.
func EPKOf(k *item.Key) partmap.EPK { return partmap.HashEncoded(k.PK) }

// CloseRoot gives back what vfs.OpenRoot took.
func CloseRoot(dir vfs.FS) {
	if c, ok := dir.(io.Closer); ok {
		_ = c.Close() // nothing was written through it
	}
}
