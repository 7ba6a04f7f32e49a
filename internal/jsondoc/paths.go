package jsondoc

import (
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/partmap"
)

// Paths is a compiled list of partition key paths. It is immutable and may be
// shared by scanners.
type Paths struct {
	places places
	slots  []int32  // of the paths
	text   []string // the paths as given
}

// Slots of what a scan finds: id, ttl, then the key paths that are neither.
const (
	slotID = iota
	slotTTL
	slotKey
	slots = slotKey + partmap.MaxLevels
)

// Compile compiles the 1 to 3 paths of a partition key definition, each as
// ParsePath takes it, without []. No path may be given twice or lead through another.
func Compile(paths []string) (*Paths, error) {
	if len(paths) == 0 || len(paths) > partmap.MaxLevels {
		return nil, fmt.Errorf("%d partition key paths: there must be 1 to %d", len(paths), partmap.MaxLevels)
	}
	wanted := newPlaces()
	wanted[wanted.follow(0, Step{Name: "id"})].slot = slotID
	wanted[wanted.follow(0, Step{Name: "ttl"})].slot = slotTTL
	p := &Paths{text: slices.Clone(paths)}
	var ends []int32 // places of the paths
	for i, path := range paths {
		steps, err := parseKeyPath(path)
		if err != nil {
			return nil, err
		}
		at := int32(0)
		for _, step := range steps {
			if slices.Contains(ends, at) {
				return nil, fmt.Errorf("partition key path %q: leads through another path", path)
			}
			at = wanted.follow(at, step)
		}
		if slices.Contains(ends, at) {
			return nil, fmt.Errorf("partition key path %q: given twice", path)
		}
		if len(wanted[at].members) > 0 {
			return nil, fmt.Errorf("partition key path %q: another path leads through it", path)
		}
		if wanted[at].slot < 0 {
			wanted[at].slot = slotKey + int32(i)
		}
		ends, p.slots = append(ends, at), append(p.slots, wanted[at].slot)
	}
	p.places = wanted
	return p, nil
}
