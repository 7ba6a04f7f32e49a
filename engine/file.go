package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// unreadable says that an error lies in the file that was read, and not in the process or
// its permissions.
func unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrMissing)
}

// missing says that an error in linking the file is no news: the file is damaged and is
// not there. Then the copy lacks it too.
func (f *file) missing(err error) bool { return f.Broken() != nil && errors.Is(err, fault.ErrMissing) }

// faultyReads is the number of failed reads of an input after which its file is set
// aside: a device may fail once.
const faultyReads = 3

// met notes an error that was met in the file's documents or tables, and returns it
// with the name that the partition has for the file.
func (f *file) met(err error) error {
	err = f.named(err)
	if errors.Is(err, fault.ErrCorrupt) {
		f.damage.CompareAndSwap(nil, &err)
	}
	return err
}

// metIndex is met for the index of the file, which can be rebuilt from the documents.
func (f *file) metIndex(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		f.badIndex.Store(true)
	}
	return f.named(err)
}

// refused is met for an input of a merge. It sets the file aside if the file is damaged,
// or when faultyReads reads of it have failed.
func (f *file) refused(err error) error {
	err = f.met(err)
	if errors.Is(err, fault.ErrIO) && f.failedReads.Add(1) >= faultyReads {
		f.damage.CompareAndSwap(nil, &err)
	} else if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	f.aside.Store(true)
	return err
}

// inheritDamage takes over the damage that is known from another reference to the same
// file.
func (f *file) inheritDamage(from *file) {
	f.damage.Store(from.damage.Load())
	f.aside.Store(from.aside.Load())
	f.badIndex.Store(from.badIndex.Load())
}

// walk returns a walker for a merge over the file from its lower bound on, or
// a little before it.
func (f *file) walk() *segment.Walker {
	if f.clip == nil {
		return f.WalkKeys()
	}
	return f.WalkKeysFrom(f.clip.lo.EPK)
}

// boundsOf returns the part of the key space that a file reference covers.
func boundsOf(ref manifest.File) (lo, hi partmap.EPK, err error) {
	if lo, err = partmap.EPKFromBytes(ref.Min); err == nil {
		hi, err = partmap.EPKFromBytes(ref.Max)
	}
	return lo, hi, err
}

// file is a segment file within the bounds of its reference.
type file struct {
	*segment.Reader
	ref  manifest.File
	min  partmap.EPK
	max  partmap.EPK
	clip *bounds // the bounds as keys; nil: all of the file lies within
	name string
	path string // for messages, if the reader was opened by another name; else empty

	opened      atomic.Pointer[index.Reader] // its index; nil until first needed
	span        atomic.Pointer[ordinals]     // its ordinals within the bounds; nil until first needed
	shadows     shadowCache
	fingerprint atomic.Pointer[uint64] // of its index; nil: not read yet
	badIndex    atomic.Bool            // its index or its shadows were found damaged
	damage      atomic.Pointer[error]  // first damage that was met in it; nil: none
	aside       atomic.Bool            // it is damaged: merges pass it over
	failedReads atomic.Int32           // how often a merge failed to read it
}

// named puts the partition's name of the file into an error of the reader.
func (f *file) named(err error) error {
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

// staleFor says whether the file has no index for a policy. An index that cannot be
// read counts as none.
func (f *file) staleFor(policy *index.Compiled) bool {
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
	return *known != policy.Fingerprint() || f.badIndex.Load()
}

// foreignPercent is the share of a file, in percent, that must lie beyond the bounds of
// its reference for the file to be written anew within them. foreignLeft is the share
// for DB.Compact.
const (
	foreignPercent = 30
	foreignLeft    = 5
)

// trimmable says whether enough of the file is foreign.
func (f *file) trimmable(settle bool) bool {
	percent := int64(foreignPercent)
	if settle {
		percent = foreignLeft
	}
	return f.foreign()*100 >= f.ref.Size*percent
}
