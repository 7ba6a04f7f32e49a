package query

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Func is an aggregate function.
type Func uint8

// Aggregate functions. Of all, undefined values are passed over.
const (
	NoFunc Func = iota
	Count       // of values; without a path, of documents
	Sum         // of numbers; undefined if there is another value, or numbers of both infinities
	Avg         // as Sum; undefined if there is no value
	Min         // in the order of values; undefined if there is none, an array or an object
	Max
)

var funcNames = [...]string{"", "COUNT", "SUM", "AVG", "MIN", "MAX"}

// String returns the name of the function in the text form.
func (f Func) String() string { return funcNames[f] }

// Column is a column of the rows of a query.
type Column struct {
	Func Func
	Path Path   // nil only with Count
	Name string // of the member of a row
}

// Order is one of the paths by which results are ordered.
type Order struct {
	Path    Path
	Falling bool
}

// Select is a whole query.
type Select struct {
	Columns  []Column // none: whole documents
	Value    bool     // rows are the values of the only column
	Distinct bool     // no two rows alike
	GroupBy  []Path
	Where    *Filter
	OrderBy  []Order
	// ByElement says that the path of the only order leads through the elements of an array, and
	// that a row is one of their values with its document: a document has as many rows as values.
	ByElement bool
	Offset    int
	Limit     int // 0: none
}

// maxColumns bounds the columns, groups and orders of a query.
const maxColumns = 100

// Grouped says that a row stands for several documents.
func (s *Select) Grouped() bool {
	if s.Distinct || len(s.GroupBy) > 0 {
		return true
	}
	for _, c := range s.Columns {
		if c.Func != NoFunc {
			return true
		}
	}
	return false
}

// Check returns an error for a query that has no meaning.
func (s *Select) Check() error {
	if err := s.Where.Check(); err != nil {
		return err
	}
	if max(len(s.Columns), len(s.GroupBy), len(s.OrderBy)) > maxColumns {
		return fmt.Errorf("more than %d columns or paths", maxColumns)
	}
	if s.Offset < 0 || s.Limit < 0 {
		return fmt.Errorf("offset %d, limit %d: must not be negative", s.Offset, s.Limit)
	}
	if s.Value && len(s.Columns) != 1 {
		return fmt.Errorf("%d columns: bare values are of one", len(s.Columns))
	}
	single := func(what string, p Path) error {
		if len(p) == 0 {
			return fmt.Errorf("%s without a path", what)
		}
		if p.Many() {
			return fmt.Errorf("%s %s: a path through the elements of an array has no single value", what, jsondoc.Clip(p.String()))
		}
		return nil
	}
	names := make(map[string]bool, len(s.Columns))
	for _, c := range s.Columns {
		if c.Func == Count && c.Path == nil {
			// of documents
		} else if err := single("column", c.Path); err != nil {
			return err
		}
		if !s.Value && names[c.Name] {
			return fmt.Errorf("two columns are named %q", jsondoc.Clip(c.Name))
		}
		names[c.Name] = true
		if s.Distinct && c.Func != NoFunc {
			return fmt.Errorf("distinct rows of aggregates")
		}
	}
	for _, p := range s.GroupBy {
		if err := single("group", p); err != nil {
			return err
		}
	}
	if s.ByElement && (len(s.OrderBy) != 1 || len(s.Columns) > 0 || s.Grouped()) {
		return fmt.Errorf("an order by elements is the only one, and of whole documents")
	}
	for _, o := range s.OrderBy {
		path := o.Path
		if n := len(path) - 1; s.ByElement && n > 0 && path[n].Element {
			path = path[:n]
		}
		if err := single("order", path); err != nil {
			return err
		}
	}
	if !s.Grouped() {
		return nil
	}
	if s.Distinct && len(s.GroupBy) > 0 {
		return fmt.Errorf("distinct rows of groups")
	}
	if len(s.Columns) == 0 {
		return fmt.Errorf("groups and distinct rows need columns")
	}
	if !s.inGroupOrder() {
		return fmt.Errorf("rows of groups, aggregates and distinct values come in the order of the values: no other order is possible")
	}
	for _, c := range s.Columns {
		if c.Func == NoFunc && !s.Distinct && s.group(c.Path) < 0 {
			return fmt.Errorf("column %s is neither an aggregate nor a group", jsondoc.Clip(c.Path.String()))
		}
	}
	return nil
}

// inGroupOrder says whether the groups have the order that is asked for: they come
// in the order of their values.
func (s *Select) inGroupOrder() bool {
	groups := s.groups()
	if len(s.OrderBy) > len(groups) {
		return false
	}
	for i, o := range s.OrderBy {
		if o.Falling || o.Path.String() != groups[i].String() {
			return false
		}
	}
	return true
}

// groups are the paths whose values tell rows apart.
func (s *Select) groups() []Path {
	if !s.Distinct {
		return s.GroupBy
	}
	var list []Path
	for _, c := range s.Columns {
		list = append(list, c.Path)
	}
	return list
}

// group returns the index of a path in groups, -1 if it is none.
func (s *Select) group(p Path) int {
	for i, g := range s.groups() {
		if g.String() == p.String() {
			return i
		}
	}
	return -1
}

// Projector makes rows of documents, for queries that are not Grouped and have
// columns. It is immutable.
type Projector struct {
	value bool
	names [][]byte // each as a member's name with its colon
}

// Projector returns the projector of the query.
func (s *Select) Projector() *Projector {
	p := &Projector{value: s.Value}
	for _, c := range s.Columns {
		p.names = append(p.names, append(jsondoc.AppendString(nil, c.Name), ':'))
	}
	return p
}

// Append appends the row of a document, given the values of its columns; it
// returns false if there is none: the value of the only column is undefined.
func (p *Projector) Append(dst []byte, values []jsondoc.Value) ([]byte, bool) {
	if p.value {
		return append(dst, values[0].Text...), values[0].Kind != jsondoc.KindUndefined
	}
	dst = append(dst, '{')
	first := true
	for i := range values {
		if values[i].Kind == jsondoc.KindUndefined {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, p.names[i]...), values[i].Text...)
	}
	return append(dst, '}'), true
}

// ColumnPaths returns the paths of the columns in their order, nil for
// COUNT(1).
func (s *Select) ColumnPaths() []Path {
	var list []Path
	for _, c := range s.Columns {
		list = append(list, c.Path)
	}
	return list
}
