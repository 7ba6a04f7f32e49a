package lsm

import (
	"path"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// A file or partition that cannot be opened is set aside: a file for the part of the key
// space that its reference names, a partition with a damaged manifest for its whole
// range. A stand-in file takes its place; every read of the stand-in fails. So calls that
// need the missing data get an error, and all others work.
//
// A partition without a manifest takes no writes and changes nothing on disk. Its
// directory is left alone, and so are all log records of its stream and of its parents'
// streams.

// AsideFile returns the stand-in for a file that cannot be opened.
func (t *Tree) AsideFile(ref manifest.File, name string, why error) (*File, error) {
	lo, hi, err := boundsOf(ref)
	if err != nil {
		return nil, err
	}
	f := &File{Ref: ref, Min: lo, Max: hi, Name: name, path: t.Env.FS.Path(name)}
	f.Clip = f.Bounds(t.Family.Levels)
	f.Reader = segment.Damaged(f.path, why, f.Clip.Lo, f.Clip.Hi)
	f.Damage.Store(&why)
	f.Aside.Store(true)
	return f, nil
}

// SetAside makes the partition unreadable, because its manifest is damaged. parents are the
// partitions that it took the place of.
func (t *Tree) SetAside(why error, parents []partmap.PartitionID) error {
	t.Lost = why
	ref := manifest.File{Min: t.Range.Min.Bytes(), Max: t.Range.Max.Bytes()}
	f, err := t.AsideFile(ref, path.Join(t.Dir, manifest.Name(max(1, t.Install.Dir.Generation()))), why)
	if err != nil {
		return err
	}
	f.path = "" // why names the manifest that is damaged
	var inherits []manifest.Inherited
	for _, id := range parents {
		inherits = append(inherits, manifest.Inherited{Stream: uint32(id)})
	}
	t.Inherits.Store(&inherits)
	v := *t.Version.Load()
	v.SetRuns([]*Run{{Files: []*File{f}}})
	t.Version.Store(&v)
	return nil
}

// AsideStill says whether the newest manifest of the partition still names everything that
// is set aside. A writer in another process may have replaced it meanwhile.
func (t *Tree) AsideStill() bool {
	m, err := manifest.LoadNewest[manifest.Files](t.Env.FS, t.Dir, manifest.PartitionKind)
	if t.Lost != nil {
		// The manifest is damaged: it cannot be read, or its contents make no sense. It must still be the newest.
		latest, _ := manifest.NewDir(t.Env.FS, t.Dir, manifest.PartitionKind).Latest()
		return err != nil || latest == t.Install.Dir.Generation()
	}
	if err != nil {
		return false
	}
	for f := range t.Version.Load().Files() {
		if f.Aside.Load() && !m.Lists(f.Ref.Number) {
			return false
		}
	}
	return true
}
