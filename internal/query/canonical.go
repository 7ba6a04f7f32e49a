package query

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// appendCanonical appends the canonical text of a value of a document. Values that are equal,
// however they are written, have one canonical text: no white space, numbers as AppendNumber
// writes them, strings as AppendString does, and the members of an object in the order of
// their names. The text is JSON with the same value, so that a group can show it. depth is
// the number of arrays and objects around the value. No document that was accepted has as
// many as jsondoc.DefaultMaxDepth; in a damaged one the rest is taken as it is written, so that
// neither the stack nor the time grows with its brackets.
func appendCanonical(dst []byte, v *jsondoc.Value, depth int) []byte {
	if depth > jsondoc.DefaultMaxDepth {
		return append(dst, v.Text...)
	}
	switch v.Kind {
	case jsondoc.KindNumber:
		return jsondoc.AppendNumber(dst, v.Number())
	case jsondoc.KindString:
		if !v.Escaped {
			return append(dst, v.Text...)
		}
		return jsondoc.AppendString(dst, string(v.AppendText(nil)))
	case jsondoc.KindArray:
		w := jsondoc.Walk(v.Text)
		w.Next()
		dst = append(dst, '[')
		for i := 0; ; i++ {
			e := w.Whole()
			if e.Kind == jsondoc.KindUndefined {
				return append(dst, ']')
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, &e, depth+1)
		}
	case jsondoc.KindObject:
		type member struct {
			name []byte
			v    jsondoc.Value
		}
		var list []member
		w := jsondoc.Walk(v.Text)
		w.Next()
		for name := w.Next(); name.Kind == jsondoc.KindString; name = w.Next() {
			list = append(list, member{name.AppendText(nil), w.Whole()})
		}
		slices.SortStableFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		dst = append(dst, '{')
		for i := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsondoc.AppendString(dst, string(list[i].name)), ':')
			dst = appendCanonical(dst, &list[i].v, depth+1)
		}
		return append(dst, '}')
	}
	return append(dst, v.Text...)
}
