package memtable

import "github.com/cleavestore/cleave/internal/item"

// Walker passes once over all versions up to its bound: keys in order, the
// versions of a key newest first. It serves one goroutine, beside the writer
// as a Cursor does.
type Walker struct {
	pos    position
	maxSeq uint64
	node   *node    // of the version at hand; nil before the first and at the end
	at     *version // nil: the node has no more
	begun  bool
	key    item.Key
	ver    item.Version
}

// Walk returns a walker over the versions up to maxSeq, before the first.
func (t *Table) Walk(maxSeq uint64) *Walker {
	return &Walker{pos: position{table: t}, maxSeq: maxSeq}
}

// Next moves to the next version; false: there is none.
func (w *Walker) Next() bool {
	if w.at != nil && w.at.older != 0 {
		w.at = w.pos.table.version(w.at.older)
		w.at.borrow(&w.ver)
		return true
	}
	for {
		switch {
		case w.node != nil:
			w.node = w.pos.next()
		case !w.begun:
			w.begun = true
			w.node = w.pos.first()
		}
		w.at = nil
		if w.node == nil {
			return false
		}
		if w.at = w.pos.table.visible(w.node, w.maxSeq); w.at != nil {
			w.node.borrow(&w.key)
			w.at.borrow(&w.ver)
			return true
		}
	}
}

// Key returns the key of the version at hand. The Key is valid until Next, its
// bytes until the table is released.
func (w *Walker) Key() *item.Key { return &w.key }

// Version returns the version at hand, valid as Key is.
func (w *Walker) Version() *item.Version { return &w.ver }
