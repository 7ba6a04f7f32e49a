package engine

import (
	"errors"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
)

// A file or partition that cannot be opened is set aside: a file for the part of the key
// space that its reference names, a partition with a damaged manifest for its whole
// range. A stand-in file takes its place; every read of the stand-in fails. So calls that
// need the missing data get an error, and all others work.
//
// A partition without a manifest takes no writes and changes nothing on disk. Its
// directory is left alone, and so are all log records of its stream and of its parents'
// streams.

// bears says whether the store sets aside what cannot be read for this reason.
func (db *DB) bears(why error) bool { return db.bearing && why != nil && lsm.Unreadable(why) }

// asideStill says whether the newest manifests still name everything that this open set
// aside. A writer beside a ReadOnly open may have replaced it meanwhile.
func (db *DB) asideStill() bool {
	state, err := manifest.LoadNewest[manifest.Store](db.env.FS, ".", manifest.StoreKind)
	if err != nil {
		return false
	}
	for _, p := range db.partitions() {
		aside := p.Version.Load().FilesAside()
		if aside == 0 {
			continue
		}
		if !slices.ContainsFunc(state.Partitions, func(m manifest.Partition) bool { return m.ID == uint32(p.ID) }) {
			return false
		}
		m, err := manifest.LoadNewest[manifest.Files](db.env.FS, p.Dir, manifest.PartitionKind)
		if p.Lost != nil {
			// The manifest of the partition is damaged: it cannot be read, or its
			// contents make no sense. It must still be the newest.
			latest, _ := manifest.NewDir(db.env.FS, p.Dir, manifest.PartitionKind).Latest()
			if err == nil && latest != p.Install.Dir.Generation() {
				return false
			}
			continue
		}
		if err != nil {
			return false
		}
		for _, r := range p.Version.Load().Runs {
			for _, f := range r.Files {
				if f.Aside.Load() && !m.Lists(f.Ref.Number) {
					return false
				}
			}
		}
	}
	return true
}

// tellAside logs why a file of the partition, or all of it, was set aside, and sends the
// event.
func (p *partition) tellAside(why error) {
	p.db.opts.Logger.Error("set aside what cannot be read", "container", p.c.name, "partition", p.ID, "error", why)
	notify(p.db, p.db.opts.Events.CorruptionFound, why)
}

// setAside makes the partition unreadable, because its manifest is damaged.
func (p *partition) setAside(why error) error {
	p.Lost = why
	ref := manifest.File{Min: p.Range.Min.Bytes(), Max: p.Range.Max.Bytes()}
	f, err := p.AsideFile(ref, path.Join(p.Dir, manifest.Name(max(1, p.Install.Dir.Generation()))), why)
	if err != nil {
		return err
	}
	var inherits []manifest.Inherited
	for _, id := range p.parents {
		inherits = append(inherits, manifest.Inherited{Stream: uint32(id)})
	}
	p.Inherits.Store(&inherits)
	v := *p.Version.Load()
	v.SetRuns([]*lsm.Run{{Files: []*lsm.File{f}}})
	p.Version.Store(&v)
	return nil
}

// Damage is a part of a store that cannot be read, or in which damage was found since the
// store was opened.
type Damage struct {
	Container string      `json:"container"`
	Partition PartitionID `json:"partition"`
	// Min and Max bound the effective partition keys that the damage concerns, in
	// hexadecimal digits: Min inclusive, Max exclusive.
	Min    string `json:"min"`
	Max    string `json:"max"`
	File   string `json:"file"`
	Offset int64  `json:"offset"` // -1: the whole file
	// Aside says that merges leave the file alone. Otherwise its undamaged parts are read
	// as before.
	Aside bool `json:"set_aside"`
	// Whole says that the physical partition cannot be read or written, because its
	// manifest is damaged.
	Whole bool  `json:"whole_partition"`
	Err   error `json:"error"`
}

// damages lists the damage that is known in the partition's files.
func (p *partition) damages() (all []Damage) {
	v, release := p.PinVersion()
	defer release()
	for _, r := range v.Runs {
		for _, f := range r.Files {
			why := f.Damage.Load()
			if why == nil {
				continue
			}
			all = append(all, p.damageOf(f, f.Aside.Load(), *why))
		}
	}
	return all
}

// damageOf describes damage in a file of the partition.
func (p *partition) damageOf(f *lsm.File, aside bool, why error) Damage {
	d := Damage{
		Container: p.c.name, Partition: p.ID, Min: f.Min.String(), Max: f.Max.String(), File: p.db.env.FS.Path(f.Name), Offset: -1,
		Aside: aside, Whole: p.Lost != nil, Err: why,
	}
	if at := new(CorruptionError); errors.As(why, &at) {
		d.File, d.Offset = at.File, at.Offset
	}
	return d
}
