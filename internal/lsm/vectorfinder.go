package lsm

import (
	"cmp"
	"slices"

	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// vectorFinder finds the deletion vectors of the file that an output writes, in the files of
// older runs.
type vectorFinder struct {
	older  []*Run
	inputs map[uint64]*deletion.Vector // what the inputs of a compaction know, by number of the older file
	// unread are the older files that could not be read, by number: what is overwritten in
	// them is not recorded, and does not keep the file from being written.
	unread map[uint64]bool

	begun bool
	first item.KeyCopy // key of the file being written
	keys  [segment.ManyKeys]foundKey
	n     int      // of keys: those that are not looked up yet, one at least
	may   []uint64 // for each older run, which of the keys it may have
	found map[uint64]*deletion.Vector
}

// foundKey is a key of the file that is written.
type foundKey struct {
	item.KeyCopy
	epk    partmap.EPK
	oldest uint64 // sequence of the oldest version so far
}

// newVectorFinder returns a finder for an output. inputs are the runs that a
// compaction reads.
func newVectorFinder(older, inputs []*Run) *vectorFinder {
	s := &vectorFinder{older: older, inputs: make(map[uint64]*deletion.Vector), unread: make(map[uint64]bool)}
	for _, r := range older {
		for _, old := range r.Files {
			var all *deletion.Vector
			for _, in := range inputs {
				for _, f := range in.Files {
					l := f.VectorCache.Known(f, old)
					if l == nil {
						all = nil
						break
					}
					if all == nil {
						all = new(deletion.Vector)
					}
					all = deletion.Join(all, l)
				}
				if all == nil {
					break
				}
			}
			if all != nil {
				s.inputs[old.Ref.Number] = all
			}
		}
	}
	return s
}

// note is called for each version that the output adds.
func (s *vectorFinder) note(k *item.Key, seq uint64) {
	if s == nil {
		return
	}
	switch {
	case !s.begun:
		s.begun, s.n = true, 0
		s.first.Set(k)
		s.found = make(map[uint64]*deletion.Vector)
	case item.Compare(k, &s.keys[s.n-1].Key) == 0:
		s.keys[s.n-1].oldest = seq
		return
	case s.n == len(s.keys):
		s.find()
		s.n = 0
	}
	key := &s.keys[s.n]
	if s.n > 0 && item.SamePartition(k, &s.keys[s.n-1].Key) {
		key.epk = s.keys[s.n-1].epk
	} else {
		key.epk = partmap.HashEncoded(k.PK)
	}
	key.Set(k)
	key.oldest = seq
	s.n++
}

// find looks the keys up in the older files for which the inputs do not know the vectors.
func (s *vectorFinder) find() {
	var lookups [segment.ManyKeys]item.Lookup
	for i := range s.keys[:s.n] {
		lookups[i].Key = &s.keys[i].Key
	}
	s.may = s.may[:0]
	for _, r := range s.older {
		may := uint64(0)
		for from := 0; from < s.n; {
			f, to := r.Find(&s.keys[from].epk), from+1
			for to < s.n && r.Find(&s.keys[to].epk) == f {
				to++
			}
			if s.seeks(f) {
				may |= f.mayOverwrite(lookups[from:to]) << from
			}
			from = to
		}
		s.may = append(s.may, may)
	}
	for i := range s.keys[:s.n] {
		for age, r := range s.older {
			if s.may[age]>>i&1 == 0 {
				continue
			}
			f := r.Find(&s.keys[i].epk)
			ordinal, versions, err := f.OverwrittenBy(&lookups[i])
			if err != nil {
				s.unread[f.Ref.Number] = true
				continue
			}
			if versions > 0 {
				l := s.found[f.Ref.Number]
				if l == nil {
					l = new(deletion.Vector)
					s.found[f.Ref.Number] = l
				}
				l.Add(ordinal, versions, s.keys[i].oldest)
			}
		}
	}
}

// seeks says whether keys are looked up in a file, nil: in none.
func (s *vectorFinder) seeks(f *File) bool {
	return f != nil && s.inputs[f.Ref.Number] == nil && !s.unread[f.Ref.Number]
}

// end returns what the file overwrites in each older file that could be read, and begins
// the next file. A nil finder returns nil.
func (s *vectorFinder) end() []deletion.FileVector {
	if s == nil {
		return nil
	}
	if s.begun {
		s.find()
		s.begun = false
	}
	var all []deletion.FileVector
	done := make(map[uint64]bool)
	for _, r := range s.older {
		for _, f := range r.Files {
			n := f.Ref.Number
			if done[n] {
				continue
			}
			done[n] = true
			l := s.found[n]
			if in := s.inputs[n]; in != nil && len(in.Ordinals) > 0 {
				part, err := s.within(in, f)
				if err != nil {
					s.unread[n] = true
				}
				l = &part
			}
			if s.unread[n] {
				continue
			}
			if l == nil {
				l = new(deletion.Vector)
			}
			all = append(all, deletion.FileVector{File: n, Vector: *l})
		}
	}
	slices.SortFunc(all, func(a, b deletion.FileVector) int { return cmp.Compare(a.File, b.File) })
	return all
}

// within returns the part of a list for the logical partitions of the file being
// written.
func (s *vectorFinder) within(l *deletion.Vector, older *File) (deletion.Vector, error) {
	c := older.Cursor(MaxSequence)
	from, _ := LimitsOf(&s.first.Key)
	lo, err := older.Lower(c, from)
	if err != nil {
		return deletion.Vector{}, err
	}
	_, to := LimitsOf(&s.keys[s.n-1].Key)
	hi, err := older.Lower(c, to)
	return l.Between(lo, hi), err
}
