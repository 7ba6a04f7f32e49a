package sql

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// elements has results of documents for elements to which exec has not yet come, for documents with
// many rows. The rows of other documents are made anew at each of their elements.
type elements struct {
	kept  map[string]*collector // by item
	bytes int64
	key   []byte // memory
}

// manyRows is how many rows a document has whose results are kept.
const manyRows = 64

// isElement says whether the present row belongs to the element with an order key.
func (p *Page) isElement(order []byte) bool {
	m := &p.elements
	m.key = p.s.q.AppendOrder(p.f, m.key[:0])
	return bytes.Equal(m.key, order)
}

// of returns the results of a document that belong to an element; false if they are not known.
func (m *elements) of(row *exec.Row, order []byte) (list []entry, ok bool) {
	if len(m.kept) == 0 {
		return nil, false
	}
	item := string(appendItem(nil, row, 0))
	c := m.kept[item]
	if c == nil {
		return nil, false
	}
	if c.end != "" && string(order) >= c.end[:len(c.end)-4] {
		m.bytes -= c.bytes
		delete(m.kept, item)
		return nil, false
	}
	from, _ := slices.BinarySearchFunc(c.list, string(order), func(e entry, order string) int { return strings.Compare(e.key, order) })
	to := from
	for to < len(c.list) && c.list[to].key[:c.list[to].at] == string(order) {
		to++
	}
	return c.list[from:to], true
}

// giveAll gives the results of an element of a document but for the first ones. It returns false if no more
// results are wanted.
func (p *Page) giveAll(row *exec.Row, list []entry, at exec.Position, given uint64) bool {
	p.made += int64(len(list))
	for i := min(given, uint64(len(list))); i < uint64(len(list)); i++ {
		if at.Row = i + 1; at.Row == uint64(len(list)) {
			at.Row = 0
		}
		if !p.take(row, list[i].row.Body, at) {
			return false
		}
	}
	at.Row = 0
	p.ended(at)
	return true
}

// keep makes the results of a document for the elements behind one, as many as may be wanted.
func (p *Page) keep(row *exec.Row, behind []byte) error {
	m := &p.elements
	c := &collector{most: p.left + min(p.skip, math.MaxInt-p.left)}
	n := uint32(0)
	err := p.s.q.Rows(p.f, value.Parse(row.Body), func() bool {
		if m.key = p.s.q.AppendOrder(p.f, m.key[:0]); bytes.Compare(m.key, behind) > 0 {
			n++
			m.key = binary.BigEndian.AppendUint32(m.key, n)
			if key := string(m.key); c.wants(key) {
				if body, ok := p.result(); ok {
					c.add(entry{key: key, at: len(key) - 4, row: exec.Row{Body: body}})
				}
			}
		}
		return p.f.Err() == nil
	})
	if err != nil {
		return err
	}
	c.sort()
	if m.bytes+c.bytes > exec.Limits.OrderMemory || m.kept == nil {
		m.kept, m.bytes = make(map[string]*collector), 0
	}
	m.kept[string(appendItem(nil, row, 0))], m.bytes = c, m.bytes+c.bytes
	return nil
}
