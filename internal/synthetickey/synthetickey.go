// Package synthetickey derives the partition keys of documents from several of their
// values. Package partmap has the rule to the byte; docs/synthetic-keys.md explains it.
//
// Invariants:
//
//  1. Different values never make the same key.
//  2. Without random suffixes the key follows from the document alone.
//
// A Rule is immutable. There are no locks.
package synthetickey

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// maxSuffixes is the largest number of suffixes.
const maxSuffixes = 1000

// Rule says of which values a key is made. Its values are the levels of one key: those of
// Join, then that of SuffixOf.
type Rule struct {
	Join     []string // paths
	Suffixes int      // how many there are; 0: none
	SuffixOf string   // path of the value that chooses the suffix; empty: it is random
}

// String returns the rule for people: "/date|/device", "/date|1…64 of /id" or
// "/date|1…64 at random".
func (r *Rule) String() string {
	text := strings.Join(r.Join, "|")
	switch {
	case r.SuffixOf != "":
		return fmt.Sprintf("%s|1…%d of %s", text, r.Suffixes, r.SuffixOf)
	case r.Suffixes > 0:
		return fmt.Sprintf("%s|1…%d at random", text, r.Suffixes)
	}
	return text
}

// Check validates the rule, except for its paths.
func (r *Rule) Check() error {
	least, most := 1, partmap.MaxLevels
	if r.Suffixes == 0 {
		least = 2
	}
	if r.SuffixOf != "" {
		most--
	}
	switch {
	case r.SuffixOf != "" && r.Suffixes == 0:
		return errors.New("Synthetic.SuffixOf without Suffixes")
	case r.Suffixes != 0 && (r.Suffixes < 2 || r.Suffixes > maxSuffixes):
		return fmt.Errorf("Synthetic.Suffixes %d: between 2 and %d", r.Suffixes, maxSuffixes)
	case len(r.Join) < least || len(r.Join) > most:
		return fmt.Errorf("Synthetic.Join: %d paths, between %d and %d", len(r.Join), least, most)
	}
	return nil
}

// Random says that keys cannot be told from documents. It is false for nil.
func (r *Rule) Random() bool { return r != nil && r.Suffixes > 0 && r.SuffixOf == "" }

// Clone returns a rule that shares nothing with r, nil for nil.
func (r *Rule) Clone() *Rule {
	if r == nil {
		return nil
	}
	return &Rule{Join: slices.Clone(r.Join), Suffixes: r.Suffixes, SuffixOf: r.SuffixOf}
}

// Equal says whether both rules are the same; nil is a rule of its own.
func (r *Rule) Equal(o *Rule) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Suffixes == o.Suffixes && jsondoc.SamePaths(r.Join, o.Join) && jsondoc.SamePaths([]string{r.SuffixOf}, []string{o.SuffixOf})
}

// Sources are the paths of the values.
func (r *Rule) Sources() []string {
	if r.SuffixOf != "" {
		return append(slices.Clone(r.Join), r.SuffixOf)
	}
	return r.Join
}

// maxKey is the length of the longest encoding of a string.
const maxKey = partmap.MaxString + 2

// Derive appends the encoded key of documents with these encoded values to dst, which is
// empty, and returns it. A random suffix is drawn. A key may be too long.
func (r *Rule) Derive(dst, values []byte) ([]byte, error) {
	switch {
	case r.SuffixOf != "":
		base := partmap.PrefixLen(values, len(r.Join))
		return checkLength(partmap.AppendSynthetic(dst, values[:base], partmap.Suffix(values[base:], r.Suffixes)))
	case r.Suffixes > 0:
		return checkLength(partmap.AppendSynthetic(dst, values, 1+rand.IntN(r.Suffixes)))
	}
	return checkLength(partmap.AppendSynthetic(dst, values, 0))
}

func checkLength(key []byte) ([]byte, error) {
	if len(key) > maxKey {
		return key, fmt.Errorf("synthetic partition key of %d bytes, limit %d", len(key)-2, partmap.MaxString)
	}
	return key, nil
}

// Key returns the key of documents with these values.
func (r *Rule) Key(values partmap.Key) (partmap.Key, error) {
	key, err := r.Derive(nil, values.Encoded())
	if err != nil {
		return partmap.Key{}, err
	}
	return partmap.FromTrusted(key), nil
}

// Keys returns all keys of documents with these values at Join: one for each suffix.
func (r *Rule) Keys(base partmap.Key) (keys []partmap.Key, err error) {
	for suffix := min(r.Suffixes, 1); suffix <= r.Suffixes; suffix++ {
		key, err := checkLength(partmap.AppendSynthetic(nil, base.Encoded(), suffix))
		if err != nil {
			return nil, err
		}
		keys = append(keys, partmap.FromTrusted(key))
	}
	return keys, nil
}

// Makes says whether a key is one of those of documents with these encoded values at Join,
// of a rule with random suffixes.
func (r *Rule) Makes(key partmap.Key, values []byte) bool {
	_, ok := partmap.ReadSuffix(key, values, r.Suffixes)
	return ok
}

// Text returns encoded values as they are in keys.
func Text(values []byte) string {
	text := partmap.AppendSynthetic(nil, values, 0)
	return strconv.Quote(string(text[1 : len(text)-1]))
}
