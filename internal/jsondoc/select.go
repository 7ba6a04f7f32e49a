package jsondoc

// Selector finds the values to which paths lead, in one pass over a document
// that goes no further than the last of them. It is immutable and may be
// shared.
type Selector struct{ places places }

// NewSelector returns a selector for paths, whose slots are their indexes. No
// path may be given twice or be empty.
func NewSelector(paths []Path) *Selector {
	wanted := newPlaces()
	for slot, p := range paths {
		at := int32(0)
		for _, step := range p {
			at = wanted.follow(at, step)
		}
		wanted[at].slot = int32(slot)
	}
	return &Selector{wanted}
}

// Select calls visit for each value that a path leads to, with the slot of the
// path; values inside of another come before it. The document is one that a
// Scan has accepted; of anything else some of what it holds is visited, as it
// may be. Nothing is allocated unless a name has escapes.
func (s *Selector) Select(doc []byte, visit func(slot int, v Value)) {
	x := selection{doc: doc, places: s.places, visit: visit}
	if kind, _, _, end := next(doc, 0); kind == KindObject {
		x.object(end, &s.places[0], true)
	}
}

// selection is a Select under way.
type selection struct {
	doc    []byte
	places places
	visit  func(slot int, v Value)
}

// value visits what is wanted of the value from i on, and returns the offset behind
// it. Where none is, ok is false.
func (s *selection) value(i int, p *place) (end int, ok bool) {
	kind, escaped, start, end := next(s.doc, i)
	switch {
	case kind == KindUndefined:
		return end, false
	case kind == KindObject && len(p.members) > 0:
		end = s.object(end, p, false)
	case kind == KindArray && p.elements != offPath:
		element := &s.places[p.elements]
		for ok = true; ok; {
			end, ok = s.value(end, element)
		}
	case kind >= KindArray:
		end = skipContainer(s.doc, end)
	}
	if p.slot >= 0 {
		s.visit(int(p.slot), Value{kind, escaped, s.doc[start:end:end]})
	}
	return end, true
}

// object visits what is wanted of the members from i on, and returns the offset
// behind their object; of the root that behind the last wanted value.
func (s *selection) object(i int, p *place, root bool) int {
	for left := len(p.members); left > 0; {
		kind, escaped, start, end := next(s.doc, i)
		if kind != KindString {
			return end
		}
		name := s.doc[start+1 : end-1]
		if escaped {
			name = unescape(nil, name)
		}
		if child := p.member(name); child != offPath {
			i, _ = s.value(end, &s.places[child])
			left--
			continue
		}
		if kind, _, _, i = next(s.doc, end); kind >= KindArray {
			i = skipContainer(s.doc, i)
		}
	}
	if root {
		return i
	}
	return skipContainer(s.doc, i)
}
