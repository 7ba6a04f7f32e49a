package jsondoc

// places are the places in documents to which paths lead, or through which they
// lead. The first is the root.
type places []place

// place is a place in documents.
type place struct {
	slot     int32 // of the path that ends here; -1: none does
	members  []branch
	byName   map[string]int32 // of members, if there are many
	elements int32            // place of the elements of an array here; offPath: not wanted
}

// branch is a member of an object that paths lead through.
type branch struct {
	name  string
	hash  uint64 // hashName(name)
	place int32
}

// manyMembers is from how many members on it is faster to look a name up than to compare it with all.
const manyMembers = 32

// offPath stands for a place to which no path leads.
const offPath = -1

var emptyPlace = place{slot: -1, elements: offPath}

func newPlaces() places { return places{emptyPlace} }

// follow returns the place one step on, a new one if there is none.
func (s *places) follow(at int32, step Step) int32 {
	p, next := &(*s)[at], int32(len(*s))
	if step.Element {
		if p.elements != offPath {
			return p.elements
		}
		p.elements = next
	} else {
		if known := p.member([]byte(step.Name)); known != offPath {
			return known
		}
		p.add(branch{step.Name, hashName([]byte(step.Name)), next})
	}
	*s = append(*s, emptyPlace)
	return next
}

// add adds a member.
func (p *place) add(b branch) {
	if p.members = append(p.members, b); len(p.members) == manyMembers {
		p.byName = make(map[string]int32)
		for _, m := range p.members {
			p.byName[m.name] = m.place
		}
	} else if p.byName != nil {
		p.byName[b.name] = b.place
	}
}

// member returns the place of a member.
func (p *place) member(name []byte) int32 {
	if p.byName != nil {
		if at, ok := p.byName[string(name)]; ok {
			return at
		}
		return offPath
	}
	for i := range p.members {
		if b := &p.members[i]; b.name == string(name) {
			return b.place
		}
	}
	return offPath
}

// hashedMember is member for a name whose hash is known.
func (p *place) hashedMember(name []byte, hash uint64) int32 {
	for i := range p.members {
		if b := &p.members[i]; b.hash == hash && b.name == string(name) {
			return b.place
		}
	}
	return offPath
}
