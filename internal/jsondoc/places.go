package jsondoc

// places are the places in documents to which paths lead, or through which they
// lead. The first is the root.
type places []place

// place is a place in documents.
type place struct {
	slot     int32 // of the path that ends here; -1: none does
	members  []branch
	elements int32 // place of the elements of an array here; offPath: not wanted
}

// branch is a member of an object that paths lead through.
type branch struct {
	name  string
	hash  uint64 // hashName(name)
	place int32
}

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
		p.members = append(p.members, branch{step.Name, hashName([]byte(step.Name)), next})
	}
	*s = append(*s, emptyPlace)
	return next
}

// member returns the place of a member.
func (p *place) member(name []byte) int32 {
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
