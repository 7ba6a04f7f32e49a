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
	turn uint64
	v    value.Value
}

// remembered returns the node of an expression that is computed once for all rows of the loops inside of
// the one that sets what it needs.
func (c *compiler) remembered(n node, needs need, s *scope) node {
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
		f.env.Look(int(m.v.Size())) // who asks for it may look at all of it
		return m.v
	}
}

// remember keeps a value unless memos have too much.
func (f *Frame) remember(m *memo, turn uint64, v value.Value) value.Value {
	f.kept -= m.v.Size()
	if *m = (memo{}); f.Err() == nil && f.kept+v.Size() <= function.MaxMade {
		*m = memo{turn, v}
	}
	f.kept += m.v.Size()
	return v
}
