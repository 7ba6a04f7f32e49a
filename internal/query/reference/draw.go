package reference

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// Draw makes documents and queries that have something to do with each other:
// few names, few values, all types.
type Draw struct {
	*rand.Rand
	T testing.TB // is ended by what cannot be drawn
	// Edges says that numbers at the ends of their range are drawn too, and none
	// of them are added up: the sum would depend on the order.
	Edges bool
	// Few says that numbers and strings have few values, of which some strings begin as
	// many bytes alike as a term has: each value is that of many documents.
	Few bool
}

var drawnStrings = []string{"", "a", "ab", "abc", "b", "é", "\u0000", "\"q\"", "z😀", "longer than a word", strings.Repeat("x", 70) + "1", strings.Repeat("x", 70) + "2"}

// edgeNumbers, as they are written, and edgeStrings lie at the ends of what
// doubles, and terms, can hold.
var (
	edgeNumbers = []string{"1e308", "-1.7976931348623157e308", "5e-324", "-5e-324", "1e-400", "9007199254740993", "9007199254740992", "-9007199254740993", "0.1", "0.30000000000000004", "1E+2", "0e9"}
	edgeStrings = []string{
		strings.Repeat("y", 63), strings.Repeat("y", 64), strings.Repeat("y", 65), strings.Repeat("y", 64) + "\u0000", strings.Repeat("y", 63) + "é", strings.Repeat("y", 63) + "\U0010FFFF",
		strings.Repeat("y", 64) + "z", strings.Repeat("z", 2000), "\u0001", "\u0000\u0001", "\U0010FFFF", "\uE000", "\uFFFD", "y\n\t\\/\"",
	}
)

var fewStrings = []string{strings.Repeat("y", 64), strings.Repeat("y", 64) + "a", strings.Repeat("y", 64) + "b", "y"}

var drawnNumbers = []float64{0, 1, 2, 3, -1, 0.5, 10, 1e12, -2.5, 100}

var drawnPaths = []string{"/a", "/b", "/n", "/s", "/o/a", "/o/b", "/t", "/id"}

var drawnManyPaths = []string{"/t/[]", "/l/[]/a", "/l/[]/b", "/t/[]/[]"}

// Value draws the text of a value: most often of the type that goes with a
// name.
func (d Draw) Value(name string) string {
	if d.IntN(4) > 0 {
		switch name {
		case "n":
			return d.number()
		case "s":
			return d.text()
		case "t":
			return d.array(func() string { return d.Scalar() })
		case "l":
			return d.array(func() string { return d.Members("a", "b") })
		case "o":
			return d.Members("a", "b")
		}
	}
	switch d.IntN(12) {
	case 0:
		return d.array(func() string { return d.Scalar() })
	case 1:
		return d.Members("a", "b")
	}
	return d.Scalar()
}

// Scalar draws the text of a scalar.
func (d Draw) Scalar() string {
	switch d.IntN(7) {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2:
		return "false"
	case 3, 4:
		return d.number()
	}
	return d.text()
}

func (d Draw) number() string {
	if d.Few {
		return strconv.Itoa(d.IntN(3))
	}
	if d.Edges && d.IntN(3) == 0 {
		return edgeNumbers[d.IntN(len(edgeNumbers))]
	}
	f := drawnNumbers[d.IntN(len(drawnNumbers))]
	switch d.IntN(6) {
	case 0:
		return strconv.FormatFloat(f, 'e', -1, 64)
	case 1:
		if f == 0 {
			return "-0.0"
		}
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func (d Draw) text() string {
	s := drawnStrings[d.IntN(len(drawnStrings))]
	if d.Edges && d.IntN(3) == 0 {
		s = edgeStrings[d.IntN(len(edgeStrings))]
	}
	if d.Few {
		s = fewStrings[d.IntN(len(fewStrings))]
	}
	if d.IntN(5) == 0 {
		text := `"`
		for _, r := range s {
			if r < 0x10000 {
				text += `\u` + strconv.FormatUint(uint64(r)+0x10000, 16)[1:]
			} else {
				text += string(r)
			}
		}
		return text + `"`
	}
	return string(jsondoc.AppendString(nil, s))
}

func (d Draw) array(element func() string) string {
	var list []string
	for range d.IntN(4) {
		list = append(list, element())
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Members draws an object with some of these members.
func (d Draw) Members(names ...string) string {
	var list []string
	for _, name := range names {
		if d.IntN(4) > 0 {
			list = append(list, string(jsondoc.AppendString(nil, name))+":"+d.Value(name))
		}
	}
	d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return "{" + strings.Join(list, ",") + "}"
}

// Constant draws a value to compare with.
func (d Draw) Constant() query.Value {
	var v any
	if err := json.Unmarshal([]byte(d.Scalar()), &v); err != nil {
		d.T.Fatal(err)
	}
	value, err := query.ValueOf(v)
	if err != nil {
		d.T.Fatal(err)
	}
	return value
}

// Path draws a path, one that can lead to several values if many is set.
func (d Draw) Path(many bool) query.Path {
	list := drawnPaths
	if many && d.IntN(4) == 0 {
		list = drawnManyPaths
	}
	p, err := query.ParsePath(list[d.IntN(len(list))])
	if err != nil {
		d.T.Fatal(err)
	}
	return p
}

// Filter draws a filter that is nested at most this deep.
func (d Draw) Filter(depth int) *query.Filter {
	if depth > 0 && d.IntN(2) == 0 {
		f := &query.Filter{Op: []query.Op{query.And, query.Or, query.Not}[d.IntN(3)]}
		f.Sub = append(f.Sub, d.Filter(depth-1))
		if f.Op != query.Not {
			for range d.IntN(3) {
				f.Sub = append(f.Sub, d.Filter(depth-1))
			}
		}
		return f
	}
	f := &query.Filter{Op: query.Eq + query.Op(d.IntN(int(query.IsKind-query.Eq)+1)), Path: d.Path(true)}
	switch f.Op {
	case query.Eq, query.Ne, query.ArrayContains:
		f.Value = d.Constant()
	case query.In:
		for range 1 + d.IntN(4) {
			f.Values = append(f.Values, d.Constant())
		}
	case query.Range:
		f.Lo = query.Limit{Value: d.Constant(), Inclusive: d.IntN(2) == 0}
		f.Hi = query.Limit{Value: d.Constant(), Inclusive: d.IntN(2) == 0}
		for f.Hi.Value.Kind != f.Lo.Value.Kind {
			f.Hi.Value = d.Constant()
		}
		switch d.IntN(3) {
		case 0:
			f.Lo = query.Limit{}
		case 1:
			f.Hi = query.Limit{}
		}
	case query.Prefix, query.Contains:
		for f.Value.Kind != jsondoc.KindString {
			f.Value = d.Constant()
		}
	case query.IsKind:
		f.Kinds = 1 << (1 + d.IntN(6))
		f.Kinds |= 1 << (1 + d.IntN(6))
	}
	return f
}

// Select draws a query without offset and limit.
func (d Draw) Select() *query.Select {
	s := &query.Select{Where: &query.Filter{}}
	if d.IntN(8) > 0 {
		s.Where = d.Filter(3)
	}
	column := func(name string) query.Column { return query.Column{Path: d.Path(false), Name: name} }
	switch d.IntN(10) {
	case 0:
		s.Columns = []query.Column{column("x"), column("y")}
	case 1:
		s.Columns, s.Value = []query.Column{column("")}, true
	case 2:
		s.Columns, s.Distinct = []query.Column{column("x"), column("y")}, true
		return s
	case 3:
		s.Columns, s.Value, s.Distinct = []query.Column{column("")}, true, true
		return s
	case 4, 5:
		for i := query.Count; i <= query.Max; i++ {
			if d.Edges && (i == query.Sum || i == query.Avg) {
				continue
			}
			c := column("f" + strconv.Itoa(int(i)))
			c.Func = i
			s.Columns = append(s.Columns, c)
		}
		s.Columns = append(s.Columns, query.Column{Func: query.Count, Name: "n"})
		if d.IntN(2) == 0 {
			c := column("g")
			s.GroupBy = []query.Path{c.Path}
			s.Columns = append(s.Columns, c)
		}
		return s
	case 6:
		s.Columns, s.Value = []query.Column{{Func: query.Count}}, true
		return s
	}
	for range []int{0, 0, 1, 1, 2, 3}[d.IntN(6)] {
		s.OrderBy = append(s.OrderBy, query.Order{Path: d.Path(false), Falling: d.IntN(2) == 0})
	}
	return s
}
