package query

import (
	"bytes"
	"context"
	"unsafe"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// truth is the result of a predicate. Of the values of one path the highest
// counts.
type truth uint8

const (
	undefined truth = iota
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// Program is a filter, with the paths of other values that are wanted, made
// ready for documents. It is immutable and may be shared.
type Program struct {
	selector *jsondoc.Selector
	slots    []slot
	leaves   []*Filter
	unmet    []truth // of the leaves, where no value is found
	root     node
	wanted   int
	computed []int32 // leaves
}

// slot is a path of the selector with all that looks at it.
type slot struct {
	leaves []int32 // of Program
	wanted []int32 // places of Evaluator.Wanted
}

// node is a filter with its leaves replaced by their numbers.
type node struct {
	op   Op
	sub  []node
	leaf int32
}

// Compile makes a filter, which must have passed Check, and the paths of wanted
// values ready.
func Compile(f *Filter, wanted []Path) *Program {
	p := &Program{wanted: len(wanted)}
	c := compiler{p: p, slots: make(map[string]int32)}
	p.root = c.node(f)
	for i, path := range wanted {
		s := c.slot(path)
		p.slots[s].wanted = append(p.slots[s].wanted, int32(i))
	}
	p.selector = jsondoc.NewSelector(c.paths)
	return p
}

type compiler struct {
	p     *Program
	paths []Path
	slots map[string]int32
}

func (c *compiler) slot(path Path) int32 {
	name := path.String()
	s, ok := c.slots[name]
	if !ok {
		s = int32(len(c.paths))
		c.slots[name] = s
		c.paths = append(c.paths, path)
		c.p.slots = append(c.p.slots, slot{})
	}
	return s
}

func (c *compiler) node(f *Filter) node {
	switch f.Op {
	case All:
		return node{op: And}
	case And, Or, Not:
		n := node{op: f.Op}
		for _, s := range f.Sub {
			n.sub = append(n.sub, c.node(s))
		}
		return n
	}
	leaf := int32(len(c.p.leaves))
	c.p.leaves = append(c.p.leaves, f)
	if f.Op == Computed {
		c.p.computed, c.p.unmet = append(c.p.computed, leaf), append(c.p.unmet, undefined)
		return node{op: f.Op, leaf: leaf}
	}
	unmet := undefined
	if f.Op == Exists || f.Op == IsKind {
		unmet = no
	}
	c.p.unmet = append(c.p.unmet, unmet)
	s := c.slot(f.Path)
	c.p.slots[s].leaves = append(c.p.slots[s].leaves, leaf)
	if f.Op == ArrayContains {
		s = c.slot(append(f.Path[:len(f.Path):len(f.Path)], jsondoc.Step{Element: true}))
		c.p.slots[s].leaves = append(c.p.slots[s].leaves, ^leaf) // as an element
	}
	return node{op: f.Op, leaf: leaf}
}

// Evaluator applies a program to documents. It serves one goroutine.
type Evaluator struct {
	// Wanted are the wanted values of the document that Match or Select has seen
	// last, valid as long as it is; of a path of several values the last one.
	Wanted []jsondoc.Value
	// Err is why a condition could not be tested. What Match returns then has no meaning.
	Err error
	// Ctx ends the test of a document, with its error in Err; nil: nothing does.
	Ctx context.Context
	// Seq is the sequence of the document's version, which Computed conditions may ask for. Who
	// tests such conditions sets it before each Match.
	Seq uint64

	p       *Program
	results []truth
	text    []byte
	looked  int      // bytes that conditions have looked at since Ctx was asked
	testers []Tester // of Computed conditions, by leaf
	visit   func(slot int, v jsondoc.Value)
}

// Evaluator returns an evaluator of the program.
func (p *Program) Evaluator() *Evaluator {
	e := &Evaluator{p: p, results: make([]truth, len(p.leaves)), Wanted: make([]jsondoc.Value, p.wanted)}
	e.visit = e.value
	for _, leaf := range p.computed {
		if e.testers == nil {
			e.testers = make([]Tester, len(p.leaves))
		}
		e.testers[leaf] = p.leaves[leaf].Cond.Tester()
	}
	return e
}

// Match says whether the filter is true for a document, and finds the wanted
// values. The document is one that package jsondoc has accepted; of anything
// else the answer may be either.
func (e *Evaluator) Match(doc []byte) bool {
	copy(e.results, e.p.unmet)
	clear(e.Wanted)
	e.p.selector.Select(doc, e.visit)
	if e.Err != nil {
		return false
	}
	if len(e.p.computed) > 0 {
		return e.matchComputed(doc)
	}
	return e.p.root.eval(e.results) == yes
}

// matchComputed is Match where the values at paths are tested already. It tests Computed
// conditions only if the others do not suffice.
func (e *Evaluator) matchComputed(doc []byte) bool {
	if e.p.root.eval(e.results) == yes {
		return true // whatever they are
	}
	if e.p.root.without(e.results) == no {
		return false
	}
	for _, leaf := range e.p.computed {
		is, defined, err := e.testers[leaf](e.Ctx, doc, e.Seq)
		if err != nil {
			e.Err = err
			return false
		}
		if defined {
			e.results[leaf] = truthOf(is)
		}
	}
	return e.p.root.eval(e.results) == yes
}

// without returns no if the node is not true, whatever the Computed conditions are.
func (n *node) without(results []truth) truth {
	switch n.op {
	case And:
		for i := range n.sub {
			if n.sub[i].without(results) == no {
				return no
			}
		}
		return yes
	case Or:
		for i := range n.sub {
			if n.sub[i].without(results) != no {
				return yes
			}
		}
		return no
	case Not, Computed:
		return yes // it may be
	}
	if results[n.leaf] == yes {
		return yes
	}
	return no
}

// value takes a value of the document.
func (e *Evaluator) value(at int, v jsondoc.Value) {
	s := &e.p.slots[at]
	for _, leaf := range s.leaves {
		if !e.look(&v) {
			break
		}
		r := undefined
		if leaf < 0 {
			leaf = ^leaf
			if order, ok := compare(&v, &e.p.leaves[leaf].Value, &e.text); ok && order == 0 {
				r = yes
			}
		} else {
			r = e.test(e.p.leaves[leaf], &v)
		}
		e.results[leaf] = max(e.results[leaf], r)
	}
	for _, w := range s.wanted {
		e.Wanted[w] = v
	}
}

// Testing a value takes about as long as looking at testBytes, and at the bytes of the value. Ctx is asked each askBytes.
const (
	testBytes = 64
	askBytes  = 64 << 10
)

// look counts a value that is tested; false: the test of the document must end.
func (e *Evaluator) look(v *jsondoc.Value) bool {
	e.looked += testBytes + len(v.Text)
	return e.looked < askBytes || e.ask()
}

func (e *Evaluator) ask() bool {
	if e.Err == nil && e.Ctx != nil {
		e.Err = e.Ctx.Err()
	}
	if e.Err == nil {
		e.looked = 0
	}
	return e.Err == nil
}

// test applies a predicate to a value.
func (e *Evaluator) test(f *Filter, v *jsondoc.Value) truth {
	switch f.Op {
	case Eq, Ne:
		order, ok := compare(v, &f.Value, &e.text)
		if !ok {
			return undefined
		}
		return truthOf((order == 0) == (f.Op == Eq))
	case In:
		r := no
		for i := range f.Values {
			if !e.look(v) {
				return undefined
			}
			order, ok := compare(v, &f.Values[i], &e.text)
			if ok && order == 0 {
				return yes
			}
			if !ok {
				r = undefined
			}
		}
		return r
	case Range:
		if v.Kind != f.kind() {
			return undefined
		}
		if f.Lo.Value.Kind != jsondoc.KindUndefined {
			order, _ := compare(v, &f.Lo.Value, &e.text)
			if order < 0 || order == 0 && !f.Lo.Inclusive {
				return no
			}
		}
		if f.Hi.Value.Kind != jsondoc.KindUndefined {
			order, _ := compare(v, &f.Hi.Value, &e.text)
			if order > 0 || order == 0 && !f.Hi.Inclusive {
				return no
			}
		}
		return yes
	case Prefix, Contains:
		if v.Kind != jsondoc.KindString {
			return undefined
		}
		text, part := v.Bytes(&e.text), f.Value.Text
		if f.Op == Prefix {
			return truthOf(len(text) >= len(part) && string(text[:len(part)]) == part)
		}
		return truthOf(bytes.Contains(text, unsafe.Slice(unsafe.StringData(part), len(part))))
	case ArrayContains:
		if v.Kind != jsondoc.KindArray {
			return undefined
		}
		return no // unless an element is equal
	case Exists:
		return yes
	case IsKind:
		return truthOf(f.Kinds&(1<<v.Kind) != 0)
	}
	return undefined
}

func (n *node) eval(results []truth) truth {
	switch n.op {
	case Not:
		switch n.sub[0].eval(results) {
		case yes:
			return no
		case no:
			return yes
		}
		return undefined
	case And:
		r := yes
		for i := range n.sub {
			switch n.sub[i].eval(results) {
			case no:
				return no
			case undefined:
				r = undefined
			}
		}
		return r
	case Or:
		r := no
		for i := range n.sub {
			switch n.sub[i].eval(results) {
			case yes:
				return yes
			case undefined:
				r = undefined
			}
		}
		return r
	}
	return results[n.leaf]
}
