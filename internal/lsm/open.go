package lsm

import (
	"path"
	"strings"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
)

// OpenRuns opens the files of a manifest and makes its runs those of the version. What
// cannot be read is set aside if bears says so of the error; aside are these errors. After
// an error the version has the files that were opened, for Release.
func (t *Tree) OpenRuns(m *manifest.Files, shared *SharedFiles, bears func(error) bool) (aside []error, err error) {
	v := *t.Version.Load()
	for i := range m.Runs {
		r := &Run{Overwritten: m.Runs[i].Shadowed, Expiring: expiringFrom(&m.Runs[i]), KeptAbove: m.ChangeFloor}
		v.Runs = append(v.Runs, r)
		t.Version.Store(&v)
		for _, ref := range m.Runs[i].Files {
			f, err := t.openFile(ref, shared)
			if bears(err) {
				aside = append(aside, err)
				f, err = t.AsideFile(ref, path.Join(t.Dir, manifest.SegmentName(ref.Number)), err)
			}
			if err != nil {
				return aside, err
			}
			r.Files = append(r.Files, f)
			t.Env.NumberTaken(ref.Number)
		}
	}
	v.SetRuns(v.Runs)
	t.Version.Store(&v)
	return aside, nil
}

// NamesTaken makes sure that no new file gets the number of a file with one of these names. It passes over numbers that
// the store does not come to: new files with higher ones could not be named in a manifest.
func (e *Env) NamesTaken(names []string) {
	for _, name := range names {
		if number, ok := manifest.ParseSegmentName(strings.TrimSuffix(name, manifest.TempSuffix)); ok && number <= manifest.MaxNumber/2 {
			e.NumberTaken(number)
		}
	}
}

// NumberTaken makes sure that all new files get numbers above this one.
func (e *Env) NumberTaken(number uint64) {
	for {
		old := e.NextFile.Load()
		if old >= number || e.NextFile.CompareAndSwap(old, number) {
			return
		}
	}
}

// AdoptSeed takes the hash seed of the newest file for new memtables and files, so that
// a read hashes its key only once. Correctness does not rely on it: a file is read
// with its own seed. The memtables of the trees are still empty.
func (e *Env) AdoptSeed(trees []*Tree) {
	newest := uint64(0)
	for _, t := range trees {
		for f := range t.Version.Load().Files() {
			if seed := f.Seed(); f.Ref.Number > newest && seed != (item.Seed{}) {
				newest, e.Seed = f.Ref.Number, seed
			}
		}
	}
	if newest == 0 {
		return
	}
	for _, t := range trees {
		v := *t.Version.Load()
		v.Active = memtable.New(e.Pool, t.Span, 0, e.Seed)
		t.Version.Store(&v)
	}
}

// NewestStamp returns the latest time stamp in the version's files, as far as they can be
// read; 0: there is none.
func (v *Version) NewestStamp() (stamp int64) {
	for f := range v.Files() {
		if f.Broken() == nil {
			stamp = max(stamp, f.Properties().MaxModified)
		}
	}
	return stamp
}
