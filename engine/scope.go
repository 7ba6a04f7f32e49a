package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Scope says where a query looks. The zero Scope is invalid.
type Scope struct {
	kind scopeKind
	key  PartitionKey
}

type scopeKind uint8

const (
	scopeNone scopeKind = iota
	scopeOne
	scopePrefix
	scopeBase
	scopeAll
)

// OnePartition is one logical partition.
func OnePartition(pk PartitionKey) Scope { return Scope{scopeOne, pk} }

// PrefixOf is all logical partitions whose keys begin with these levels.
func PrefixOf(key PartitionKey) Scope { return Scope{scopePrefix, key} }

// OfBase is all logical partitions of a base value, in a container with a
// SyntheticKey: one for each suffix. The values are those of its Join.
func OfBase(values ...PartitionKey) Scope { return Scope{scopeBase, JoinKeys(values...)} }

// AllPartitions is the whole container.
func AllPartitions() Scope { return Scope{kind: scopeAll} }

// String returns the scope for people.
func (s Scope) String() string {
	switch s.kind {
	case scopeOne:
		return "partition " + s.key.String()
	case scopePrefix:
		return "prefix " + s.key.String()
	case scopeBase:
		return "base " + s.key.String()
	case scopeAll:
		return "all partitions"
	}
	return "no scope"
}

// check returns the scope with a prefix of all levels, and a base value of one
// key, as one partition.
func (s Scope) check(c *Container) (Scope, error) {
	if s.kind == scopePrefix && s.key.Valid() && s.key.Len() == c.levels() {
		s.kind = scopeOne
	}
	switch s.kind {
	case scopeOne:
		return s, c.checkPartitionKey(s.key)
	case scopePrefix:
		if !s.key.Valid() || s.key.Len() > c.levels() {
			return s, invalidf("scope: key prefix of %d levels, container %q has %d", s.key.Len(), c.name, c.levels())
		}
		return s, nil
	case scopeBase:
		syn := c.def.Synthetic
		if syn == nil || s.key.Len() != len(syn.Join) {
			return s, invalidf("scope: base value of %d values, the partition key of container %q is %s", s.key.Len(), c.name, c.def.KeyText())
		}
		keys, err := syn.keysOf(s.key)
		if err == nil && len(keys) == 1 {
			return OnePartition(keys[0]), nil
		}
		return s, err
	case scopeAll:
		return s, nil
	}
	return s, invalidf("the query has no scope: OnePartition, PrefixOf, OfBase or AllPartitions")
}

// keys returns the partition keys of a scope that is made of a few, in key-space
// order; nil if it is not.
func (s Scope) keys(c *Container) ([]PartitionKey, error) {
	switch s.kind {
	case scopeOne:
		return []PartitionKey{s.key}, nil
	case scopeBase:
		keys, err := c.def.Synthetic.keysOf(s.key)
		slices.SortFunc(keys, compareKeyPlaces)
		return keys, err
	}
	return nil, nil
}

// holds says whether a logical partition lies in the scope.
func (s Scope) holds(c *Container, pk PartitionKey) bool {
	switch s.kind {
	case scopeOne:
		return pk == s.key
	case scopePrefix:
		return bytes.HasPrefix(pk.Encoded(), s.key.Encoded())
	case scopeBase:
		keys, err := s.keys(c)
		return err == nil && slices.Contains(keys, pk)
	}
	return true
}

// compareKeyPlaces orders keys as their items are.
func compareKeyPlaces(a, b PartitionKey) int {
	x, y := a.EPK(), b.EPK()
	if c := x.Compare(&y); c != 0 {
		return c
	}
	return bytes.Compare(a.Encoded(), b.Encoded())
}

// narrowed returns the scope with what a filter demands of the partition key.
func (s Scope) narrowed(c *Container, f *query.Filter) Scope {
	if s.kind == scopeOne {
		return s
	}
	pinned := make(map[string]query.Value)
	f.Every(func(f *query.Filter) {
		switch {
		case f.Op == query.Eq:
			pinned[f.Path.String()] = f.Value
		case f.Op == query.In && len(f.Values) == 1:
			pinned[f.Path.String()] = f.Values[0]
		}
	})
	var levels []PartitionKey
	sources := c.def.sources()
	if s.kind == scopeBase {
		levels, sources = append(levels, s.key), sources[s.key.Len():]
	}
	for _, text := range sources {
		v, ok := pinned[keyPath(text).String()]
		if !ok {
			break
		}
		level := keyOfValue(v)
		if !level.Valid() {
			break
		}
		levels = append(levels, level)
	}
	if len(levels) == 0 {
		return s
	}
	key, err := partmap.Join(levels...)
	if err == nil && c.def.Synthetic != nil {
		return s.narrowedSynthetic(c, key)
	}
	if err != nil || s.kind == scopePrefix && !bytes.HasPrefix(key.Encoded(), s.key.Encoded()) {
		return s
	}
	if len(levels) == c.levels() {
		return OnePartition(key)
	}
	return PrefixOf(key)
}

// narrowedSynthetic is narrowed for a synthetic key, of which the first source
// values are known.
func (s Scope) narrowedSynthetic(c *Container, values PartitionKey) Scope {
	syn := c.def.Synthetic
	if values.Len() < len(syn.Join) {
		return s
	}
	if values.Len() == len(c.def.sources()) && !syn.random() {
		if key, err := syntheticKey(syn.derive(nil, values.Encoded())); err == nil {
			return OnePartition(key)
		}
		return s
	}
	enc := values.Encoded()
	base := Scope{scopeBase, keyOf(string(enc[:partmap.PrefixLen(enc, len(syn.Join))]))}
	if _, err := base.keys(c); err != nil {
		return s
	}
	return base
}

// keyPath is the path of a level of the partition key, whose names are taken as
// they are.
func keyPath(text string) (p query.Path) {
	for _, name := range bytes.Split([]byte(text), []byte("/"))[1:] {
		p = append(p, jsondoc.Step{Name: string(name)})
	}
	return p
}

// keyOfValue returns the key of documents whose level is v; the zero key if
// there can be none.
func keyOfValue(v query.Value) PartitionKey {
	switch v.Kind {
	case jsondoc.KindNull:
		return NullKey()
	case jsondoc.KindBool:
		return BoolKey(v.Bool)
	case jsondoc.KindNumber:
		return NumberKey(v.Number)
	case jsondoc.KindString:
		return StringKey(v.Text)
	}
	return PartitionKey{}
}

// bounds returns the part of the key space that the scope takes; that of one
// partition begins and ends at its EPK.
func (s Scope) bounds() (partmap.Range, error) {
	switch s.kind {
	case scopeOne:
		epk := s.key.EPK()
		return partmap.Range{Min: epk, Max: epk}, nil
	case scopePrefix:
		epk := s.key.EPK()
		end, err := partmap.EPKFromBytes(append(bytes.Clone(epk.Bytes()), 0xFF))
		if err != nil {
			return partmap.Range{}, fmt.Errorf("scope: %w", err)
		}
		return partmap.Range{Min: epk, Max: end}, nil
	}
	return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, nil
}
