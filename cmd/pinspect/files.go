package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// A writer beside us replaces manifests and removes the files that they no
// longer name. So whatever goes wrong below a manifest counts only if that
// manifest is still the newest one afterwards; otherwise it is read again, at
// most this often.
const maxAttempts = 100

var errRestless = errors.New("the store changes faster than it can be read; try again")

// errReplaced says that the store manifest was replaced while what it names
// was read.
var errReplaced = errors.New("store manifest replaced")

// files is a store seen as files, without opening it.
type files struct {
	fs  vfs.FS
	dir string
}

// openFiles finds the store in a directory; nothing is read yet.
func openFiles(dir string) (*files, error) {
	if dir == "" {
		return nil, cli.Usagef("the name of the directory is empty")
	}
	fs, err := vfs.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &files{fs: fs, dir: dir}, nil
}

func (f *files) close() { closeRoot(f.fs) }

func (f *files) storeManifests() *manifest.Dir {
	return manifest.NewDir(f.fs, ".", manifest.StoreKind)
}

// loadNewest reads the newest manifest of a directory. An error that it
// returns is not the doing of a writer.
func loadNewest[T any](ctx context.Context, dir *manifest.Dir) (v T, err error) {
	for range maxAttempts {
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
	return v, errRestless
}

// loadStore reads the store manifest.
func (f *files) loadStore(ctx context.Context) (state manifest.Store, generation uint64, err error) {
	dir := f.storeManifests()
	latest, err := dir.Latest()
	if err != nil {
		return state, 0, err
	}
	if latest == 0 {
		return state, 0, f.noManifest()
	}
	state, err = loadNewest[manifest.Store](ctx, dir)
	if err != nil {
		var asPartition manifest.Files
		if manifest.NewDir(f.fs, ".", manifest.PartitionKind).Load(&asPartition) == nil {
			err = fmt.Errorf("%s: %w: it is the directory of partition %d of one", f.dir, engine.ErrNotStore, asPartition.Partition)
		}
		return state, 0, err
	}
	return state, dir.Generation(), nil
}

// errNoManifest says that a directory has lost the manifest of its store.
var errNoManifest = errors.New("the store manifest is missing")

// noManifest says what a directory without a store manifest is: no store, or
// one that has lost it, if there are files of a log or of partitions.
func (f *files) noManifest() error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		names, err := f.fs.List(dir)
		if err != nil && !errors.Is(err, engine.ErrMissing) {
			return err
		}
		if len(names) == 0 {
			continue
		}
		if latest, err := f.storeManifests().Latest(); err != nil || latest > 0 {
			return cmp.Or(err, errRestless) // somebody has just made the store
		}
		return &engine.IOError{Op: "open", File: f.fs.Path("."), Offset: -1, Err: fmt.Errorf("%w: no MANIFEST file is there, but %s/%s is", errNoManifest, dir, names[0])}
	}
	return fmt.Errorf("%s: %w: it has no manifest", f.dir, engine.ErrNotStore)
}

// replaced reports whether a newer manifest than this generation is in place.
func replaced(dir *manifest.Dir, generation uint64) bool {
	latest, err := dir.Latest()
	return err == nil && latest != generation
}

// openSegment reads what a segment file says of itself.
func (f *files) openSegment(s *segmentLayout, l *layout, d depth) error {
	full := f.fs.Path(s.name)
	info, err := f.fs.Stat(s.name)
	if err != nil {
		return err
	}
	if info.Size != s.ref.Size {
		return &engine.CorruptionError{File: full, Offset: min(info.Size, s.ref.Size),
			Err: fmt.Errorf("file has %d bytes, the manifest says %d", info.Size, s.ref.Size)}
	}
	r, err := segment.Open(f.fs, s.name, segment.ReaderOptions{Mode: segment.Pread, EPK: appendEPK})
	if err != nil {
		return err
	}
	s.inode = info.ID
	props := *r.Properties()
	s.props = &props
	for _, dict := range r.Dictionaries() {
		s.dictionaries = append(s.dictionaries, dictionaryLayout{dict.Hash(), len(dict.Bytes())})
	}
	if d == readers {
		s.reader = r
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

// epkOf returns the EPK of a sort key.
func epkOf(k *item.Key) partmap.EPK { return partmap.HashEncoded(k.PK) }
