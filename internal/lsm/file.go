package lsm

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// Unreadable says that an error lies in the file that was read, and not in the process or
// its permissions.
func Unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrMissing)
}

// Missing says that an error in linking the file is no news: the file is damaged and is
// not there. Then the copy lacks it too.
func (f *File) Missing(err error) bool { return f.Broken() != nil && errors.Is(err, fault.ErrMissing) }

// faultyReads is the number of failed reads of an input after which its file is set
// aside: a device may fail once.
const faultyReads = 3

// Met notes an error that was met in the file's documents or tables, and returns it
// with the name that the partition has for the file.
func (f *File) Met(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		named := f.Renamed(err) // on the heap, where err must not be: most calls have none
		f.Damage.CompareAndSwap(nil, &named)
	}
	return f.Renamed(err)
}

// metIndex is met for the index of the file, which can be rebuilt from the documents.
func (f *File) metIndex(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		f.BadIndex.Store(true)
	}
	return f.Renamed(err)
}

// refused is met for an input of a compaction. It sets the file aside if the file is damaged,
// or when faultyReads reads of it have failed.
func (f *File) refused(err error) error {
	err = f.Met(err)
	if errors.Is(err, fault.ErrIO) && f.failedReads.Add(1) >= faultyReads {
		f.Damage.CompareAndSwap(nil, &err)
	} else if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	f.Aside.Store(true)
	return err
}

// inheritDamage takes over the damage that is known from another reference to the same
// file. A compaction of that may meet it now: Damage is set before Aside, so it is loaded after it.
func (f *File) inheritDamage(from *File) {
	f.Aside.Store(from.Aside.Load())
	f.Damage.Store(from.Damage.Load())
	f.BadIndex.Store(from.BadIndex.Load())
}

// walk returns a walker for a compaction over the file from its lower bound on, or
// a little before it.
func (f *File) walk() *segment.Walker {
	if f.Clip == nil {
		return f.WalkKeys()
	}
	return f.WalkKeysFrom(f.Clip.Lo.EPK)
}

// boundsOf returns the part of the key space that a file reference covers.
func boundsOf(ref manifest.File) (lo, hi partmap.EPK, err error) {
	if lo, err = partmap.EPKFromBytes(ref.Min); err == nil {
		hi, err = partmap.EPKFromBytes(ref.Max)
	}
	return lo, hi, err
}

// File is a segment file within the bounds of its reference.
type File struct {
	*segment.Reader
	Ref  manifest.File
	Min  partmap.EPK
	Max  partmap.EPK
	Clip *keybounds.Bounds // the bounds as keys; nil: all of the file lies within
	Name string
	path string // for messages, if the reader was opened by another name; else empty

	opened      atomic.Pointer[index.Reader] // its index; nil until first needed
	span        atomic.Pointer[ordinals]     // its ordinals within the bounds; nil until first needed
	VectorCache vectorCache
	fingerprint atomic.Pointer[uint64] // of its index; nil: not read yet
	BadIndex    atomic.Bool            // its index or its deletion vectors were found damaged
	Damage      atomic.Pointer[error]  // first damage that was met in it; nil: none
	Aside       atomic.Bool            // it is damaged: compactions pass it over
	failedReads atomic.Int32           // how often a compaction failed to read it
}

// Renamed puts the partition's name of the file into an error of the reader.
func (f *File) Renamed(err error) error {
	if f.path == "" {
		return err
	}
	switch e := err.(type) {
	case *fault.CorruptionError:
		return &fault.CorruptionError{File: f.path, Offset: e.Offset, Err: e.Err}
	case *fault.IOError:
		return &fault.IOError{Op: e.Op, File: f.path, Offset: e.Offset, Err: e.Err}
	}
	return err
}

// StaleFor says whether the file has no index for a policy. An index that cannot be
// read counts as none.
func (f *File) StaleFor(policy *index.Compiled) bool {
	known := f.fingerprint.Load()
	if known == nil {
		found := uint64(0)
		if section, ok := f.Index(true); ok {
			if r, err := f.guardedIndex(section); err == nil {
				found = r.Info().Fingerprint
			}
		}
		known = &found
		f.fingerprint.Store(known)
	}
	return *known != policy.Fingerprint() || f.BadIndex.Load()
}

// foreignPercent is the share of a file, in percent, that must lie beyond the bounds of
// its reference for the file to be written anew within them. foreignLeft is the share
// for DB.Compact.
const (
	foreignPercent = 30
	foreignLeft    = 5
)

// Trimmable says whether enough of the file is foreign.
func (f *File) Trimmable(settle bool) bool {
	percent := int64(foreignPercent)
	if settle {
		percent = foreignLeft
	}
	return f.Foreign()*100 >= f.Ref.Size*percent
}
