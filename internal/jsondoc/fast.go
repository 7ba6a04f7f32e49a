package jsondoc

import (
	"bytes"
	"unsafe"

	"github.com/cleavestore/cleave/internal/quotes"
)

// shortest is the length in bytes from which on a document is scanned with a
// Finder: finding the strings of a shorter one takes longer than it saves.
const shortest = 256

// scanFast is scan with the strings found by vector instructions. It returns
// false where it has found a flaw: then scan says which. It accepts what scan
// accepts, and finds what scan finds.
//
// It looks at every byte outside of strings, so it meets every quote that is one,
// each at the next of the offsets that the Finder has.
func (s *Scanner) scanFast(doc []byte, wanted places, maxDepth int) bool {
	if s.finder == nil {
		s.finder = new(quotes.Finder)
	}
	f := s.finder
	n, ok := 0, f.Start(doc)
	if ok {
		n, ok = s.scanStrings(f, doc, maxDepth)
	}
	f.Release()
	if ok {
		s.seekRoot(doc, wanted, n)
	}
	return ok
}

// state is what comes next in a document, at progress.i.
type state int

const (
	atMember state = iota // a name, after white space
	atValue               // a value, after white space
	atDone                // what follows on a value, after white space
	atObject              // a name or a closing brace, after white space
	atArray               // a value or a closing bracket, after white space
	atClose               // the closing brace or bracket of the current container
	atFlaw                // the document may have to be refused
)

// progress is how far a scan has come.
type progress struct {
	i     int // offset in the document
	q     int // the next string is Finder.Pairs[q:q+2]
	n     int // names of the open objects are Scanner.names[:n]
	depth int // the current container is Scanner.frames[depth]
}

// spareBytes is how many bytes behind where it begins a token usual may
// read.
const spareBytes = 20

// scanStrings is scanFast once the Finder has begun. It returns the number of
// members of the root. Its states are those of scan. Usual goes through what is
// usual; here is one step through all else.
func (s *Scanner) scanStrings(f *quotes.Finder, doc []byte, maxDepth int) (members int, ok bool) {
	if len(s.names) == 0 {
		s.names = make([]name, 64)
	}
	s.open(0, 0, offPath, false)
	var p progress
	i := skipSpace(doc, 0)
	if i == len(doc) || doc[i] != '{' {
		return 0, false
	}
	i++
	next := atObject
	for {
		p.i = i
		next = s.usual(&p, next, f, doc, maxDepth)
		i = p.i
		if next != atFlaw && next != atClose {
			if i >= len(doc) || doc[i] <= ' ' {
				i = skipSpace(doc, i)
			}
			if i == len(doc) {
				return 0, false
			}
		}
		switch next {
		case atObject, atMember:
			if doc[i] == '}' && next == atObject {
				next = atClose
				continue
			}
			end, found := p.string(f, doc, i)
			if !found || !s.member(&p, doc, i+1, end, f.Escapes) {
				return 0, false
			}
			if i = skipSpace(doc, end+1); i == len(doc) || doc[i] != ':' {
				return 0, false
			}
			i++
			next = atValue

		case atArray, atValue:
			c := doc[i]
			switch {
			case c == '"':
				end, found := p.string(f, doc, i)
				if !found {
					return 0, false
				}
				i = end + 1
				next = atDone
			case c == '{' || c == '[':
				if p.depth+1 >= maxDepth {
					return 0, false
				}
				p.depth++
				s.open(p.depth, p.n, offPath, c == '[')
				i++
				if next = atObject; c == '[' {
					next = atArray
				}
			case c == ']' && next == atArray:
				next = atClose
			default:
				var flawed *flaw
				if c-'0' < 10 || c == '-' {
					i, flawed = number(doc, i)
				} else {
					i, flawed = literal(doc, i)
				}
				if flawed != nil {
					return 0, false
				}
				next = atDone
			}

		case atDone:
			array, c := s.frames[p.depth].array, doc[i]
			switch {
			case c == ',' && array:
				i++
				next = atValue
			case c == ',':
				i++
				next = atMember
			case array && c == ']' || !array && c == '}':
				next = atClose
			default:
				return 0, false
			}

		case atClose:
			i++
			cur := &s.frames[p.depth]
			if p.depth == 0 {
				return p.n, skipSpace(doc, i) == len(doc)
			}
			p.n = cur.first
			if cur.table < len(s.table) {
				s.table = s.table[:cur.table]
			}
			p.depth--
			next = atDone

		default:
			return 0, false
		}
	}
}

// usual goes through what is usual, and returns what comes next.
func (s *Scanner) usual(p *progress, next state, f *quotes.Finder, doc []byte, maxDepth int) state {
	if !hasUsual || p.i > len(doc)-spareBytes {
		return next
	}
	deepest := min(maxDepth, len(s.frames)) - 1
	return usual(p, next, unsafe.SliceData(doc), len(doc)-spareBytes, &f.Pairs[0], &s.names[0], len(s.names), &s.frames[0], deepest, len(s.table), f.Escapes)
}

// string returns the end of the string that must begin at i: the offset of its closing
// quote.
func (p *progress) string(f *quotes.Finder, doc []byte, i int) (end int, ok bool) {
	if doc[i] != '"' {
		return 0, false
	}
	if int(f.Pairs[p.q]) != i {
		if !f.Turn(p.q, i) {
			return 0, false
		}
		p.q = 0
	}
	end = int(f.Pairs[p.q+1])
	p.q += 2
	return end, true
}

// member adds the name doc[start:end] to those of the current object. It returns false
// if the object has it already.
func (s *Scanner) member(p *progress, doc []byte, start, end int, escapes bool) bool {
	if p.n == len(s.names) {
		s.names = append(s.names, make([]name, p.n)...)
	}
	last := p.n
	if escapes && bytes.IndexByte(doc[start:end], '\\') >= 0 {
		s.names[last] = s.unusualName(doc, start, end, true)
	} else {
		h, at := hashSeed, start
		for ; end-at >= 8; at += 8 {
			h = mix(h, loadFast(doc, at))
		}
		s.names[last] = name{mixLast(h, load(doc, at), end-at), int32(start), int32(end - start)}
	}
	p.n++
	cur := &s.frames[p.depth]
	if p.n-cur.first > smallObject {
		return !s.inLarge(doc, cur.table, cur.first, last)
	}
	bit := uint64(1) << (s.names[last].hash >> 58)
	known := cur.seen&bit != 0 && s.inSmall(doc, cur.first, last)
	cur.seen |= bit
	return !known
}

// seekRoot notes the findings of a document that has been accepted, the names of whose
// root are s.names[:n].
func (s *Scanner) seekRoot(doc []byte, wanted places, n int) {
	root := &wanted[0]
	for i := range s.names[:n] {
		member := &s.names[i]
		for k := range root.members {
			b := &root.members[k]
			if b.hash != member.hash || b.name != string(s.nameBytes(doc, member)) {
				continue
			}
			if member.offset < 0 {
				// Of a name with escapes only the text is known, not where it is.
				s.seek(doc, skipSpace(doc, 0)+1, wanted, root)
				return
			}
			s.seekValue(doc, int(member.offset+member.length)+1, wanted, b.place)
		}
	}
}

// seek notes the findings among the members of an object, which are at i.
func (s *Scanner) seek(doc []byte, i int, wanted places, p *place) {
	for left := len(p.members); left > 0; {
		kind, escaped, start, end := next(doc, i)
		if kind != KindString {
			return
		}
		text := doc[start+1 : end-1]
		if escaped {
			at := len(s.text)
			s.text = unescape(s.text, text)
			text = s.text[at:]
		}
		if child := p.member(text); child != offPath {
			s.seekValue(doc, end, wanted, child)
			left--
		}
		if kind, _, _, i = next(doc, end); kind >= KindArray {
			i = skipContainer(doc, i)
		}
	}
}

// seekValue notes a value, which is behind i and a colon, and the findings inside of it.
func (s *Scanner) seekValue(doc []byte, i int, wanted places, at int32) {
	kind, escaped, start, end := next(doc, i)
	c := doc[start]
	if escaped {
		c = '\\'
	}
	p := &wanted[at]
	s.find(p.slot, c, start, end)
	if kind == KindObject {
		s.seek(doc, end, wanted, p)
	}
}
