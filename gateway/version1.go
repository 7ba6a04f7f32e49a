package gateway

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// readRange is parseRange for a range as clients have it: see boundary.
func (k *container) readRange(lo, hi string) (r partmap.Range, err error) {
	if k.record.Definition.PartitionKey.Version != 1 {
		return parseRange(lo, hi)
	}
	if r.Min, err = readVersion1(lo); err == nil {
		r.Max, err = readVersion1(cmp.Or(hi, "FF"))
	}
	return r, err
}

// readVersion1 reads an EPK of version 1. Keys that have the same hash and begin alike have one
// place in the store, so a boundary between them is refused.
func readVersion1(text string) (e partmap.EPK, err error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return e, fmt.Errorf("%q: %w", clip(text), err)
	}
	e, exact, err := partmap.FromVersion1(b)
	if err == nil && !exact {
		err = fmt.Errorf("%q lies between keys that the store does not part", clip(text))
	}
	return e, err
}

// boundary returns a boundary of a physical partition, which the store gives, as clients compute
// the places of keys: in a container of version 1 otherwise than the store.
func (k *container) boundary(at string) string {
	if k.record.Definition.PartitionKey.Version != 1 {
		return at
	}
	e, err := partmap.ParseEPK(at)
	if err != nil {
		return at
	}
	return strings.ToUpper(hex.EncodeToString(e.Version1()))
}

// own returns a key as the container has it.
func (k *container) own(key engine.PartitionKey) engine.PartitionKey {
	if key.Len() != 1 {
		return key
	}
	return key.OfVersion(k.record.Definition.PartitionKey.Version)
}
