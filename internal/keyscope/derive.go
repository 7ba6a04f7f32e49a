package keyscope

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/partmap"
)

// ErrRandom says that the suffix of a key is drawn at random, so that it cannot be derived.
var ErrRandom = errors.New("the suffix is random")

// Random says whether the suffix of a key is drawn at random.
func (d *Definition) Random() bool { return d.Rule.Random() }

// Derive returns the partition key of the documents that have these values, one for each
// source.
func (d *Definition) Derive(values []partmap.Key) (partmap.Key, error) {
	if d.Random() {
		return partmap.Key{}, ErrRandom
	}
	key, err := d.join(values, len(d.Sources))
	if err != nil || d.Rule == nil {
		return d.Own(key), err
	}
	return d.Rule.Key(key)
}

// Bases returns the partition keys of all documents that have these values at the paths
// that the rule joins.
func (d *Definition) Bases(values []partmap.Key) ([]partmap.Key, error) {
	if d.Rule == nil {
		return nil, errors.New("there is no synthetic key")
	}
	base, err := d.join(values, len(d.Rule.Join))
	if err != nil {
		return nil, err
	}
	return d.Rule.Keys(base)
}

// join returns values as the levels of one key.
func (d *Definition) join(values []partmap.Key, want int) (partmap.Key, error) {
	levels := func(k partmap.Key) bool { return !k.Valid() || k.Len() != 1 }
	if len(values) == want && !slices.ContainsFunc(values, levels) {
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = v.OfVersion(2)
		}
		if key, err := partmap.Join(values...); err == nil {
			return key, nil
		}
	}
	return partmap.Key{}, fmt.Errorf("partition key %s: %d values, each a key of one level, are wanted", d.Text, want)
}
