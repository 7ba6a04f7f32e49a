package query

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// An order by the elements of an array, such as that of rows of a JOIN, has a row for each value
// that a document has there. An index of that path gives the candidates term by term, as those of any
// order: the documents of a page are those that have one of its values, and no others are read. A
// document is read again for each page in which it has a row.

// OrderPaths returns the paths of the values that the order of the query is made of: of an order by
// elements that of their array.
func (s *Select) OrderPaths() (paths []Path) {
	for _, o := range s.OrderBy {
		path := o.Path
		if s.ByElement {
			path = path[:len(path)-1]
		}
		paths = append(paths, path)
	}
	return paths
}

// AppendOrder appends the order key of the document that an evaluator of OrderPaths matched last.
func (s *Select) AppendOrder(key []byte, eval *Evaluator) []byte {
	for i, o := range s.OrderBy {
		from := len(key)
		key = AppendOrder(key, &eval.Wanted[i], false)
		if o.Falling {
			Invert(key[from:])
		}
	}
	return key
}

// ElementKeys makes the order keys of the elements of arrays.
type ElementKeys struct {
	Falling bool
	bytes   []byte
	ends    []int
	keys    [][]byte
}

// Of returns the order keys of the elements of an array in their order, each once. They are valid
// until the next call. What is no array has none.
func (l *ElementKeys) Of(array *jsondoc.Value) [][]byte {
	l.bytes, l.ends, l.keys = l.bytes[:0], l.ends[:0], l.keys[:0]
	if array.Kind != jsondoc.KindArray {
		return nil
	}
	walk := jsondoc.Walk(array.Text)
	walk.Next() // the opening bracket
	for v := walk.Whole(); v.Kind != jsondoc.KindUndefined; v = walk.Whole() {
		from := len(l.bytes)
		if l.bytes = AppendOrder(l.bytes, &v, false); l.Falling {
			Invert(l.bytes[from:])
		}
		l.ends = append(l.ends, len(l.bytes))
	}
	from := 0
	for _, to := range l.ends {
		l.keys = append(l.keys, l.bytes[from:to])
		from = to
	}
	slices.SortFunc(l.keys, bytes.Compare)
	l.keys = slices.CompactFunc(l.keys, bytes.Equal)
	return l.keys
}
