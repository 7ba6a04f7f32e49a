package vfs

// nameOp changes names of one directory, all or none.
type nameOp struct {
	dir   *node
	set   []binding
	needs *nameOp // never survives without
}

// binding gives a name to a node; nil takes the name away.
type binding struct {
	name string
	node *node
}

// apply does op on the live names and remembers it for the durable ones.
func (m *Mem) apply(op *nameOp) {
	for _, b := range op.set {
		if old := op.dir.names[b.name]; old != nil {
			old.links--
			m.forget(old)
		}
		if b.node == nil {
			delete(op.dir.names, b.name)
			continue
		}
		op.dir.names[b.name] = b.node
		b.node.links++
	}
	m.pending = append(m.pending, op)
}

// forget takes a file that nobody can reach any more out of the space in use.
func (m *Mem) forget(n *node) {
	if n.links == 0 && n.opens == 0 {
		m.used -= n.live.size + n.held
		n.held = 0
	}
}

// commit makes pending operations durable: those that keep chooses and those
// that they presuppose.
func (m *Mem) commit(keep func(*nameOp) bool) {
	kept := closure(m.pending, keep)
	rest := m.pending[:0:0]
	for _, op := range m.pending {
		if kept[op] {
			op.applyTo(op.dir.synced)
		} else {
			rest = append(rest, op)
		}
	}
	m.pending = rest
}

func (op *nameOp) applyTo(names map[string]*node) {
	for _, b := range op.set {
		if b.node == nil {
			delete(names, b.name)
		} else {
			names[b.name] = b.node
		}
	}
}

// closure returns the operations that keep chooses, and with each of them those
// before it on the same names and the one that it needs: operations on one name
// survive in their order, those on different names in any.
func closure(ops []*nameOp, keep func(*nameOp) bool) map[*nameOp]bool {
	type place struct {
		dir  *node
		name string
	}
	kept := map[*nameOp]bool{}
	touched := map[place]bool{}
	for i := len(ops) - 1; i >= 0; i-- {
		op := ops[i]
		// Asked of each operation, so that a random choice depends on nothing else.
		chosen := keep(op) || kept[op]
		for _, b := range op.set {
			chosen = chosen || touched[place{op.dir, b.name}]
		}
		if !chosen {
			continue
		}
		kept[op] = true
		if op.needs != nil {
			kept[op.needs] = true
		}
		for _, b := range op.set {
			touched[place{op.dir, b.name}] = true
		}
	}
	return kept
}
