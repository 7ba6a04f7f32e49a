package memtable

import "github.com/cleavestore/cleave/internal/item"

// Ref names a version of a table. It holds no memory: it is of use until the
// table is released.
type Ref struct{ node, version uint32 }

// Refs calls visit with the versions whose sequence is above after and not above
// maxSeq: keys in order, versions of a key newest first.
func (t *Table) Refs(after, maxSeq uint64, visit func(r Ref, seq uint64)) {
	pos := position{table: t}
	for n := pos.first(); n != nil; n = pos.next() {
		for link := loadLink(&n.newest); link != 0; {
			v := t.version(link)
			if v.seq <= after {
				break
			}
			if v.seq <= maxSeq {
				visit(Ref{pos.links[pos.at], link}, v.seq)
			}
			link = v.older
		}
	}
}

// Borrow sets k and v to what a Ref names. Their bytes are valid until the table
// is released.
func (t *Table) Borrow(r Ref, k *item.Key, v *item.Version) {
	t.node(r.node).borrow(k)
	t.version(r.version).borrow(v)
}
