package memtable

import "github.com/cleavestore/cleave/internal/item"

// Cursor moves over the keys of a table in both directions and shows of each
// key the newest version up to its bound, tombstones included; keys without one
// are passed over. It begins unpositioned, and is so again when a movement has
// returned false; Next and Prev then return false until a seek succeeds.
//
// A cursor serves one goroutine at a time, beside the writer. It sees all that
// was put before its bound was learnt; with a bound above that it may or may
// not see what is put meanwhile. It allocates nothing; the zero value, Reset,
// can be pooled.
type Cursor struct {
	pos    position
	maxSeq uint64
	valid  bool
	key    item.Key
	ver    item.Version
	lo, hi *item.Key // of Within; nil: there is no bound
}

// Cursor returns a cursor over the versions up to maxSeq.
func (t *Table) Cursor(maxSeq uint64) *Cursor {
	c := new(Cursor)
	c.Reset(t, maxSeq)
	return c
}

// Reset makes c an unpositioned cursor over t. A nil table lets go of the
// memory that c points to: c must be Reset again before it moves.
func (c *Cursor) Reset(t *Table, maxSeq uint64) {
	c.pos.table, c.pos.leaf = t, nil
	c.maxSeq, c.valid = maxSeq, false
	c.key, c.ver = item.Key{}, item.Version{}
	c.lo, c.hi = nil, nil
}

// Within says that the caller wants no key before lo and none after hi, until the next
// Reset: a movement that has come out of these bounds may return false. Without it a
// movement passes over any number of keys that have no visible version.
func (c *Cursor) Within(lo, hi *item.Key) { c.lo, c.hi = lo, hi }

// First moves to the first key.
func (c *Cursor) First() bool { return c.forward(c.pos.first()) }

// Last moves to the last key.
func (c *Cursor) Last() bool { return c.backward(c.pos.seekLT(nil)) }

// SeekGE moves to the first key not before k.
func (c *Cursor) SeekGE(k *item.Key) bool { return c.forward(c.pos.seekGE(k)) }

// SeekLT moves to the last key before k.
func (c *Cursor) SeekLT(k *item.Key) bool { return c.backward(c.pos.seekLT(k)) }

// Next moves to the following key.
func (c *Cursor) Next() bool { return c.valid && c.forward(c.pos.next()) }

// Prev moves to the preceding key.
func (c *Cursor) Prev() bool { return c.valid && c.backward(c.pos.prev()) }

// Valid reports whether the cursor is at a key.
func (c *Cursor) Valid() bool { return c.valid }

// Key returns the key at the cursor. The Key is valid until the cursor moves,
// its bytes until the table is released. Call it only when Valid.
func (c *Cursor) Key() *item.Key { return &c.key }

// Version returns the version at the cursor, valid as Key is.
func (c *Cursor) Version() *item.Version { return &c.ver }

// forward settles on the first visible key from n on.
func (c *Cursor) forward(n *node) bool {
	for n != nil && !c.settle(n) {
		if c.hi != nil && c.compare(n, c.hi) > 0 {
			n = nil
			break
		}
		n = c.pos.next()
	}
	c.valid = n != nil
	return c.valid
}

// backward settles on the last visible key up to n.
func (c *Cursor) backward(n *node) bool {
	for n != nil && !c.settle(n) {
		if c.lo != nil && c.compare(n, c.lo) < 0 {
			n = nil
			break
		}
		n = c.pos.prev()
	}
	c.valid = n != nil
	return c.valid
}

// compare compares the key of n, which it leaves in c.key, with k.
func (c *Cursor) compare(n *node, k *item.Key) int {
	n.borrow(&c.key)
	return item.Compare(&c.key, k)
}

// settle takes the key and version of n, if it has a visible one.
func (c *Cursor) settle(n *node) bool {
	v := c.pos.table.visible(n, c.maxSeq)
	if v == nil {
		return false
	}
	n.borrow(&c.key)
	v.borrow(&c.ver)
	return true
}
