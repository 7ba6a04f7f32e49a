package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/exec"
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

// check validates the scope. A prefix of all levels, or a base value of one key, is
// returned as OnePartition.
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

// keys returns the partition keys, in key-space order, of a scope that is a list of
// keys; nil for other scopes.
func (s Scope) keys(c *Container) ([]PartitionKey, error) {
	switch s.kind {
	case scopeOne:
		return []PartitionKey{s.key}, nil
	case scopeBase:
		keys, err := c.def.Synthetic.keysOf(s.key)
		slices.SortFunc(keys, PartitionKey.Compare)
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

// narrowed narrows the scope by what a filter demands of the partition key. If the
// filter allows several values, keys are the possible beginnings of the key, in
// key-space order and with equally many levels: each document for which the filter is
// true has one of them. nil: nothing is known.
func (s Scope) narrowed(c *Container, f *query.Filter) (_ Scope, keys []PartitionKey) {
	if s.kind == scopeOne {
		return s, nil
	}
	known := s.key.Len() // levels
	keys = []PartitionKey{s.key}
	for _, text := range c.def.sources()[known:] {
		longer := joinLevel(keys, f.ValuesAt(jsondoc.KeyPath(text)))
		if longer == nil {
			break
		}
		keys = longer
	}
	if keys[0].Len() == known {
		return s, nil
	}
	if c.def.Synthetic != nil {
		var all []PartitionKey
		for _, key := range keys {
			one := s.narrowedSynthetic(c, key)
			if len(keys) == 1 || one == s {
				return one, nil
			}
			of, _ := one.keys(c) // it has been checked
			all = append(all, of...)
		}
		keys = all
	}
	slices.SortFunc(keys, PartitionKey.Compare)
	if keys = slices.Compact(keys); len(keys) > 1 {
		return s, keys
	}
	if keys[0].Len() == c.levels() {
		return OnePartition(keys[0]), nil
	}
	return PrefixOf(keys[0]), nil
}

// joinLevel extends each of keys, of which one may be the zero key, by each of values as
// the next level. It returns nil if that is not possible or gives too many keys.
func joinLevel(keys []PartitionKey, values []query.Value) (longer []PartitionKey) {
	if len(keys)*len(values) > query.MaxLeaves {
		return nil
	}
	for _, key := range keys {
		for _, v := range values {
			level := keyOfValue(v)
			if !level.Valid() {
				return nil
			}
			if key.Valid() {
				var err error
				if level, err = partmap.Join(key, level); err != nil {
					return nil
				}
			}
			longer = append(longer, level)
		}
	}
	return longer
}

// narrowedSynthetic is narrowed for a synthetic key. values are the first source values,
// which are known.
func (s Scope) narrowedSynthetic(c *Container, values PartitionKey) Scope {
	syn := c.def.Synthetic
	if values.Len() < len(syn.Join) {
		return s
	}
	if values.Len() == len(c.def.sources()) && !syn.rule().Random() {
		if key, err := syn.rule().Key(values); err == nil {
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

// bounds returns the part of the key space that the scope takes. For one partition it
// begins and ends at its EPK.
func (s Scope) bounds() (partmap.Range, error) {
	switch s.kind {
	case scopeOne:
		epk := s.key.EPK()
		return partmap.Range{Min: epk, Max: epk}, nil
	case scopePrefix:
		r, err := s.key.Range()
		if err != nil {
			return partmap.Range{}, fmt.Errorf("scope: %w", err)
		}
		return r, nil
	}
	return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, nil
}

// narrowScope is a scope, and what a filter leaves of it.
type narrowScope struct {
	Scope
	keys []PartitionKey // see narrowed
}

// compile returns the scope for a query.
func (n *narrowScope) compile(c *Container) (s exec.Scope, err error) {
	s.Keys = n.keys
	if s.Apart = n.kind == scopeBase; !s.Apart {
		s.Key = n.key
	} else if s.Keys == nil {
		s.Keys, err = n.Scope.keys(c)
	}
	return s, err
}

// String returns the scope for people.
func (n *narrowScope) String() string {
	if n.keys == nil {
		return n.Scope.String()
	}
	const most = 8
	text := fmt.Sprintf("%d keys of %s: ", len(n.keys), n.Scope)
	for i, key := range n.keys[:min(most, len(n.keys))] {
		if i > 0 {
			text += ", "
		}
		text += key.String()
	}
	if len(n.keys) > most {
		text += ", …"
	}
	return text
}
