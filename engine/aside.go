package engine

import (
	"errors"

	"github.com/cleavestore/cleave/internal/census"
	"github.com/cleavestore/cleave/internal/lsm"
)

// bears says whether the store sets aside what cannot be read for this reason.
func (db *DB) bears(why error) bool { return db.bearing && why != nil && lsm.Unreadable(why) }

// tellAside logs why a file of the partition, or all of it, was set aside, and sends the
// event.
func (p *partition) tellAside(why error) {
	p.db.opts.Logger.Error("set aside what cannot be read", "container", p.c.name, "partition", p.ID, "error", why)
	notify(p.db, p.db.opts.Events.CorruptionFound, why)
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
	// Aside says that compactions leave the file alone. Otherwise its undamaged parts are read
	// as before.
	Aside bool `json:"set_aside"`
	// Whole says that the physical partition cannot be read or written, because its
	// manifest is damaged or, in what a repair has lost, because it is not here.
	Whole bool  `json:"whole_partition"`
	Err   error `json:"error"`
}

// damages lists the damage that is known in the partition's files.
func (p *partition) damages() (all []Damage) {
	v, release := p.PinVersion()
	defer release()
	for f := range census.Files(v) {
		if why := f.Damage.Load(); why != nil {
			all = append(all, p.damageOf(f, f.Aside.Load(), *why))
		}
	}
	return all
}

// damageOf describes damage in a file of the partition.
func (p *partition) damageOf(f *lsm.File, aside bool, why error) Damage {
	d := Damage{
		Container: p.c.name, Partition: p.ID, Min: f.Min.String(), Max: f.Max.String(), File: p.db.env.FS.Path(f.Name), Offset: -1,
		Aside: aside, Whole: p.Lost != nil || p.Absent, Err: why,
	}
	if at := new(CorruptionError); errors.As(why, &at) {
		d.File, d.Offset = at.File, at.Offset
	} else if at := new(IOError); errors.As(why, &at) {
		d.File = at.File
	}
	return d
}
