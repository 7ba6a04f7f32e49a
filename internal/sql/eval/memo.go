package eval

import (
	"math"

	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// need is the latest slot that an expression reads: sources have slots in the order in which their loops
// are nested. The expression has the same value until that slot is set again.
type need int

const (
	nothing  need = -1            // it is a constant
	anything need = math.MaxInt32 // it may differ each time
)

// memo is the value that an expression had in a turn of the slot that it needs.
type memo struct {
	turn   uint64
	v      value.Value
	hits   int // rows that had it from here
	opened bool
}

// remembered returns the node of an expression that is computed once for all rows of the loops inside of
// the one that sets what it needs.
func (c *compiler) remembered(n node, needs need, s *scope) node { return c.memo(n, needs, s, false) }

// memo is remembered. searched says that each row looks for one element or member: if many rows do, the array
// or object is opened for them.
func (c *compiler) memo(n node, needs need, s *scope, searched bool) node {
	if s == nil || needs == nothing || int(needs) >= s.last {
		return n
	}
	at, slot := c.size.memos, int(needs)
	c.size.memos++
	return func(f *Frame) value.Value {
		m, turn := &f.memos[at], f.vars[slot].turn
		if m.turn != turn {
			return f.remember(m, turn, n(f))
		}
		if m.hits++; searched && m.hits >= manyRows {
			return f.open(m)
		}
		f.env.Look(int(m.v.Size())) // who asks for it may look at all of it
		return m.v
	}
}

// manyRows is how many rows walk through an array or object before it is opened.
const manyRows = 16

// open returns what a memo has as a value that need not be walked through, if there is room for that.
func (f *Frame) open(m *memo) value.Value {
	if m.hits == manyRows && f.kept+int64(memberBytes*m.v.Len()) <= function.MaxMade {
		f.remember(m, m.turn, m.v.Open())
		m.hits, m.opened = manyRows, true
	}
	if m.opened {
		f.env.Look(m.v.Len())
	} else {
		f.env.Look(int(m.v.Size()))
	}
	return m.v
}

// memberBytes is how many bytes a member or element takes beside its text, its place in memory included.
const memberBytes = 128

// remember keeps a value unless memos have too much.
func (f *Frame) remember(m *memo, turn uint64, v value.Value) value.Value {
	f.kept -= m.v.Size()
	if *m = (memo{}); f.Err() == nil && f.kept+v.Size() <= function.MaxMade {
		*m = memo{turn: turn, v: v}
	}
	f.kept += m.v.Size()
	return v
}
