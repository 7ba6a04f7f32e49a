package engine

import (
	"bytes"
	"fmt"

	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/partmap"
)

// SyntheticKey derives the partition key of documents that have no single
// member which makes a good one: a string, of the texts of the values that Join
// names and of a suffix, with | between them, such as "2024-05-01|meter 7" or
// "2024-05-01|17". docs/synthetic-keys.md has the rule to the byte. Different
// values never make the same key.
//
// Suffixes divide the documents of one base value, the values of Join, over that many
// logical partitions. With SuffixOf the suffix follows from the document. Otherwise
// Create draws it at random, and it cannot be told from the document, so
//
//   - Create may write an item although one with this base value and id exists
//     under another suffix;
//   - Replace needs the key, which Meta.Key told: WriteOptions.Key, or a batch
//     or transaction;
//   - Upsert and Load are refused with ErrRandomSuffix: what they replace may be
//     under any suffix.
type SyntheticKey struct {
	// Join are 1 to 3 paths, at least 2 without suffixes, at most 2 with
	// SuffixOf. A value that is missing counts as undefined.
	Join []string `json:"join"`
	// Suffixes is N, the number of suffixes, which are 1 to N; at least 2, at
	// most 1,000. 0: keys have no suffix. It cannot be changed later.
	Suffixes int `json:"suffixes,omitempty"`
	// SuffixOf is the path of a value whose hash is the suffix. Empty, with
	// Suffixes: the suffix is random.
	SuffixOf string `json:"suffix_of,omitempty"`
}

// rule returns the rule; nil for nil.
func (s *SyntheticKey) rule() *synthetickey.Rule { return (*synthetickey.Rule)(s) }

// String returns the rule for people: "/date|/device", "/date|1…64 of /id" or
// "/date|1…64 at random".
func (s *SyntheticKey) String() string { return s.rule().String() }

// keyOf returns the encoded key of the document that the request has scanned. If given
// is valid, it must be that key.
func (c *Container) keyOf(r *request, given PartitionKey) ([]byte, error) {
	pk, given := r.doc.PK, c.keys.Own(given)
	if c.keys.Version1 {
		partmap.SetVersion1(pk)
	}
	if s := c.def.Synthetic.rule(); s != nil {
		if s.Random() && given.Valid() {
			if !s.Makes(given, pk) {
				return nil, fmt.Errorf("%w: the document has %s|1…%d, not %s", ErrKeyMismatch, synthetickey.Text(pk), s.Suffixes, given)
			}
			return given.Encoded(), nil
		}
		var err error
		if r.derived, err = s.Derive(r.derived[:0], pk); err != nil {
			return nil, invalidf("%v", err)
		}
		pk = r.derived
	}
	if given.Valid() && !bytes.Equal(pk, given.Encoded()) {
		return nil, fmt.Errorf("%w: the document has %s, not %s", ErrKeyMismatch, keyOf(string(pk)), given)
	}
	return pk, nil
}

// KeyOf returns the partition key under which Create would write a document. It returns
// ErrRandomSuffix if Create would draw the suffix, *DocumentError for a document that is
// refused.
func (c *Container) KeyOf(doc []byte) (PartitionKey, error) {
	if c.def.Kind != JSON {
		return PartitionKey{}, invalidf("KeyOf: container %q is opaque", c.name)
	}
	if c.def.Synthetic.rule().Random() {
		return PartitionKey{}, fmt.Errorf("container %q: %w", c.name, ErrRandomSuffix)
	}
	r := requests.Get().(*request)
	defer r.release()
	if err := c.scan(r, doc, PartitionKey{}); err != nil {
		return PartitionKey{}, err
	}
	return keyOf(string(r.key.PK)), nil
}

// DerivedKey returns the partition key of the documents whose members have these values:
// one for each path of SyntheticKey.Join, then one for SuffixOf if that is set. In a
// container without Synthetic they are the values at PartitionKey's paths. It returns
// ErrRandomSuffix if the suffix is random.
func (c *Container) DerivedKey(values ...PartitionKey) (PartitionKey, error) {
	key, err := c.keys.Derive(values)
	if err == keyscope.ErrRandom {
		return key, fmt.Errorf("container %q: %w", c.name, ErrRandomSuffix)
	} else if err != nil {
		return key, invalidf("container %q: %v", c.name, err)
	}
	return key, nil
}

// BaseKeys returns the partition keys of all documents that have these values at the
// paths of SyntheticKey.Join: one key for each suffix, from 1 on; a single key if there
// are no suffixes.
func (c *Container) BaseKeys(values ...PartitionKey) ([]PartitionKey, error) {
	keys, err := c.keys.Bases(values)
	if err != nil {
		return nil, invalidf("container %q: %v", c.name, err)
	}
	return keys, nil
}
