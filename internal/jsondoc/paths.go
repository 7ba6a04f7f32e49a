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
	nodes []node   // nodes[0] is the root object
	keys  int      // number of paths
	text  []string // the paths as given
}

// node is an object on the way to a wanted member.
type node struct{ wants []want }

// want is a member that a scan looks for in an object.
type want struct {
	hash  uint64 // hashName(name)
	name  []byte
	slots uint8 // bit set of slots that take the member's value
	child int32 // node of the member's value if that is an object, or offPath
}

// Slots of a scan's findings: one per key path, then id and ttl.
const (
	slotID  = partmap.MaxLevels
	slotTTL = partmap.MaxLevels + 1
	slots   = partmap.MaxLevels + 2
)

// offPath is the node of objects in which nothing is wanted.
const offPath = -1

// Compile compiles the 1 to 3 paths of a partition key definition. A path is a
// list of member names, each after a slash, from the root: "/address/city". The
// names are taken literally, so that members with a slash in their name cannot
// be named. No path may be given twice or lead through another.
func Compile(paths []string) (*Paths, error) {
	if len(paths) == 0 || len(paths) > partmap.MaxLevels {
		return nil, fmt.Errorf("%d partition key paths: there must be 1 to %d", len(paths), partmap.MaxLevels)
	}
	p := &Paths{nodes: make([]node, 1), keys: len(paths), text: slices.Clone(paths)}
	p.nodes[0].want("id").slots |= 1 << slotID
	p.nodes[0].want("ttl").slots |= 1 << slotTTL
	const keySlots = 1<<slotID - 1
	for i, path := range paths {
		names, err := split(path)
		if err != nil {
			return nil, fmt.Errorf("partition key path %q: %w", path, err)
		}
		at := int32(0)
		for _, name := range names[:len(names)-1] {
			w := p.nodes[at].want(name)
			if w.slots&keySlots != 0 {
				return nil, fmt.Errorf("partition key path %q: leads through another path", path)
			}
			if w.child == offPath {
				w.child = int32(len(p.nodes))
				p.nodes = append(p.nodes, node{})
				at = int32(len(p.nodes)) - 1
				continue
			}
			at = w.child
		}
		w := p.nodes[at].want(names[len(names)-1])
		if w.slots&keySlots != 0 {
			return nil, fmt.Errorf("partition key path %q: given twice", path)
		}
		if w.child != offPath {
			return nil, fmt.Errorf("partition key path %q: another path leads through it", path)
		}
		w.slots |= 1 << i
	}
	return p, nil
}

// want returns the node's entry for name, a new one if there is none.
func (n *node) want(name string) *want {
	for i := range n.wants {
		if string(n.wants[i].name) == name {
			return &n.wants[i]
		}
	}
	n.wants = append(n.wants, want{hash: hashName([]byte(name)), name: []byte(name), child: offPath})
	return &n.wants[len(n.wants)-1]
}

// find returns the node's entry for the name with this hash, nil if there is none.
func (n *node) find(hash uint64, name []byte) *want {
	for i := range n.wants {
		if w := &n.wants[i]; w.hash == hash && string(w.name) == string(name) {
			return w
		}
	}
	return nil
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
