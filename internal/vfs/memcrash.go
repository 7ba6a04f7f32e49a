package vfs

import (
	"bytes"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
)

// Keep says what of the unsynced state survives a crash.
type Keep int

// Keep values.
const (
	KeepNone   Keep = iota // nothing
	KeepAll                // everything
	KeepRandom             // sectors, lengths and name operations at random
	KeepNewest             // the newest name operation, with those that it needs, and no bytes
)

// CrashOptions choose one of the states that a power cut can leave.
type CrashOptions struct {
	Keep Keep
	// TornLast tears the last unsynced write: a part of it is there from its
	// start to a random byte or sector boundary, whatever Keep says of it; the
	// length may be there in full.
	TornLast bool
	// Seed of all random choices. The same history with the same options gives
	// the same state.
	Seed uint64
}

// Crash returns what a power cut now could leave. Durable bytes and names
// survive. Of the rest, with KeepRandom:
//
//   - each written sector survives or not, always whole, with the content that
//     it had after some write since the last sync;
//   - the length is that after some call since the last sync, so that a file can
//     end in zeros for sectors that did not survive;
//   - name operations survive in any subset, but those on one name in their
//     order; a rename is whole, and the old name never goes without the new one.
//
// All of the new file system is durable, nothing is open and no lock is held.
// m goes on as if nothing had happened.
func (m *Mem) Crash(opt CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := newRNG(opt.Seed, 0)
	odds := names.Float64()
	kept := closure(m.pending, func(op *nameOp) bool {
		switch opt.Keep {
		case KeepAll:
			return true
		case KeepNewest:
			return op == m.pending[len(m.pending)-1]
		case KeepRandom:
			return names.Float64() < odds
		}
		return false
	})
	var torn *change
	if opt.TornLast {
		torn = m.lastWrite()
	}
	// Directories as they will be.
	after := map[*node]map[string]*node{}
	for _, op := range m.pending {
		if kept[op] {
			if after[op.dir] == nil {
				after[op.dir] = maps.Clone(op.dir.synced)
			}
			op.applyTo(after[op.dir])
		}
	}
	c := &Mem{capacity: m.capacity, lastID: m.lastID, copies: m.copies, mapped: m.mapped}
	copies := map[*node]*node{}
	var copyNode func(n *node) *node
	copyNode = func(n *node) *node {
		if known := copies[n]; known != nil {
			known.links++
			return known
		}
		d := &node{id: n.id, links: 1}
		copies[n] = d
		if !n.isDir() {
			d.written = slices.Clone(n.written)
			d.durable = n.survivor(opt, torn, &d.written)
			d.live = d.durable.share()
			c.used += d.live.size
			return d
		}
		names, changed := after[n]
		if !changed {
			names = n.synced
		}
		d.names = make(map[string]*node, len(names))
		for name, child := range names {
			d.names[name] = copyNode(child)
		}
		d.synced = maps.Clone(d.names)
		return d
	}
	c.root = copyNode(m.root)
	return c
}

// newRNG returns the generator of one file's choices (stream 0: the names),
// which do not depend on the order in which files are visited.
func newRNG(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// lastWrite returns the last write that was not synced, or nil.
func (m *Mem) lastWrite() *change {
	var last *change
	for n := range m.nodes() {
		for _, c := range n.changes {
			if c.size > 0 && (last == nil || c.seq > last.seq) {
				last = c
			}
		}
	}
	return last
}

// survivor returns the content of a file after a crash. It adds to written what has
// come to the disk.
func (n *node) survivor(opt CrashOptions, torn *change, written *sectors) blob {
	rng := newRNG(opt.Seed, n.id)
	odds := rng.Float64()
	result := n.durable.share()
	if len(n.changes) == 0 {
		return result
	}
	length := result.size
	lengths := 0 // of the changes, those before this index have their length
	switch opt.Keep {
	case KeepAll:
		lengths = len(n.changes)
	case KeepRandom:
		lengths = rng.IntN(len(n.changes) + 1)
	}
	for i, c := range n.changes {
		if c == torn {
			length = max(length, tear(&result, c, rng, written))
			continue
		}
		for _, s := range c.sectors {
			if opt.Keep == KeepAll || opt.Keep == KeepRandom && rng.Float64() < odds {
				result.writeAt(s.data, s.off)
				written.add(s.off)
			}
		}
		if c.length >= 0 && i < lengths {
			if length = c.length; length < result.size && c.size == 0 {
				result.resize(length)
				written.cut(c.length)
			}
		}
	}
	result.resize(length)
	return result
}

// tear puts the first part of a write into x and returns the length that the
// file has at least.
func tear(x *blob, c *change, rng *rand.Rand, written *sectors) (length int64) {
	cut := c.off + rng.Int64N(c.size)
	if rng.IntN(2) == 0 {
		cut = max(c.off, cut-cut%sectorBytes)
	}
	for _, s := range c.sectors {
		if s.off >= cut {
			break
		}
		x.writeAt(s.data[:min(int64(len(s.data)), cut-s.off)], s.off)
		written.add(s.off)
	}
	switch {
	case c.length < 0:
		return 0
	case rng.IntN(2) == 0:
		return c.length
	}
	return cut
}

// Kill returns what the death of the process leaves: everything written, synced
// or not, with the same unsynced state, nothing open and no lock held. m goes on
// as if nothing had happened.
func (m *Mem) Kill() *Mem { return m.Clone() }

// Clone returns a copy in the same state, unsynced state included, except that
// nothing is open and no lock is held. Bytes are shared until one side writes.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{capacity: m.capacity, lastID: m.lastID, lastSeq: m.lastSeq, journal: m.journal, copies: m.copies, mapped: m.mapped}
	copies := map[*node]*node{nil: nil}
	for n := range m.nodes() {
		copies[n] = &node{
			id:      n.id,
			links:   n.links,
			live:    n.live.share(),
			durable: n.durable.share(),
			changes: append([]*change(nil), n.changes...),
			lost:    slices.Clone(n.lost),
			written: slices.Clone(n.written),
			moved:   slices.Clone(n.moved),
			held:    n.held,
		}
		if n.links > 0 {
			c.used += n.live.size + n.held
		}
	}
	translate := func(names map[string]*node) map[string]*node {
		if names == nil {
			return nil
		}
		result := make(map[string]*node, len(names))
		for name, n := range names {
			result[name] = copies[n]
		}
		return result
	}
	for n, d := range copies {
		if n != nil {
			d.names, d.synced = translate(n.names), translate(n.synced)
		}
	}
	ops := map[*nameOp]*nameOp{}
	for _, op := range m.pending {
		d := &nameOp{dir: copies[op.dir], needs: ops[op.needs]}
		for _, b := range op.set {
			d.set = append(d.set, binding{b.name, copies[b.node]})
		}
		ops[op] = d
		c.pending = append(c.pending, d)
	}
	c.root = copies[m.root]
	return c
}

// nodes returns every node that live or durable names reach or a pending
// operation can bring back.
func (m *Mem) nodes() map[*node]bool {
	found := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || found[n] {
			return
		}
		found[n] = true
		for _, child := range n.names {
			visit(child)
		}
		for _, child := range n.synced {
			visit(child)
		}
	}
	visit(m.root)
	for _, op := range m.pending {
		visit(op.dir)
		for _, b := range op.set {
			visit(b.node)
		}
	}
	return found
}

// Sum returns a hash of what calls see: all names, which of them are of one
// file, and all bytes. What of it is durable makes no difference.
func (m *Mem) Sum(seed maphash.Seed) uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var h maphash.Hash
	h.SetSeed(seed)
	first := map[*node]int{} // number of the node, in the order of visits
	var visit func(dir *node)
	visit = func(dir *node) {
		for _, name := range slices.Sorted(maps.Keys(dir.names)) {
			n := dir.names[name]
			number, again := first[n]
			if !again {
				number = len(first)
				first[n] = number
			}
			maphash.WriteComparable(&h, struct {
				name   string
				number int
				dir    bool
			}{name, number, n.isDir()})
			if n.isDir() {
				visit(n)
			} else if !again {
				maphash.WriteComparable(&h, n.live.size)
				maphash.WriteComparable(&h, maphash.Bytes(seed, bytes.TrimRight(n.live.b, "\x00")))
			}
		}
		h.WriteByte(0) // the directory ends
	}
	visit(m.root)
	return h.Sum64()
}
