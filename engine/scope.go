package engine

import "github.com/cleavestore/cleave/internal/keyscope"

// Scope says where a query looks. The zero Scope is invalid.
type Scope struct{ of keyscope.Scope }

// OnePartition is one logical partition.
func OnePartition(pk PartitionKey) Scope { return Scope{keyscope.Scope{Kind: keyscope.One, Key: pk}} }

// PrefixOf is all logical partitions whose keys begin with these levels.
func PrefixOf(key PartitionKey) Scope { return Scope{keyscope.Scope{Kind: keyscope.Prefix, Key: key}} }

// OfBase is all logical partitions of a base value, in a container with a
// SyntheticKey: one for each suffix. The values are those of its Join.
func OfBase(values ...PartitionKey) Scope {
	return Scope{keyscope.Scope{Kind: keyscope.Base, Key: JoinKeys(values...)}}
}

// OfRange is all logical partitions whose effective partition keys lie from min up to, and
// without, max: hexadecimal digits, as PartitionStats gives them. An empty max is the end
// of the key space. A continuation of a query in one range is good for any other. A query
// in a range goes on where splits and merges have put the keys.
func OfRange(min, max string) (Scope, error) { return AllPartitions().Between(min, max) }

// Between is what of OnePartition, PrefixOf, OfRange or AllPartitions lies in a range that is given as for OfRange.
func (s Scope) Between(min, max string) (Scope, error) {
	of, err := s.of.Between(min, max)
	if err != nil {
		return Scope{}, invalidf("scope: %v", err)
	}
	return Scope{of}, nil
}

// AllPartitions is the whole container.
func AllPartitions() Scope { return Scope{keyscope.Scope{Kind: keyscope.All}} }

// String returns the scope for people.
func (s Scope) String() string { return s.of.String() }

// check validates the scope. A prefix of all levels, or a base value of one key, is
// returned as one logical partition.
func (s Scope) check(c *Container) (keyscope.Scope, error) {
	of, err := s.of.Check(&c.keys)
	if err != nil {
		return of, invalidf("container %q: scope: %v", c.name, err)
	}
	if of.Kind == keyscope.One {
		err = c.checkPartitionKey(of.Key)
	}
	return of, err
}
