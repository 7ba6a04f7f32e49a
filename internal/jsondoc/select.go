package jsondoc

import "encoding/binary"

// Selector finds the values to which paths lead, in one pass over a document
// that goes no further than the last of them. It is immutable and may be
// shared.
type Selector struct {
	places []place // places[0] is the root
}

// place is where a path, or the beginning of one, leads.
type place struct {
	slot     int32 // of the path that ends here; -1: none
	members  []branch
	elements int32 // place of the elements of an array here; -1: not wanted
}

type branch struct {
	name  string
	place int32
}

// NewSelector returns a selector for paths, whose slots are their indexes. No
// path may be given twice or be empty.
func NewSelector(paths []Path) *Selector {
	s := &Selector{places: []place{{slot: -1, elements: -1}}}
	for slot, p := range paths {
		at := int32(0)
		for _, step := range p {
			at = s.follow(at, step)
		}
		s.places[at].slot = int32(slot)
	}
	return s
}

// follow returns the place one step on, a new one if there is none.
func (s *Selector) follow(at int32, step Step) int32 {
	next := int32(len(s.places))
	if step.Element {
		if e := s.places[at].elements; e >= 0 {
			return e
		}
		s.places[at].elements = next
	} else {
		for _, b := range s.places[at].members {
			if b.name == step.Name {
				return b.place
			}
		}
		s.places[at].members = append(s.places[at].members, branch{step.Name, next})
	}
	s.places = append(s.places, place{slot: -1, elements: -1})
	return next
}

// Select calls visit for each value that a path leads to, with the slot of the
// path; values inside of another come before it. The document is one that a
// Scan has accepted; of anything else some of what it holds is visited, as it
// may be. Nothing is allocated unless a name has escapes.
func (s *Selector) Select(doc []byte, visit func(slot int, v Value)) {
	w := selection{doc: doc, places: s.places, visit: visit}
	i := skipSpace(doc, 0)
	if i < len(doc) && doc[i] == '{' {
		w.object(i+1, &s.places[0], true)
	}
}

// selection is a Select under way.
type selection struct {
	doc    []byte
	places []place
	visit  func(slot int, v Value)
}

// value goes through the value at i and returns the offset after it.
func (w *selection) value(i int, p *place) int {
	doc := w.doc
	if i >= len(doc) {
		return i
	}
	v := Value{}
	end := i
	switch c := doc[i]; c {
	case '"':
		v.Kind = KindString
		end, v.Escaped = skipString(doc, i+1)
	case '{':
		v.Kind = KindObject
		if len(p.members) > 0 {
			end = w.object(i+1, p, false)
		} else {
			end = skipContainer(doc, i+1)
		}
	case '[':
		v.Kind = KindArray
		if p.elements >= 0 {
			end = w.array(i+1, p)
		} else {
			end = skipContainer(doc, i+1)
		}
	default:
		switch {
		case c == 'n':
			v.Kind = KindNull
		case c == 't' || c == 'f':
			v.Kind = KindBool
		case c-'0' < 10 || c == '-':
			v.Kind = KindNumber
		}
		for end = i; end < len(doc) && !endsLiteral(doc[end]); end++ {
		}
	}
	if p.slot >= 0 && v.Kind != KindUndefined && (v.Kind != KindString || end-i >= 2) {
		v.Text = doc[i:end:end]
		w.visit(int(p.slot), v)
	}
	return end
}

// object goes through the members from i on and returns the offset after the
// closing brace; of the root only as far as something is wanted.
func (w *selection) object(i int, p *place, root bool) int {
	doc := w.doc
	for left := len(p.members); ; i++ {
		if i >= len(doc) || doc[i] <= ' ' {
			i = skipSpace(doc, i)
		}
		if i >= len(doc) || doc[i] != '"' {
			return min(i+1, len(doc)) // a closing brace
		}
		start := i + 1
		end, escaped := skipString(doc, start)
		child := int32(-1)
		if end-1 >= start {
			name := doc[start : end-1]
			if escaped {
				name = unescapeAny(name)
			}
			for k := range p.members {
				if p.members[k].name == string(name) {
					child = p.members[k].place
					break
				}
			}
		}
		if i = end; i >= len(doc) || doc[i] <= ' ' {
			i = skipSpace(doc, i)
		}
		if i++; i >= len(doc) || doc[i] <= ' ' { // past the colon
			i = skipSpace(doc, i)
		}
		if child < 0 {
			i = skipValue(doc, i)
		} else {
			i = w.value(i, &w.places[child])
			if left--; left == 0 {
				if root {
					return i
				}
				return skipContainer(doc, i)
			}
		}
		if i >= len(doc) || doc[i] <= ' ' {
			i = skipSpace(doc, i)
		}
		if i >= len(doc) || doc[i] != ',' {
			return min(i+1, len(doc))
		}
	}
}

// array goes through the elements from i on and returns the offset after the
// closing bracket.
func (w *selection) array(i int, p *place) int {
	doc := w.doc
	for element := &w.places[p.elements]; ; i++ {
		if i = skipSpace(doc, i); i >= len(doc) || doc[i] == ']' {
			return min(i+1, len(doc))
		}
		i = skipSpace(doc, w.value(i, element))
		if i >= len(doc) || doc[i] != ',' {
			return min(i+1, len(doc))
		}
	}
}

// skipValue returns the offset after the value at i.
func skipValue(doc []byte, i int) int {
	if i >= len(doc) {
		return len(doc)
	}
	switch doc[i] {
	case '"':
		end, _ := skipString(doc, i+1)
		return end
	case '{', '[':
		return skipContainer(doc, i+1)
	}
	for i < len(doc) && !endsLiteral(doc[i]) {
		i++
	}
	return i
}

// skipString returns the offset after the closing quote of the string that i is
// in, and whether it has escapes. Without a quote that is the end.
func skipString(doc []byte, i int) (end int, escaped bool) {
	for {
		var w uint64
		if i > len(doc)-8 {
			for ; i < len(doc); i++ {
				switch doc[i] {
				case '"':
					return i + 1, escaped
				case '\\':
					escaped = true
					i++
				}
			}
			return len(doc), escaped
		}
		w = binary.LittleEndian.Uint64(doc[i:])
		quotes, slashes := w^'"'*ones, w^'\\'*ones
		m := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs
		if m == 0 {
			i += 8
			continue
		}
		if i += firstByte(m); doc[i] == '"' {
			return i + 1, escaped
		}
		escaped = true
		i += 2
	}
}

// skipContainer returns the offset after the bracket that closes the object or
// array that i is in.
func skipContainer(doc []byte, i int) int {
	for depth := 1; i < len(doc); {
		if i <= len(doc)-8 {
			// Braces and brackets differ in bit 5 only, opening from closing ones
			// in bits 1 and 2.
			w := binary.LittleEndian.Uint64(doc[i:])
			quotes, folded := w^'"'*ones, w|0x20*ones
			opens, closes := folded^'{'*ones, folded^'}'*ones
			m := ((quotes-ones)&^quotes | (opens-ones)&^opens | (closes-ones)&^closes) & highs
			if m == 0 {
				i += 8
				continue
			}
			i += firstByte(m)
		}
		switch doc[i] {
		case '"':
			i, _ = skipString(doc, i+1)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(doc)
}

// unescapeAny is unescape for a name that no Scan need have seen.
func unescapeAny(name []byte) []byte {
	quoted := append(append(make([]byte, 0, len(name)+1), name...), '"')
	if end, _, f := restOfString(quoted, 0); f != nil || end != len(name) {
		return name
	}
	return unescape(nil, name)
}
