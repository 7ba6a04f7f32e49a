package sql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// orderWhole begins the Order of a position of a collected result. Its order key follows.
const orderWhole = 1

// entry is a result that is put in order.
type entry struct {
	key string // what it is ordered by; no two entries have the same
	at  int    // where in key the item begins: behind the order; len(key) without an item
	row exec.Row
}

func (e *entry) size() int64 {
	return int64(len(e.key)+len(e.row.Body)+len(e.row.Key.Encoded())+len(e.row.ID)) + 160
}

// collector keeps the first results behind a key, as many as are wanted and fit.
type collector struct {
	begun bool // results begin behind after
	after string
	end   string // "": of no bound; results at or behind it were left out
	most  int
	list  []entry
	bytes int64
}

// wants says whether a key may be among the first ones.
func (c *collector) wants(key string) bool {
	return (!c.begun || key > c.after) && (c.end == "" || key < c.end)
}

// add adds a result that is wanted. Of the memory that its row came in, which has whole documents, it
// holds nothing.
func (c *collector) add(e entry) {
	e.row.Key, e.row.ID = e.row.Key.Clone(), strings.Clone(e.row.ID)
	c.list = append(c.list, e)
	c.bytes += e.size()
	if c.bytes > exec.Limits.OrderMemory || len(c.list) >= 2*c.most && c.most < 1<<30 {
		c.trim(exec.Limits.OrderMemory / 2)
	}
}

// sort puts the results in order, and leaves out those that occur twice.
func (c *collector) sort() {
	slices.SortFunc(c.list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	c.list = slices.CompactFunc(c.list, func(a, b entry) bool { return a.key == b.key })
	c.bytes = 0
	for i := range c.list {
		c.bytes += c.list[i].size()
	}
}

// trim leaves out the last results until there are no more than wanted, and they take no more
// than some bytes. It keeps at least one.
func (c *collector) trim(most int64) {
	c.sort()
	n := len(c.list)
	for n > 1 && (n > c.most || c.bytes > most) {
		n--
		c.bytes -= c.list[n].size()
		c.end = c.list[n].key
		c.list[n] = entry{}
	}
	c.list = c.list[:n]
}

// collected gives the results of a statement that puts them in order.
func (p *Page) collected(from Source) (bool, error) {
	after, err := p.begin(from)
	if err != nil {
		return false, err
	}
	begun := p.after != nil
	for {
		c := &collector{begun: begun, after: after, most: p.left + min(p.skip, int(^uint(0)>>1)-p.left)}
		if err := p.pass(from, c); err != nil {
			return false, err
		}
		p.to.Stats.Passes++
		c.sort()
		if len(c.list) > c.most {
			c.end = c.list[c.most].key
			c.list = c.list[:c.most]
		}
		for i := range c.list {
			e := &c.list[i]
			if !p.take(&e.row, e.row.Body, e.position()) {
				return false, nil
			}
		}
		if c.end == "" {
			return true, nil
		}
		begun, after = true, c.list[len(c.list)-1].key
	}
}

// pass collects results.
func (p *Page) pass(from Source, c *collector) error {
	return p.each(from, func(key string) bool { return c.wants(key) }, func(e entry) bool {
		c.add(e)
		return true
	})
}

// each gives the results whose key is wanted, in any order.
func (p *Page) each(from Source, wants func(key string) bool, give func(entry) bool) error {
	q := p.s.q
	result := func(key string, at int, row *exec.Row) bool {
		if !wants(key) {
			return true
		}
		body, ok := p.result()
		if !ok {
			return p.f.Err() == nil
		}
		e := entry{key: key, at: at, row: *row}
		e.row.Body = body
		return give(e)
	}
	var key []byte
	// apart gives a result that is not of an item alone: its order, and what tells it apart.
	apart := func(row *exec.Row, tie func(dst []byte) []byte) bool {
		key = q.AppendOrder(p.f, key[:0])
		key = tie(key)
		return result(string(key), len(key), row)
	}
	distinct := func(row *exec.Row) bool {
		v, ok := q.Result(p.f)
		return !ok || apart(row, v.AppendKey)
	}
	visit := func(row *exec.Row, n uint32) bool {
		if q.Distinct() {
			if !p.s.documents {
				row = &exec.Row{}
			}
			return distinct(row)
		}
		key = q.AppendOrder(p.f, key[:0])
		at := len(key)
		key = appendItem(key, row, n)
		return result(string(key), at, row)
	}
	var groups interface {
		Bytes() int64
	}
	add := func() {}
	g := q.Grouped()
	var finish func() bool
	if g {
		collectedGroups := q.NewGroups()
		groups = collectedGroups
		add = func() { collectedGroups.Add(p.f) }
		finish = func() bool {
			more := true
			collectedGroups.Each(p.f, func(group string) bool {
				if q.Distinct() {
					more = distinct(&exec.Row{})
				} else {
					more = apart(&exec.Row{}, func(dst []byte) []byte { return append(dst, group...) })
				}
				return more && p.f.Err() == nil
			})
			return more
		}
	}
	var failure error
	_, err := from.Run(func(row *exec.Row) bool {
		n := uint32(0)
		more := true
		p.f.SetSeq(row.Seq)
		failure = q.Rows(p.f, value.Parse(row.Body), func() bool {
			if g {
				add()
				if size := groups.Bytes(); size > exec.Limits.GroupMemory {
					p.f.Fail(&fault.LimitError{What: "groups of a query", Size: size, Limit: exec.Limits.GroupMemory, Kind: fault.ErrTooLarge})
					return false
				}
				return true
			}
			n++
			more = visit(row, n)
			return more
		})
		if failure == nil {
			failure = p.f.Err()
		}
		return more && failure == nil
	})
	switch {
	case failure != nil:
		return failure
	case err != nil:
		return err
	}
	if g {
		finish()
	}
	return p.f.Err()
}

// appendItem appends what tells the results of items apart: the place of the item and the
// number of the row.
func appendItem(dst []byte, row *exec.Row, n uint32) []byte {
	epk := row.Key.EPK()
	dst = append(append(append(dst, epk.Bytes()...), row.Key.Encoded()...), row.ID...)
	return binary.BigEndian.AppendUint32(dst, n)
}

// position returns the place of an entry.
func (e *entry) position() exec.Position {
	var at exec.Position
	order := e.key[:e.at]
	if e.at < len(e.key) {
		at.Key, at.ID = e.row.Key, e.row.ID
		at.Row = uint64(binary.BigEndian.Uint32([]byte(e.key[len(e.key)-4:])))
	}
	at.Order = append(append(at.Order, orderWhole), order...)
	return at
}

// begin returns the key behind which the results of the page begin.
func (p *Page) begin(from Source) (string, error) {
	a := p.after
	if a == nil {
		return "", nil
	}
	if (a.Row > 0) != a.Key.Valid() || a.Row > math.MaxUint32 {
		return "", errBadOrder
	}
	var of []byte // what tells the item and its row apart
	if a.Key.Valid() {
		of = appendItem(nil, &exec.Row{Key: a.Key, ID: a.ID}, uint32(a.Row))
	}
	if a.Short == nil || !a.Short.Order {
		if len(a.Order) == 0 || a.Order[0] != orderWhole {
			return "", errBadOrder
		}
		return string(append(bytes.Clone(a.Order[1:]), of...)), nil
	}
	found, gone := "", continuation.ErrGone
	err := p.each(from, func(key string) bool {
		order, ok := strings.CutSuffix(key, string(of))
		if ok && continuation.DigestOf(append([]byte{orderWhole}, order...)) == a.Short.OrderSum {
			found, gone = key, nil
		}
		return false
	}, nil)
	return found, cmp.Or(err, gone)
}
