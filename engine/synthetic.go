package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/manifest"
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

const maxSuffixes = 1000

// String returns the rule for people: "/date|/device", "/date|1…64 of /id" or
// "/date|1…64 at random".
func (s *SyntheticKey) String() string {
	text := strings.Join(s.Join, "|")
	switch {
	case s.SuffixOf != "":
		return fmt.Sprintf("%s|1…%d of %s", text, s.Suffixes, s.SuffixOf)
	case s.Suffixes > 0:
		return fmt.Sprintf("%s|1…%d at random", text, s.Suffixes)
	}
	return text
}

// KeyText returns the definition of the partition key for people: its paths, or
// SyntheticKey.String.
func (d *ContainerDef) KeyText() string {
	if d.Synthetic != nil {
		return d.Synthetic.String()
	}
	return strings.Join(d.PartitionKey, ",")
}

// random says that the keys cannot be told from documents.
func (s *SyntheticKey) random() bool { return s != nil && s.Suffixes > 0 && s.SuffixOf == "" }

func (s *SyntheticKey) clone() *SyntheticKey {
	if s == nil {
		return nil
	}
	return &SyntheticKey{Join: slices.Clone(s.Join), Suffixes: s.Suffixes, SuffixOf: s.SuffixOf}
}

func (s *SyntheticKey) equal(o *SyntheticKey) bool {
	if s == nil || o == nil {
		return s == o
	}
	return slices.Equal(s.Join, o.Join) && s.Suffixes == o.Suffixes && s.SuffixOf == o.SuffixOf
}

func (s *SyntheticKey) manifest() *manifest.Synthetic {
	if s == nil {
		return nil
	}
	return &manifest.Synthetic{Join: s.Join, Suffixes: s.Suffixes, SuffixOf: s.SuffixOf}
}

func syntheticFromManifest(m *manifest.Synthetic) *SyntheticKey {
	if m == nil {
		return nil
	}
	return &SyntheticKey{Join: m.Join, Suffixes: m.Suffixes, SuffixOf: m.SuffixOf}
}

// checkSynthetic validates the rule, except for its paths, which are compiled later.
func (d *ContainerDef) checkSynthetic(name string) error {
	s := d.Synthetic
	least, most := 1, partmap.MaxLevels
	if s.Suffixes == 0 {
		least = 2
	}
	if s.SuffixOf != "" {
		most--
	}
	switch {
	case d.Kind != JSON:
		return invalidf("container %q: Synthetic: documents of an opaque container are not read", name)
	case len(d.PartitionKey) > 0:
		return invalidf("container %q: both PartitionKey and Synthetic are given", name)
	case s.SuffixOf != "" && s.Suffixes == 0:
		return invalidf("container %q: Synthetic.SuffixOf without Suffixes", name)
	case s.Suffixes != 0 && (s.Suffixes < 2 || s.Suffixes > maxSuffixes):
		return invalidf("container %q: Synthetic.Suffixes %d: between 2 and %d", name, s.Suffixes, maxSuffixes)
	case len(s.Join) < least || len(s.Join) > most:
		return invalidf("container %q: Synthetic.Join: %d paths, between %d and %d", name, len(s.Join), least, most)
	}
	return nil
}

// levels is the number of levels of partition keys.
func (d *ContainerDef) levels() int {
	if d.Synthetic != nil {
		return 1
	}
	return len(d.PartitionKey)
}

// sources are the paths from which the partition key is made.
func (d *ContainerDef) sources() []string {
	s := d.Synthetic
	switch {
	case s == nil:
		return d.PartitionKey
	case s.SuffixOf != "":
		return append(slices.Clone(s.Join), s.SuffixOf)
	}
	return s.Join
}

// keyOf returns the encoded key of the document that the request has scanned. If given
// is valid, it must be that key.
func (c *Container) keyOf(r *request, given PartitionKey) ([]byte, error) {
	pk := r.doc.PK
	if s := c.def.Synthetic; s != nil {
		if s.random() && given.Valid() {
			if _, ok := partmap.ReadSuffix(given, pk, s.Suffixes); !ok {
				return nil, fmt.Errorf("%w: the document has %s|1…%d, not %s", ErrKeyMismatch, c.baseText(pk), s.Suffixes, given)
			}
			return given.Encoded(), nil
		}
		r.derived = s.derive(r.derived[:0], pk)
		if pk = r.derived; len(pk) > maxSyntheticKey {
			return nil, syntheticTooLong(pk)
		}
	}
	if given.Valid() && !bytes.Equal(pk, given.Encoded()) {
		return nil, fmt.Errorf("%w: the document has %s, not %s", ErrKeyMismatch, keyOf(string(pk)), given)
	}
	return pk, nil
}

// maxSyntheticKey is the length of the longest encoding of a string.
const maxSyntheticKey = partmap.MaxString + 2

func syntheticTooLong(pk []byte) error {
	return invalidf("synthetic partition key of %d bytes, limit %d", len(pk)-2, partmap.MaxString)
}

// derive appends the encoded key of documents with these source values. A
// random suffix is drawn.
func (s *SyntheticKey) derive(dst, sources []byte) []byte {
	switch {
	case s.SuffixOf != "":
		base := partmap.PrefixLen(sources, len(s.Join))
		return partmap.AppendSynthetic(dst, sources[:base], partmap.Suffix(sources[base:], s.Suffixes))
	case s.Suffixes > 0:
		return partmap.AppendSynthetic(dst, sources, 1+rand.IntN(s.Suffixes))
	}
	return partmap.AppendSynthetic(dst, sources, 0)
}

// baseText returns a base value as it is in keys.
func (c *Container) baseText(sources []byte) string {
	text := partmap.AppendSynthetic(nil, sources, 0)
	return strconv.Quote(string(text[1 : len(text)-1]))
}

// KeyOf returns the partition key under which Create would write a document. It returns
// ErrRandomSuffix if Create would draw the suffix, *DocumentError for a document that is
// refused.
func (c *Container) KeyOf(doc []byte) (PartitionKey, error) {
	if c.def.Kind != JSON {
		return PartitionKey{}, invalidf("KeyOf: container %q is opaque", c.name)
	}
	if c.def.Synthetic.random() {
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
	s := c.def.Synthetic
	if s.random() {
		return PartitionKey{}, fmt.Errorf("container %q: %w", c.name, ErrRandomSuffix)
	}
	sources, err := c.joinSources(values, len(c.def.sources()))
	if err != nil || s == nil {
		return sources, err
	}
	return syntheticKey(s.derive(nil, sources.Encoded()))
}

// BaseKeys returns the partition keys of all documents that have these values at the
// paths of SyntheticKey.Join: one key for each suffix, from 1 on; a single key if there
// are no suffixes.
func (c *Container) BaseKeys(values ...PartitionKey) ([]PartitionKey, error) {
	s := c.def.Synthetic
	if s == nil {
		return nil, invalidf("container %q has no synthetic key", c.name)
	}
	base, err := c.joinSources(values, len(s.Join))
	if err != nil {
		return nil, err
	}
	return s.keysOf(base)
}

// keysOf returns the keys of a base value.
func (s *SyntheticKey) keysOf(base PartitionKey) (keys []PartitionKey, err error) {
	first := min(s.Suffixes, 1)
	for suffix := first; suffix <= s.Suffixes; suffix++ {
		key, err := syntheticKey(partmap.AppendSynthetic(nil, base.Encoded(), suffix))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func syntheticKey(encoded []byte) (PartitionKey, error) {
	if len(encoded) > maxSyntheticKey {
		return PartitionKey{}, syntheticTooLong(encoded)
	}
	return keyOf(string(encoded)), nil
}

// joinSources returns values as the levels of one key.
func (c *Container) joinSources(values []PartitionKey, want int) (PartitionKey, error) {
	key := JoinKeys(values...)
	if !key.Valid() || len(values) != want || key.Len() != want {
		return PartitionKey{}, invalidf("container %q with partition key %s: %d values, each a key of one level, are wanted", c.name, c.def.KeyText(), want)
	}
	return key, nil
}
