package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Op is what a node of a filter does.
type Op uint8

// Ops. The zero Op is true for every document.
const (
	All Op = iota
	And
	Or
	Not
	Eq            // with Value
	Ne            // with Value
	In            // one of Values
	Range         // between Lo and Hi
	Prefix        // Value.Text
	Contains      // Value.Text
	ArrayContains // Value
	Exists
	IsKind   // one of Kinds
	Computed // Cond
)

// Limit is one end of a range.
type Limit struct {
	Value     Value // undefined: none
	Inclusive bool
}

// Filter is a node of a filter. It is not changed once it is made.
type Filter struct {
	Op     Op
	Sub    []*Filter // And, Or, Not
	Path   Path
	Value  Value
	Values []Value
	Lo, Hi Limit
	Kinds  uint8 // bit set of Kind
	Cond   Condition
}

// Condition is a condition on a whole document that no other Op expresses. It is immutable,
// and safe for concurrent use.
type Condition interface {
	// Tester returns a function for one goroutine.
	Tester() Tester
	// String returns the condition in the words of the text form.
	String() string
}

// Tester says whether a condition is true for a document, of which seq is the sequence of the version;
// defined is false if it is neither true nor false. An error, such as that of ctx, ends the query. ctx may
// be nil.
type Tester func(ctx context.Context, doc []byte, seq uint64) (is, defined bool, err error)

// Limits of a filter.
const (
	MaxDepth     = 100     // nested nodes
	MaxLeaves    = 10_000  // predicates, each value of In counted
	MaxConstants = 2 << 20 // bytes of the strings in it together
)

// Check returns an error if the filter is larger than the limits, or if a node
// lacks what its Op needs.
func (f *Filter) Check() error {
	var s filterSize
	return f.check(0, &s)
}

// filterSize is what the limits of a filter bound.
type filterSize struct{ leaves, constants int }

// add counts a condition with its values.
func (s *filterSize) add(f *Filter) error {
	if s.leaves += max(1, len(f.Values)); s.leaves > MaxLeaves {
		return fmt.Errorf("a filter of more than %d conditions and values", MaxLeaves)
	}
	s.constants += len(f.Value.Text) + len(f.Lo.Value.Text) + len(f.Hi.Value.Text)
	for i := range f.Values {
		s.constants += len(f.Values[i].Text)
	}
	if s.constants > MaxConstants {
		return fmt.Errorf("a filter with more than %d bytes of strings to compare with", MaxConstants)
	}
	return nil
}

func (f *Filter) check(depth int, size *filterSize) error {
	if depth == MaxDepth {
		return fmt.Errorf("a filter of more than %d nested conditions", MaxDepth)
	}
	if len(f.Sub) == 0 {
		if err := size.add(f); err != nil {
			return err
		}
	}
	switch f.Op {
	case All:
		return nil
	case And, Or, Not:
		if f.Op == Not && len(f.Sub) != 1 {
			return fmt.Errorf("not of %d conditions", len(f.Sub))
		}
		for _, s := range f.Sub {
			if err := s.check(depth+1, size); err != nil {
				return err
			}
		}
		return nil
	case Range:
		if f.Lo.Value.Kind == jsondoc.KindUndefined && f.Hi.Value.Kind == jsondoc.KindUndefined {
			return fmt.Errorf("range of %s: no bound", jsondoc.Clip(f.Path.String()))
		}
		if f.Lo.Value.Kind != jsondoc.KindUndefined && f.Hi.Value.Kind != jsondoc.KindUndefined && f.Lo.Value.Kind != f.Hi.Value.Kind {
			return fmt.Errorf("range of %s: bounds are a %s and a %s", jsondoc.Clip(f.Path.String()), f.Lo.Value.Kind, f.Hi.Value.Kind)
		}
	case Prefix, Contains:
		if f.Value.Kind != jsondoc.KindString {
			return fmt.Errorf("%s: the text to look for is a %s", jsondoc.Clip(f.Path.String()), f.Value.Kind)
		}
	}
	if f.Op == Computed {
		return nil
	}
	if len(f.Path) == 0 {
		return fmt.Errorf("a condition without a path")
	}
	return nil
}

// kind is the type that a range is about.
func (f *Filter) kind() Kind { return max(f.Lo.Value.Kind, f.Hi.Value.Kind) }

// RangeKind returns the type of the bounds of a Range.
func (f *Filter) RangeKind() Kind { return f.kind() }

// String returns the filter for people, in the words of the text form.
func (f *Filter) String() string {
	var b strings.Builder
	f.print(&b, false)
	return b.String()
}

func (f *Filter) print(b *strings.Builder, nested bool) {
	path := f.Path.String()
	switch f.Op {
	case All:
		b.WriteString("TRUE")
	case And, Or:
		word := map[Op]string{And: " AND ", Or: " OR "}[f.Op]
		if len(f.Sub) == 0 {
			b.WriteString(map[Op]string{And: "TRUE", Or: "FALSE"}[f.Op])
			return
		}
		if nested {
			b.WriteByte('(')
		}
		for i, s := range f.Sub {
			if i > 0 {
				b.WriteString(word)
			}
			s.print(b, true)
		}
		if nested {
			b.WriteByte(')')
		}
	case Not:
		b.WriteString("NOT ")
		f.Sub[0].print(b, true)
	case Eq:
		fmt.Fprintf(b, "%s = %s", path, f.Value)
	case Ne:
		fmt.Fprintf(b, "%s != %s", path, f.Value)
	case In:
		fmt.Fprintf(b, "%s IN (", path)
		for i, v := range f.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(v.String())
		}
		b.WriteByte(')')
	case Range:
		lo, hi := f.Lo, f.Hi
		sign := func(first string, inclusive bool) string {
			if inclusive {
				return first + "="
			}
			return first
		}
		switch {
		case hi.Value.Kind == jsondoc.KindUndefined:
			fmt.Fprintf(b, "%s %s %s", path, sign(">", lo.Inclusive), lo.Value)
		case lo.Value.Kind == jsondoc.KindUndefined:
			fmt.Fprintf(b, "%s %s %s", path, sign("<", hi.Inclusive), hi.Value)
		default:
			fmt.Fprintf(b, "%s %s %s %s %s", lo.Value, sign("<", lo.Inclusive), path, sign("<", hi.Inclusive), hi.Value)
		}
	case Prefix:
		fmt.Fprintf(b, "STARTSWITH(%s, %s)", path, f.Value)
	case Contains:
		fmt.Fprintf(b, "CONTAINS(%s, %s)", path, f.Value)
	case ArrayContains:
		fmt.Fprintf(b, "ARRAY_CONTAINS(%s, %s)", path, f.Value)
	case Computed:
		b.WriteString(f.Cond.String())
	case Exists:
		fmt.Fprintf(b, "IS_DEFINED(%s)", path)
	case IsKind:
		var names []string
		for k := jsondoc.KindNull; k <= jsondoc.KindObject; k++ {
			if f.Kinds&(1<<k) != 0 {
				names = append(names, k.String())
			}
		}
		fmt.Fprintf(b, "%s IS %s", path, strings.Join(names, " OR "))
	}
}

// Every calls visit for each condition that a matching document must meet: the
// filter itself or the parts of an And.
func (f *Filter) Every(visit func(*Filter)) {
	if f.Op != And {
		visit(f)
		return
	}
	for _, s := range f.Sub {
		s.Every(visit)
	}
}

// Never says that the filter is FALSE: true for no document.
func (f *Filter) Never() bool { return f.Op == Or && len(f.Sub) == 0 }

// ValuesAt returns values of which a matching document has one at a path; nil:
// it can have any.
func (f *Filter) ValuesAt(path Path) []Value { return f.valuesAt(path.String()) }

func (f *Filter) valuesAt(path string) (values []Value) {
	switch f.Op {
	case Eq:
		if f.Path.String() == path {
			return []Value{f.Value}
		}
	case In:
		if f.Path.String() == path {
			return f.Values
		}
	case And:
		for _, s := range f.Sub {
			if some := s.valuesAt(path); some != nil && (values == nil || len(some) < len(values)) {
				values = some
			}
		}
	case Or:
		for _, s := range f.Sub {
			some := s.valuesAt(path)
			if some == nil {
				return nil
			}
			values = append(values, some...)
		}
	}
	return values
}

// Simplify returns an equal filter: And in And and Or in Or are one, double Not
// is none, an And or Or of one is that one, and two limits of one path that is
// of one value are one range.
func (f *Filter) Simplify() *Filter {
	switch f.Op {
	case Not:
		s := f.Sub[0].Simplify()
		if s.Op == Not {
			return s.Sub[0]
		}
		return &Filter{Op: Not, Sub: []*Filter{s}}
	case And, Or:
		var sub []*Filter
		for _, s := range f.Sub {
			s = s.Simplify()
			switch {
			case s.Op == f.Op:
				sub = append(sub, s.Sub...)
			case s.Op == All && f.Op == And:
			case s.Op == All:
				return s
			default:
				sub = append(sub, s)
			}
		}
		if f.Op == And {
			sub = joinRanges(sub)
		}
		if len(sub) == 1 {
			return sub[0]
		}
		if len(sub) == 0 && f.Op == And {
			return &Filter{}
		}
		return &Filter{Op: f.Op, Sub: sub}
	}
	return f
}

// joinRanges makes one range of a lower and an upper limit of a path.
func joinRanges(list []*Filter) []*Filter {
	var out []*Filter
	lower := make(map[string]int) // of a range without an upper limit, in out
	upper := make(map[string]int)
	for _, f := range list {
		if f.Op != Range || f.Path.Many() {
			out = append(out, f)
			continue
		}
		name := f.Path.String()
		noLo, noHi := f.Lo.Value.Kind == jsondoc.KindUndefined, f.Hi.Value.Kind == jsondoc.KindUndefined
		if i, ok := lower[name]; ok && noLo && out[i].kind() == f.kind() {
			out[i] = &Filter{Op: Range, Path: f.Path, Lo: out[i].Lo, Hi: f.Hi}
			delete(lower, name)
			continue
		}
		if i, ok := upper[name]; ok && noHi && out[i].kind() == f.kind() {
			out[i] = &Filter{Op: Range, Path: f.Path, Lo: f.Lo, Hi: out[i].Hi}
			delete(upper, name)
			continue
		}
		if noHi {
			lower[name] = len(out)
		} else if noLo {
			upper[name] = len(out)
		}
		out = append(out, f)
	}
	return out
}
