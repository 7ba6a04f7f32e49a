package jsondoc

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

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

// Compile compiles the 1 to 3 paths of a partition key definition. A path is a
// list of member names, each after a slash, from the root: "/address/city". The
// names are taken literally, so that members with a slash in their name cannot
// be named. No path may be given twice or lead through another.
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
		names, err := split(path)
		if err != nil {
			return nil, fmt.Errorf("partition key path %q: %w", path, err)
		}
		at := int32(0)
		for _, name := range names {
			if slices.Contains(ends, at) {
				return nil, fmt.Errorf("partition key path %q: leads through another path", path)
			}
			at = wanted.follow(at, Step{Name: name})
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

// split returns the member names of a path.
func split(path string) ([]string, error) {
	if !utf8.ValidString(path) {
		return nil, fmt.Errorf("is not valid UTF-8")
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, fmt.Errorf("must begin with a slash")
	}
	names := strings.Split(rest, "/")
	for _, name := range names {
		switch name {
		case "":
			return nil, fmt.Errorf("has an empty name")
		case "?", "*", "[]":
			return nil, fmt.Errorf("%q belongs to index paths; a partition key path names members only", name)
		}
	}
	return names, nil
}
