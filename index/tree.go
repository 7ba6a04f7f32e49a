package index

import "github.com/cleavestore/cleave/internal/jsondoc"

// pathTree holds the paths of the documents that a builder has seen. Documents
// of one kind have their members in one order: each place remembers what
// followed it the last time, so that most names are compared once.
type pathTree struct {
	nodes []pathNode
	bytes int64 // about what they take
}

type pathNode struct {
	name       string // of the member; of an element nothing
	written    string // the name as a document has it, with quotes and a colon; empty: it has escapes
	steps      string // encoded path
	scope      scope
	scalars    bool // are indexed here
	containers bool
	dead       bool  // nothing is indexed here or below
	slot       int32 // 1 + that of the value for composite indexes; 0: it is in none
	members    map[string]int32
	element    int32     // 0: none yet
	first      int32     // member that came first the last time; 0: none
	following  int32     // member that came behind this one the last time; 0: none
	terms      int32     // that the builder holds
	fixed      [5]uint32 // indexes + 1 of the terms null, false, true, array, object; 0: none yet
}

// Places in pathNode.fixed.
const (
	fixedNull = iota
	fixedFalse
	fixedTrue
	fixedArray
	fixedObject
)

const pathNodeBytes = 256

func newPathTree(c *Compiled) pathTree {
	t := pathTree{}
	t.add("", "", scope{c.root, c.root.below})
	t.nodes[0].scalars, t.nodes[0].containers = false, false
	for _, x := range c.composites { // no document has a path to these nodes
		t.nodes = append(t.nodes, pathNode{steps: x.steps(), dead: true})
		t.bytes += pathNodeBytes
	}
	return t
}

func (t *pathTree) add(name, steps string, s scope) int32 {
	n := pathNode{name: name, written: jsondoc.WrittenName(name), steps: steps, scope: s}
	short := len(steps) <= maxPath
	n.scalars, n.containers = short && s.scalars(), short && s.containers()
	n.dead = !short || s.dead()
	if s.rule != nil {
		n.slot = s.rule.slot
	}
	t.nodes = append(t.nodes, n)
	t.bytes += pathNodeBytes + 2*int64(len(steps)) + int64(len(name))
	return int32(len(t.nodes) - 1)
}

// elementOf returns the node of the elements of a node.
func (t *pathTree) elementOf(at int32) int32 {
	n := &t.nodes[at]
	if n.element == 0 {
		child := t.add("", n.steps+string(rune(pathElement)), n.scope.element())
		t.nodes[at].element = child
		return child
	}
	return n.element
}

// likelyAfter returns the node of the member of a node that followed on one the last time: on
// before, or on none if that is 0. 0: none did.
func (t *pathTree) likelyAfter(at, before int32) int32 {
	if before != 0 {
		return t.nodes[before].following
	}
	return t.nodes[at].first
}

// memberOf returns the node of a member of a node. before is the node of the
// member before it, 0 if it is the first.
func (t *pathTree) memberOf(at, before int32, name []byte) int32 {
	guess := &t.nodes[at].first
	if before != 0 {
		guess = &t.nodes[before].following
	}
	if g := *guess; g != 0 && t.nodes[g].name == string(name) {
		return g
	}
	n := &t.nodes[at]
	child, ok := n.members[string(name)]
	if !ok {
		if n.members == nil {
			n.members = make(map[string]int32)
		}
		own := string(name)
		child = int32(len(t.nodes))
		n.members[own] = child
		t.add(own, n.steps+string(appendMember(nil, name)), n.scope.member(name))
		if before != 0 {
			t.nodes[before].following = child
		} else {
			t.nodes[at].first = child
		}
		return child
	}
	*guess = child
	return child
}
