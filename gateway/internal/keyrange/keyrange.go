// Package keyrange reads and shows ranges of the key space as clients of the protocol compute
// the places of partition keys: by version 1 or 2 of the hash, which the definition of the
// container names. The store has places of its own for keys of version 1. Their order is the
// same, so a boundary has one form here and one there.
//
// The functions keep nothing and may be called from many goroutines.
package keyrange

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/partmap"
)

// Parse reads a range in hexadecimal digits. An empty end is the end of the key space. Keys of
// version 1 that have the same hash and begin alike have one place in the store, so a boundary
// between them is refused.
func Parse(version int, lo, hi string) (r partmap.Range, err error) {
	read := partmap.ParseEPK
	if version == 1 {
		read = parse1
	}
	if r.Min, err = read(lo); err == nil {
		r.Max, err = read(cmp.Or(hi, "FF"))
	}
	return r, err
}

func parse1(text string) (e partmap.EPK, err error) {
	if len(text) > 512 {
		return e, fmt.Errorf("%d digits: no place has so many", len(text))
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return e, fmt.Errorf("%q: %w", text, err)
	}
	e, exact, err := partmap.FromVersion1(b)
	if err == nil && !exact {
		err = fmt.Errorf("%q lies between keys that the store does not part", text)
	}
	return e, err
}

// Show returns a boundary of a physical partition, which the store gives, as clients have it.
func Show(version int, boundary string) string {
	if version != 1 {
		return boundary
	}
	e, err := partmap.ParseEPK(boundary)
	if err != nil {
		return boundary
	}
	return strings.ToUpper(hex.EncodeToString(e.Version1()))
}

// Own returns a key as a container has it. One of several levels is returned as it is.
func Own(version int, key partmap.Key) partmap.Key {
	if key.Len() != 1 {
		return key
	}
	return key.OfVersion(version)
}
