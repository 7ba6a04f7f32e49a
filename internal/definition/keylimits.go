package definition

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/keylimits"
	"github.com/cleavestore/cleave/internal/manifest"
)

// CheckKeyLimit returns an error if a logical partition cannot have this limit. A throughput
// below 0 stands for none.
func CheckKeyLimit(l keylimits.Limit) error {
	if !(l.Throughput < 0) {
		if err := CheckKeyRate(l.Throughput); err != nil {
			return err
		}
	}
	if l.Bytes < 0 || l.Bytes > MaxLogicalBytes {
		return fmt.Errorf("limit of %d bytes of a logical partition", l.Bytes)
	}
	return nil
}

// SetDefaultKeyLimit changes the limit of the logical partitions that have none of their
// own. 0 bytes are the default.
func SetDefaultKeyLimit(m *manifest.Container, l keylimits.Limit) {
	m.MaxLogicalThroughput, m.MaxLogicalKey = max(l.Throughput, 0), l.Bytes
	if l.Bytes == 0 {
		m.MaxLogicalKey = DefaultLogicalBytes
	}
}

// SetKeyLimit gives a logical partition a limit of its own, in which 0 stands for the
// default, and a throughput below 0 for none. The zero limit takes it away. The list of m is
// replaced, not changed.
func SetKeyLimit(m *manifest.Container, pk []byte, l keylimits.Limit) {
	i, found := slices.BinarySearchFunc(m.KeyLimits, pk, func(k manifest.KeyLimit, pk []byte) int { return bytes.Compare(k.Key, pk) })
	m.KeyLimits = slices.Clone(m.KeyLimits)
	if found {
		m.KeyLimits = slices.Delete(m.KeyLimits, i, i+1)
	}
	if l.Throughput < 0 {
		l.Throughput = -1
	}
	if l != (keylimits.Limit{}) {
		m.KeyLimits = slices.Insert(m.KeyLimits, i, manifest.KeyLimit{Key: bytes.Clone(pk), Throughput: l.Throughput, Bytes: l.Bytes})
	}
}

// TakeKeyLimits gives the logical partitions of a container the limits that they have in
// another one.
func TakeKeyLimits(m, from *manifest.Container) {
	m.MaxLogicalThroughput, m.MaxLogicalKey = from.MaxLogicalThroughput, from.MaxLogicalKey
	m.KeyLimits = slices.Clone(from.KeyLimits)
}

// KeyRules returns the limits of logical partitions that a manifest has.
func KeyRules(m *manifest.Container) keylimits.Rules {
	r := keylimits.Rules{
		Default: keylimits.Limit{Throughput: m.MaxLogicalThroughput, Bytes: m.MaxLogicalKey}, Keys: make(map[string]keylimits.Limit, len(m.KeyLimits)),
	}
	for _, k := range m.KeyLimits {
		l := r.Default
		if k.Throughput != 0 {
			l.Throughput = max(k.Throughput, 0)
		}
		if k.Bytes != 0 {
			l.Bytes = k.Bytes
		}
		r.Keys[string(k.Key)] = l
	}
	return r
}
