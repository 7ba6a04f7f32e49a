package memtable

import (
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/prefetch"
)

// position is a place between the nodes of a table, for one goroutine beside
// the writer. It holds the entries of one leaf as they were when it came there,
// in key order. Its movements return the node they come to, nil at either end.
type position struct {
	table *Table
	leaf  *leaf
	at, n int // entry at hand, entries
	links [maxEntries]uint32
}

func (p *position) node() *node { return p.table.node(p.links[p.at]) }

// enter takes the entries of a leaf.
func (p *position) enter(l *leaf) {
	p.leaf, p.at = l, 0
	p.n = copy(p.links[:], l.entries()[:loadLink(&l.count)])
	p.table.sort(p.links[:p.n], int(l.ordered))
	if link := loadLink(l.next(0)); link != 0 {
		prefetch.At(p.table.at(link), leafLines)
	}
}

// Nodes and their versions lie anywhere in the table, seldom in the processor's cache: a scan that came to each before it
// asked for the next would mostly wait. So it asks for versions a few entries ahead, and for the nodes of the next
// leaf while it is in this one.
const (
	ahead        = 4 // entries between the request for a version and its use
	nodeLines    = 2 // of a node and its key
	versionLines = 3 // of a version and the beginning of its body; the processor guesses the rest
)

// expect asks for the newest version of entry i, if there is one.
func (p *position) expect(i int) {
	if 0 <= i && i < p.n {
		prefetch.At(unsafe.Pointer(p.table.version(loadLink(&p.table.node(p.links[i]).newest))), versionLines)
	}
}

// expectNode asks for the node of the next leaf that has the place of the one at hand.
func (p *position) expectNode() {
	link := loadLink(p.leaf.next(0))
	if link == 0 {
		return
	}
	if l := p.table.leaf(link); p.at <= int(loadLink(&l.count)) {
		prefetch.At(p.table.at(l.entries()[p.at-1]), nodeLines)
	}
}

// first goes to the first node of all.
func (p *position) first() *node {
	if p.table.slots.Load() == 0 {
		return nil
	}
	return p.firstFrom(0)
}

// firstFrom goes to the first node of the buckets from b on.
func (p *position) firstFrom(b int) *node {
	if b == p.table.buckets.count {
		return nil
	}
	_, head := p.table.bucketFrom(b)
	if head == nil {
		return nil
	}
	p.enter(p.table.leaf(loadLink(head)))
	return p.node()
}

// next goes to the following node.
func (p *position) next() *node {
	if p.at++; p.at < p.n {
		p.expect(p.at + ahead)
		p.expectNode()
		return p.node()
	}
	return p.onward()
}

// onward goes to the first node of the following leaf.
func (p *position) onward() *node {
	if link := loadLink(p.leaf.next(0)); link != 0 {
		p.enter(p.table.leaf(link))
		for i := range ahead {
			p.expect(i)
		}
		return p.node()
	}
	var k item.Key
	p.table.node(p.links[0]).borrow(&k)
	return p.firstFrom(p.table.buckets.of(k.Hash) + 1)
}

// prev goes to the preceding node.
func (p *position) prev() *node {
	if p.at > 0 {
		p.at--
		p.expect(p.at - ahead)
		return p.node()
	}
	var k item.Key
	p.node().borrow(&k)
	return p.seekLT(&k)
}

// seekGE goes to the first node not below k.
func (p *position) seekGE(k *item.Key) *node {
	t := p.table
	if t.slots.Load() == 0 {
		return nil
	}
	b := t.buckets.of(k.Hash)
	i, head := t.bucketFrom(b)
	switch {
	case head == nil:
		return nil
	case i > b:
		p.enter(t.leaf(loadLink(head)))
	default:
		p.enter(t.descend(head, &search{k: k}, 1, nil))
	}
	return p.notBelow(k)
}

// notBelow goes on to the first node not below k, from the leaf at hand. Of the
// leaves behind it, those inserted since may begin below k.
func (p *position) notBelow(k *item.Key) *node {
	for {
		if p.at = p.table.lowerBound(p.links[:p.n], k); p.at < p.n {
			return p.node()
		}
		if p.onward() == nil {
			return nil
		}
	}
}

// seekLT goes to the last node below k. A nil key is after all keys.
func (p *position) seekLT(k *item.Key) *node {
	t := p.table
	if t.slots.Load() == 0 {
		return nil
	}
	b := t.buckets.count - 1
	if k != nil {
		b = t.buckets.of(k.Hash)
	}
	for {
		var head *uint32
		if b, head = t.bucketUpTo(b); head == nil {
			return nil
		}
		p.enter(t.descend(head, &search{k: k}, 0, nil))
		p.at = p.n - 1
		if k != nil {
			p.at = t.lowerBound(p.links[:p.n], k) - 1
		}
		if p.at >= 0 {
			return p.node()
		}
		b-- // only the first leaf of a bucket can have nothing below k
	}
}
