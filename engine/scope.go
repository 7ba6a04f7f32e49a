package engine

import (
	"bytes"
	"fmt"

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
	scopeAll
)

// OnePartition is one logical partition.
func OnePartition(pk PartitionKey) Scope { return Scope{scopeOne, pk} }

// PrefixOf is all logical partitions whose keys begin with these levels.
func PrefixOf(key PartitionKey) Scope { return Scope{scopePrefix, key} }

// AllPartitions is the whole container.
func AllPartitions() Scope { return Scope{kind: scopeAll} }

// String returns the scope for people.
func (s Scope) String() string {
	switch s.kind {
	case scopeOne:
		return "partition " + s.key.String()
	case scopePrefix:
		return "prefix " + s.key.String()
	case scopeAll:
		return "all partitions"
	}
	return "no scope"
}

// check returns the scope with a prefix of all levels as one partition.
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
	case scopeAll:
		return s, nil
	}
	return s, invalidf("the query has no scope: OnePartition, PrefixOf or AllPartitions")
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
	for _, text := range c.def.PartitionKey {
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
	if err != nil || s.kind == scopePrefix && !bytes.HasPrefix(key.Encoded(), s.key.Encoded()) {
		return s
	}
	if len(levels) == c.levels() {
		return OnePartition(key)
	}
	return PrefixOf(key)
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
