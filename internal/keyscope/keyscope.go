// Package keyscope says which logical partitions a query, a count or a change feed looks
// at, and narrows that by what a filter demands of the partition key.
//
// Invariants:
//
//  1. A scope that was narrowed holds every document of the wider scope for which the
//     filter is true.
//  2. Keys are listed in key-space order, and none twice.
//  3. A scope of one logical partition is always of kind One once it was checked, whatever
//     words it was asked for in.
//
// Scopes are values. There are no locks, and no store is read.
package keyscope

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/partmap"
)

// Kind is a kind of scope.
type Kind uint8

// Kinds of scopes.
const (
	None   Kind = iota // of the zero scope, which is invalid
	One                // one logical partition
	Prefix             // all logical partitions whose keys begin with some levels
	Base               // all logical partitions of the base value of a synthetic key
	All                // the whole container
	Part               // a range of the key space
)

// Definition is how a container makes its partition keys.
type Definition struct {
	Levels   int                // of the keys
	Version1 bool               // keys are placed by version 1 of the hash
	Sources  []string           // the paths from whose values keys are made
	Rule     *synthetickey.Rule // nil: the values are the levels
	Text     string             // for people
}

// Own returns a key as keys of the container are placed. It allocates nothing if the key is
// so placed already.
func (d *Definition) Own(key partmap.Key) partmap.Key {
	if d.Version1 == (key.Version() == 1) {
		return key
	}
	if d.Version1 {
		return key.OfVersion(1)
	}
	return key.OfVersion(2)
}

// Scope is a set of logical partitions.
type Scope struct {
	Kind   Kind
	Key    partmap.Key   // its levels; the zero key for All and Part
	Within partmap.Range // of Part; of One and Prefix what lies outside is left out, unless it is the zero Range
}

// Between returns what of a scope lies from min up to, and without, max, two EPKs in
// hexadecimal digits. An empty max is the end of the key space. A base value cannot be divided.
func (s Scope) Between(min, max string) (Scope, error) {
	within := partmap.Range{Max: partmap.MaxEPK()}
	var err error
	if within.Min, err = partmap.ParseEPK(min); err == nil && max != "" {
		within.Max, err = partmap.ParseEPK(max)
	}
	if !s.Within.Empty() {
		within = within.Common(s.Within)
	}
	switch {
	case err == nil && (s.Kind == None || s.Kind == Base):
		err = fmt.Errorf("of %s no range can be taken", s)
	case err == nil && within.Empty():
		err = errors.New("it is empty")
	}
	if err != nil {
		return Scope{}, fmt.Errorf("range from %q to %q: %w", min, max, err)
	}
	if s.Kind == All {
		s.Kind = Part
	}
	s.Within = within
	return s, nil
}

// String returns the scope for people.
func (s Scope) String() string {
	switch s.Kind {
	case One, Prefix:
		text := "partition "
		if s.Kind == Prefix {
			text = "prefix "
		}
		if text += s.Key.String(); !s.Within.Empty() {
			text += " in " + s.Within.String()
		}
		return text
	case Base:
		return "base " + s.Key.String()
	case All:
		return "all partitions"
	case Part:
		return "range " + s.Within.String()
	}
	return "no scope"
}

// Whole returns the scope that a continuation of a query is good for: the one of which a
// range was taken, since a continuation says only after which result it goes on. So a query that
// was begun in a range goes on in parts of it.
func (s Scope) Whole() Scope {
	if s.Kind == Part {
		return Scope{Kind: All}
	}
	s.Within = partmap.Range{}
	return s
}

// Check validates the scope for a container. It returns a prefix of all levels, or a base
// value of one key, as One. It does not check the key of One.
func (s Scope) Check(d *Definition) (Scope, error) {
	if s.Kind == One || s.Kind == Prefix {
		s.Key = d.Own(s.Key)
	}
	if s.Kind == Prefix && s.Key.Valid() && s.Key.Len() == d.Levels {
		s.Kind = One
	}
	switch s.Kind {
	case One, All, Part:
		return s, nil
	case Prefix:
		if !s.Key.Valid() || s.Key.Len() > d.Levels {
			return s, fmt.Errorf("key prefix of %d levels, keys have %d", s.Key.Len(), d.Levels)
		}
		return s, nil
	case Base:
		if d.Rule == nil || s.Key.Len() != len(d.Rule.Join) {
			return s, fmt.Errorf("base value of %d values, the partition key is %s", s.Key.Len(), d.Text)
		}
		keys, err := d.Rule.Keys(s.Key)
		if err == nil && len(keys) == 1 {
			return Scope{Kind: One, Key: keys[0]}, nil
		}
		return s, err
	}
	return s, errors.New("none is given: OnePartition, PrefixOf, OfBase, OfRange or AllPartitions")
}

// Keys returns the partition keys, in key-space order, of a scope that is a list of keys;
// nil for other scopes.
func (s Scope) Keys(d *Definition) ([]partmap.Key, error) {
	switch s.Kind {
	case One:
		return []partmap.Key{s.Key}, nil
	case Base:
		keys, err := d.Rule.Keys(s.Key)
		slices.SortFunc(keys, partmap.Key.Compare)
		return keys, err
	}
	return nil, nil
}

// Holds says whether a logical partition lies in the scope.
func (s Scope) Holds(d *Definition, pk partmap.Key) bool {
	if s.Kind == Base {
		keys, err := s.Keys(d)
		return err == nil && slices.Contains(keys, pk)
	}
	return s.HoldsEncoded(pk.Encoded())
}

// HoldsEncoded is Holds for an encoded key and a scope that is not of kind Base.
func (s Scope) HoldsEncoded(pk []byte) bool {
	if s.Kind == One && !bytes.Equal(pk, s.Key.Encoded()) || s.Kind == Prefix && !bytes.HasPrefix(pk, s.Key.Encoded()) {
		return false
	}
	if s.Within.Empty() {
		return true
	}
	epk := partmap.HashEncoded(pk)
	return s.Within.Contains(&epk)
}

// Scanned returns the part of the key space that a scan of many logical partitions goes over: all of
// it for the zero Scope.
func (s Scope) Scanned() (partmap.Range, error) {
	switch s.Kind {
	case None:
		s.Kind = All
	case All, Part:
	default:
		return partmap.Range{}, fmt.Errorf("a scan within %s: AllPartitions and OfRange are possible", s)
	}
	return s.Bounds()
}

// Bounds returns the part of the key space that the scope takes. For One it begins and
// ends at the EPK of the key. It is empty for a Prefix of which nothing lies in its range.
func (s Scope) Bounds() (partmap.Range, error) {
	switch s.Kind {
	case One:
		epk := s.Key.EPK()
		return partmap.Range{Min: epk, Max: epk}, nil
	case Prefix:
		r, err := s.Key.Range()
		switch {
		case err != nil:
			return partmap.Range{}, fmt.Errorf("scope: %w", err)
		case s.Within.Empty():
			return r, nil
		}
		return r.Common(s.Within), nil
	case Part:
		return s.Within, nil
	}
	return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, nil
}
