package engine

import (
	"errors"
	"path"
	"slices"

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
func (db *DB) bears(why error) bool { return db.bearing && why != nil && unreadable(why) }

// asideStill says whether the newest manifests still name everything that this open set
// aside. A writer beside a ReadOnly open may have replaced it meanwhile.
func (db *DB) asideStill() bool {
	state, err := manifest.LoadNewest[manifest.Store](db.env.fs, ".", manifest.StoreKind)
	if err != nil {
		return false
	}
	for _, p := range db.partitions() {
		aside := p.version.Load().filesAside()
		if aside == 0 {
			continue
		}
		if !slices.ContainsFunc(state.Partitions, func(m manifest.Partition) bool { return m.ID == uint32(p.id) }) {
			return false
		}
		m, err := manifest.LoadNewest[manifest.Files](db.env.fs, p.dir, manifest.PartitionKind)
		if p.lost != nil {
			// The manifest of the partition is damaged: it cannot be read, or its
			// contents make no sense. It must still be the newest.
			latest, _ := manifest.NewDir(db.env.fs, p.dir, manifest.PartitionKind).Latest()
			if err == nil && latest != p.install.dir.Generation() {
				return false
			}
			continue
		}
		if err != nil {
			return false
		}
		for _, r := range p.version.Load().runs {
			for _, f := range r.files {
				if f.aside.Load() && !m.Lists(f.ref.Number) {
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
	p.db.opts.Logger.Error("set aside what cannot be read", "container", p.c.name, "partition", p.id, "error", why)
	notify(p.db, p.db.opts.Events.CorruptionFound, why)
}

// setAside makes the partition unreadable, because its manifest is damaged.
func (p *partition) setAside(why error) error {
	p.lost = why
	ref := manifest.File{Min: p.rng.Min.Bytes(), Max: p.rng.Max.Bytes()}
	f, err := p.asideFile(ref, path.Join(p.dir, manifest.Name(max(1, p.install.dir.Generation()))), why)
	if err != nil {
		return err
	}
	var inherits []manifest.Inherited
	for _, id := range p.parents {
		inherits = append(inherits, manifest.Inherited{Stream: uint32(id)})
	}
	p.inherits.Store(&inherits)
	v := *p.version.Load()
	v.setRuns([]*run{{files: []*file{f}}})
	p.version.Store(&v)
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
	v, release := p.hold()
	defer release()
	for _, r := range v.runs {
		for _, f := range r.files {
			why := f.damage.Load()
			if why == nil {
				continue
			}
			all = append(all, p.damageOf(f, f.aside.Load(), *why))
		}
	}
	return all
}

// damageOf describes damage in a file of the partition.
func (p *partition) damageOf(f *file, aside bool, why error) Damage {
	d := Damage{
		Container: p.c.name, Partition: p.id, Min: f.min.String(), Max: f.max.String(), File: p.db.env.fs.Path(f.name), Offset: -1,
		Aside: aside, Whole: p.lost != nil, Err: why,
	}
	if at := new(CorruptionError); errors.As(why, &at) {
		d.File, d.Offset = at.File, at.Offset
	}
	return d
}
