package jsondoc

// Walker goes once more through a document that a Scan has accepted, or through
// a value of one: from one name or value to the next. It checks nothing: of other
// bytes it gives some values, at most one for each byte, and comes to the end.
type Walker struct {
	doc []byte
	pos int // behind what was read last
}

// Walk returns a walker before the first value of doc.
func Walk(doc []byte) Walker { return Walker{doc: doc} }

// Next returns the next value, or the name of a member, which is a string. Of an
// object or array that is the opening bracket, and the walker then is inside.
// Undefined stands for the closing bracket, behind which the walker then is, and
// for the end.
func (w *Walker) Next() Value {
	kind, escaped, start, end := next(w.doc, w.pos)
	w.pos = end
	return Value{kind, escaped, w.doc[start:end:end]}
}

// Whole is Next, but returns all of an object or array, and goes on behind it.
func (w *Walker) Whole() Value {
	kind, escaped, start, end := next(w.doc, w.pos)
	if kind >= KindArray {
		end = skipContainer(w.doc, end)
	}
	w.pos = end
	return Value{kind, escaped, w.doc[start:end:end]}
}

// Leave goes on behind the object or array that the walker is inside of.
func (w *Walker) Leave() { w.pos = skipContainer(w.doc, w.pos) }

// Offset returns where in the document the walker is.
func (w *Walker) Offset() int { return w.pos }

// Skip goes on behind text if that comes next, byte for byte, and says whether it does.
// The text ends where a value does.
func (w *Walker) Skip(text []byte) bool {
	if rest := w.doc[w.pos:]; len(rest) < len(text) || string(rest[:len(text)]) != string(text) {
		return false
	}
	w.pos += len(text)
	return true
}

// Name goes on behind the name of the next member if that is written as WrittenName says,
// behind a comma or none, and says whether it is.
func (w *Walker) Name(written string) bool {
	i := w.pos
	if i < len(w.doc) && w.doc[i] == ',' {
		i++
	}
	if rest := w.doc[i:]; written == "" || len(rest) < len(written) || string(rest[:len(written)]) != written {
		return false
	}
	w.pos = i + len(written)
	return true
}

// WrittenName returns how most documents have the name of a member: in quotes, and a colon
// behind it. It returns nothing if the name cannot be written without escapes.
func WrittenName(name string) string {
	for i := range len(name) {
		if c := name[i]; c == '"' || c == '\\' || c < ' ' {
			return ""
		}
	}
	return `"` + name + `":`
}

// next finds the value doc[start:end] that Next returns where the walker is at i. A
// selector goes on with offsets only, which stay in registers.
func next(doc []byte, i int) (kind Kind, escaped bool, start, end int) {
	var c byte
again:
	if i >= len(doc) {
		goto none
	}
	c = doc[i]
	end = i + 1
	switch {
	case c == '"':
		for {
			var w uint64
			if end > len(doc)-8 {
				w = loadTail(doc, end)
			} else {
				w = loadFast(doc, end)
			}
			quotes, slashes := w^'"'*ones, w^'\\'*ones
			m := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs
			if m == 0 {
				if end += 8; end < len(doc) {
					continue
				}
				goto none
			}
			if end += firstByte(m); doc[end] == '"' {
				return KindString, escaped, i, end + 1
			}
			escaped = true
			end += 2
		}
	case c == ',' || c == ':':
		i++
		goto again
	case c <= ' ':
		if i = skipSpace(doc, i); i >= end {
			goto again
		}
		goto none
	case c == '{':
		return KindObject, false, i, end
	case c == '[':
		return KindArray, false, i, end
	case c == '}' || c == ']':
		return KindUndefined, false, end, end
	case c == '-' || c-'0' < 10:
		kind = KindNumber
		for end < len(doc) && inNumber(doc[end]) {
			end++
		}
	case c == 't':
		kind, end = KindBool, i+len("true")
	case c == 'f':
		kind, end = KindBool, i+len("false")
	case c == 'n':
		kind, end = KindNull, i+len("null")
	default:
		goto none
	}
	if end <= len(doc) {
		return kind, false, i, end
	}
none: // the end, or no value
	return KindUndefined, false, len(doc), len(doc)
}

// Members calls visit for each member of an object, in order: its unescaped name,
// valid during the call, and its value. The object is a document that a Scan has
// accepted, or an object in one; of anything else some of what it holds is
// visited.
func Members(object []byte, visit func(name []byte, v Value)) {
	w := Walk(object)
	if w.Next().Kind != KindObject {
		return
	}
	var text []byte
	for name := w.Next(); name.Kind == KindString; name = w.Next() {
		v := w.Whole()
		if v.Kind == KindUndefined {
			return // it is no document
		}
		visit(name.Bytes(&text), v)
	}
}

// skipContainer returns the offset after the bracket that closes the object or
// array that i is in.
func skipContainer(doc []byte, i int) int {
	for depth := 1; i < len(doc); {
		// Braces and brackets differ in bit 5 only, opening from closing ones in
		// bits 1 and 2.
		var w uint64
		if i > len(doc)-8 {
			w = loadTail(doc, i)
		} else {
			w = loadFast(doc, i)
		}
		quotes, folded := w^'"'*ones, w|0x20*ones
		opens, closes := folded^'{'*ones, folded^'}'*ones
		m := ((quotes-ones)&^quotes | (opens-ones)&^opens | (closes-ones)&^closes) & highs
		if m == 0 {
			i += 8
			continue
		}
		i += firstByte(m)
		switch doc[i] {
		case '"':
			_, _, _, i = next(doc, i)
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

// inNumber reports whether a number goes on with c, where white space, a comma or a
// closing bracket ends it.
func inNumber(c byte) bool { return c > ',' && c|0x20 != '}' || c == '+' }
