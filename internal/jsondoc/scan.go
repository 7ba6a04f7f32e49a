package jsondoc

import (
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/quotes"
)

// Scanner scans documents. The zero value is ready. It holds scratch that is
// used again, so it must not be used concurrently.
type Scanner struct {
	frames []frame // the open containers, the root first
	names  []name  // member names of the open objects
	table  []uint32
	text   []byte // unescaped names, and key strings at the end
	found  [slots]finding
	work   int            // comparisons of names, for the test of invariant 2
	finder *quotes.Finder // nil until a document is long enough for it
}

// frame is an open object or array.
type frame struct {
	seen  uint64 // object: filter of its names' hashes; array: elements before this one
	first int    // names before its own, in Scanner.names
	table int    // where its hash table begins, in Scanner.table
	place int32  // object: its place of the paths, or offPath
	array bool
}

// Scan validates doc and fills out. The error is nil or an *Error; then out has
// no values. Neither doc nor paths is kept, but out.ID may alias doc.
func (s *Scanner) Scan(doc []byte, paths *Paths, limits Limits, out *Doc) error {
	return s.read(doc, paths, limits, out, quotes.Available && len(doc) >= shortest)
}

// read is Scan, by vector instructions if fast is true.
func (s *Scanner) read(doc []byte, paths *Paths, limits Limits, out *Doc, fast bool) error {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = DefaultMaxBytes
	}
	if limits.MaxDepth <= 0 {
		limits.MaxDepth = DefaultMaxDepth
	}
	out.reset()
	if limit := min(limits.MaxBytes, math.MaxInt32); len(doc) > limit {
		return &Error{Offset: limit, Kind: ErrTooLarge,
			Msg: strconv.Itoa(len(doc)) + " bytes, limit " + strconv.Itoa(limit)}
	}
	s.found = [slots]finding{}
	if !fast || !s.scanFast(doc, paths.places, limits.MaxDepth) {
		if fast {
			s.table, s.text, s.found = s.table[:0], s.text[:0], [slots]finding{}
		}
		if err := s.scan(doc, paths.places, limits.MaxDepth); err != nil {
			s.trim()
			return err
		}
	}
	err := s.interpret(doc, paths, out)
	s.trim()
	if err != nil {
		out.reset()
		return err
	}
	return nil
}

// trim ends a scan: it forgets what is open and lets go of large scratch.
func (s *Scanner) trim() {
	s.table, s.text = s.table[:0], s.text[:0]
	if len(s.names) > keepNames {
		s.names, s.table = nil, nil
	}
	if cap(s.text) > 16*keepNames {
		s.text = nil
	}
}

// scan goes through the whole document and notes the findings. It is one loop
// over the states between tokens, without recursion. A tokenizer that hands over
// one checked token after the other would take it more than a third of its speed.
// What is not needed for every token is in memory, behind s and cur, to leave the
// registers to the offset, on which everything waits.
func (s *Scanner) scan(doc []byte, wanted places, maxDepth int) error {
	var (
		i, end int
		depth  int    // the current container is s.frames[depth]
		cur    *frame // &s.frames[depth]
		n      int    // names of the open objects are s.names[:n]
		place  int32  // of the coming value, or offPath
		c      byte
		m      uint64
		f      *flaw
	)

	s.open(0, 0, 0, false)
	cur = &s.frames[0]
	if i = skipSpace(doc, 0); i == len(doc) {
		f = flawEnd
		goto refuseContainer
	}
	if doc[i] != '{' {
		return notObject(doc, i)
	}
	i++

objectOpen:
	if i >= len(doc) || doc[i] <= ' ' {
		if i = skipSpace(doc, i); i == len(doc) {
			f = flawEnd
			goto refuseContainer
		}
	}
	if doc[i] == '}' {
		goto closed
	}

memberName:
	if i >= len(doc) || doc[i] <= ' ' {
		if i = skipSpace(doc, i); i == len(doc) {
			f = flawEnd
			goto refuseContainer
		}
	}
	if doc[i] != '"' {
		f = flawName
		goto refuseContainer
	}
	i++
	{
		h, w := hashSeed, uint64(0)
		for end = i; ; end += 8 {
			if end > len(doc)-8 {
				w = loadTail(doc, end)
			} else {
				w = loadFast(doc, end)
			}
			if m = special(w); m != 0 {
				break
			}
			h = mix(h, w)
		}
		k := firstByte(m)
		end += k
		if n == len(s.names) {
			s.names = append(s.names, make([]name, max(64, n))...)
		}
		member := &s.names[n]
		if end < len(doc) && doc[end] == '"' {
			h = mixLast(h, w, k)
			member.hash, member.offset, member.length = h, int32(i), int32(end-i)
		} else {
			var escaped bool
			if end, escaped, f = restOfString(doc, end); f != nil {
				i = end
				goto refuseContainer
			}
			*member = s.unusualName(doc, i, end, escaped)
			h = member.hash
		}
		n++

		if place = cur.place; place >= 0 {
			place = wanted[place].hashedMember(s.nameBytes(doc, member), h)
		}
		known := false
		if n-cur.first <= smallObject {
			bit := uint64(1) << (h >> 58)
			known = cur.seen&bit != 0 && s.inSmall(doc, cur.first, n-1)
			cur.seen |= bit
		} else {
			known = s.inLarge(doc, cur.table, cur.first, n-1)
		}
		if known {
			i--
			f = flawDuplicate
			goto refuseValue
		}
	}
	i = end + 1
	if i >= len(doc) || doc[i] <= ' ' {
		if i = skipSpace(doc, i); i == len(doc) {
			f = flawEnd
			goto refuseValue
		}
	}
	if doc[i] != ':' {
		f = flawColon
		goto refuseValue
	}
	i++

value:
	if i >= len(doc) || doc[i] <= ' ' {
		if i = skipSpace(doc, i); i == len(doc) {
			f = flawEnd
			goto refuseValue
		}
	}
	c = doc[i]
	switch {
	case c == '"':
		for end = i + 1; ; end += 8 {
			var w uint64
			if end > len(doc)-8 {
				w = loadTail(doc, end)
			} else {
				w = loadFast(doc, end)
			}
			if m = special(w); m != 0 {
				break
			}
		}
		end += firstByte(m)
		if end >= len(doc) || doc[end] != '"' {
			var escaped bool
			if end, escaped, f = restOfString(doc, end); f != nil {
				i = end
				goto refuseValue
			}
			if escaped {
				c = '\\'
			}
		}
		end++

	case c-'0' < 10 || c == '-':
		if end, f = number(doc, i); f != nil {
			i = end
			goto refuseValue
		}

	case c == '{' || c == '[':
		if depth+1 >= maxDepth {
			f = &flaw{ErrTooDeep, "limit " + strconv.Itoa(maxDepth) + " levels"}
			goto refuseValue
		}
		if place >= 0 {
			s.find(wanted[place].slot, c, i, i+1)
		}
		i++
		depth++
		s.open(depth, n, place, c == '[')
		cur = &s.frames[depth]
		if c == '{' {
			goto objectOpen
		}
		place = offPath
		if i >= len(doc) || doc[i] <= ' ' {
			if i = skipSpace(doc, i); i == len(doc) {
				f = flawEnd
				goto refuseValue
			}
		}
		if doc[i] == ']' {
			goto closed
		}
		goto value

	default:
		if end, f = literal(doc, i); f != nil {
			i = end
			goto refuseValue
		}
	}
	if place >= 0 {
		s.find(wanted[place].slot, c, i, end)
	}
	i = end

valueDone:
	if i >= len(doc) || doc[i] <= ' ' {
		if i = skipSpace(doc, i); i == len(doc) {
			f = flawEnd
			goto refuseValue
		}
	}
	c = doc[i]
	if !cur.array {
		if c == ',' {
			i++
			goto memberName
		}
		if c != '}' {
			f = flawMember
			goto refuseValue
		}
	} else {
		if c == ',' {
			i++
			cur.seen++
			goto value
		}
		if c != ']' {
			f = flawElement
			goto refuseValue
		}
	}

closed: // doc[i] closes the current container
	i++
	n = cur.first
	if cur.table < len(s.table) {
		s.table = s.table[:cur.table]
	}
	if depth > 0 {
		depth--
		cur = &s.frames[depth]
		goto valueDone
	}
	if i = skipSpace(doc, i); i < len(doc) {
		return &Error{Offset: i, Kind: flawTrailing.kind, Msg: flawTrailing.msg}
	}
	return nil

refuseContainer: // the trouble is in no member yet
	return s.refuse(doc, i, f, depth, -1)

refuseValue: // the trouble is in the newest member or element
	return s.refuse(doc, i, f, depth, n)
}

// open makes s.frames[depth] the frame of a container that begins.
func (s *Scanner) open(depth, n int, place int32, array bool) {
	if depth >= len(s.frames) {
		s.frames = append(s.frames, make([]frame, max(8, depth))...)
	}
	f := &s.frames[depth]
	f.seen, f.first, f.table, f.place, f.array = 0, n, len(s.table), place, array
}

// unusualName returns the name doc[start:end], which has escapes or characters
// that are not ASCII.
func (s *Scanner) unusualName(doc []byte, start, end int, escaped bool) name {
	if !escaped {
		return name{hashName(doc[start:end]), int32(start), int32(end - start)}
	}
	at := len(s.text)
	s.text = unescape(s.text, doc[start:end])
	return name{hashName(s.text[at:]), int32(-1 - at), int32(len(s.text) - at)}
}

// find notes the value of a slot.
func (s *Scanner) find(slot int32, first byte, start, end int) {
	if slot >= 0 {
		s.found[slot] = finding{int32(start), int32(end), first}
	}
}

// skipSpace returns the offset of the first byte at or after i that is not
// white space.
//
//go:noinline
func skipSpace(doc []byte, i int) int {
	for i < len(doc) {
		if i <= len(doc)-8 {
			m := loadFast(doc, i) ^ ' '*ones
			if m == 0 {
				i += 8
				continue
			}
			i += firstByte(m)
		}
		switch doc[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// literal scans true, false or null at i and returns the offset after it.
func literal(doc []byte, i int) (int, *flaw) {
	want := ""
	switch doc[i] {
	case 't':
		want = "true"
	case 'f':
		want = "false"
	case 'n':
		want = "null"
	default:
		return i, flawValue
	}
	for k := range len(want) {
		if i+k >= len(doc) {
			return len(doc), flawEnd
		}
		if doc[i+k] != want[k] {
			return i + k, flawLiteral
		}
	}
	return i + len(want), nil
}

// notObject refuses a document whose first byte opens no object.
func notObject(doc []byte, i int) error {
	e := &Error{Offset: i, Kind: ErrNotObject, Msg: "the document must be an object"}
	switch c := doc[i]; {
	case c == '[', c == '"', c == '-', c-'0' < 10:
	default:
		if end, f := literal(doc, i); f != nil {
			e.Offset, e.Kind, e.Msg = end, f.kind, f.msg
		}
	}
	return e
}

// refuse returns the error for a flaw at offset i: in the current container,
// s.frames[depth], or, if n is not negative, in its newest member or element; n
// is then the number of names in use.
func (s *Scanner) refuse(doc []byte, i int, f *flaw, depth, n int) error {
	var path []byte
	for k := 0; k <= depth; k++ {
		at, names := &s.frames[k], n
		if k < depth {
			names = s.frames[k+1].first
		} else if n < 0 {
			break
		}
		path = append(path, '/')
		if at.array {
			path = strconv.AppendUint(path, at.seen, 10)
		} else {
			path = append(path, s.nameBytes(doc, &s.names[names-1])...)
		}
	}
	return &Error{Offset: i, Path: string(path), Kind: f.kind, Msg: f.msg}
}
