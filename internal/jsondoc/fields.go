package jsondoc

import "github.com/cleavestore/cleave/partmap"

// Members calls visit for each member of an object, in order: its unescaped
// name, and its value as it is written. Both are valid during the call, the
// value as long as the object. The object is a document that a Scan has
// accepted, or a value of one that begins with a brace; of anything else some
// of what it holds is visited.
func Members(object []byte, visit func(name, value []byte)) {
	i := skipSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return
	}
	var text []byte
	for i++; ; i++ {
		i = skipSpace(object, i)
		if i == len(object) || object[i] != '"' {
			return
		}
		end, escaped, f := restOfString(object, i+1)
		if f != nil {
			return
		}
		name := object[i+1 : end]
		if escaped {
			text = unescape(text[:0], name)
			name = text
		}
		i = skipSpace(object, end+1)
		if i == len(object) || object[i] != ':' {
			return
		}
		i = skipSpace(object, i+1)
		end = valueEnd(object, i)
		if end == i {
			return
		}
		visit(name, object[i:end:end])
		i = skipSpace(object, end)
		if i == len(object) || object[i] != ',' {
			return
		}
	}
}

// valueEnd returns the offset after the value at i; i if no value is there.
func valueEnd(doc []byte, i int) int {
	for depth := 0; i < len(doc); {
		switch doc[i] {
		case '"':
			end, _, f := restOfString(doc, i+1)
			if f != nil && depth == 0 {
				return i
			}
			if f != nil {
				return len(doc)
			}
			i = end + 1
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i // it closes what is around the value
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default: // a number or a literal
			for i < len(doc) && !endsLiteral(doc[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(doc)
}

func endsLiteral(c byte) bool {
	switch c {
	case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// AppendKey appends the component of a partition key that a value, as Members
// gives it, is: what Scan makes of it, but strings may be of any length. It
// returns false for what is no component: objects, arrays and numbers beyond
// the range of doubles.
func AppendKey(dst, value []byte) ([]byte, bool) {
	if len(value) == 0 {
		return dst, false
	}
	switch c := value[0]; c {
	case 'n':
		return partmap.AppendNull(dst), true
	case 't', 'f':
		return partmap.AppendBool(dst, c == 't'), true
	case '{', '[':
		return dst, false
	case '"':
		if len(value) < 2 {
			return dst, false
		}
		return appendKeyString(dst, value[1:len(value)-1]), true
	}
	f, ok := double(value)
	if !ok {
		return dst, false
	}
	return partmap.AppendNumber(dst, f), true
}

// appendKeyString appends the component of a string, given its body.
func appendKeyString(dst, body []byte) []byte {
	for _, c := range body {
		if c == '\\' {
			return partmap.AppendString(dst, unescape(nil, body))
		}
	}
	return partmap.AppendString(dst, body)
}
