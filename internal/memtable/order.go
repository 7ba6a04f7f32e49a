package memtable

import (
	"math/bits"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

// path is the way to a leaf: per level the link that leads to it or, above its
// height, past it.
type path [maxHeight]*uint32

// tower returns the tower of a bucket, whose first leaf is given; nil: no leaf
// is above the lowest level.
func (t *Table) tower(first *leaf) *tower {
	link := loadWord(&first.lead)
	if link == 0 {
		return nil
	}
	return (*tower)(t.at(uint32(link)))
}

// descend returns the last leaf of a bucket whose bound compares with the key
// of s as less than limit says: 0 for bounds below the key, 1 for bounds not
// above it. The first leaf is below all keys. descend records its way in p
// unless p is nil.
func (t *Table) descend(head *uint32, s *search, limit int, p *path) *leaf {
	first := t.leaf(loadLink(head))
	at := first
	known := uint32(0) // link of a leaf known to be beyond
	if tower := t.tower(first); tower != nil {
		for level := int(loadLink(&tower.levels)); level > 0; level-- {
			link := &tower.next[level-1]
			if at != first {
				link = at.next(level)
			}
			at, link, known = t.along(at, link, level, s, limit, known)
			if p != nil {
				p[level] = link
			}
		}
	}
	at, link, _ := t.along(at, at.next(0), 0, s, limit, known)
	if p != nil {
		p[0] = link
	}
	return at
}

// along goes on from a leaf at a level. It returns the last leaf within limit,
// its link at the level, and where that leads.
func (t *Table) along(at *leaf, link *uint32, level int, s *search, limit int, known uint32) (*leaf, *uint32, uint32) {
	for {
		to := loadLink(link)
		if to == 0 || to == known {
			return at, link, known
		}
		l := t.leaf(to)
		if s.compare(t, l) >= limit {
			return at, link, to
		}
		at, link = l, l.next(level)
	}
}

// place is where a new node goes.
type place struct {
	page   *page
	bucket int   // in the page
	leaf   *leaf // nil: the bucket is empty
}

func (p *place) head() *uint32 { return &p.page.heads[p.bucket] }

// locate finds the place of a key that the table does not have, and makes sure
// that insert has the memory that it needs.
func (t *Table) locate(k *item.Key, force bool) (at place, err error) {
	b := t.buckets.of(k.Hash)
	at.bucket = b % pageBuckets
	if at.page = t.page(b / pageBuckets); at.page == nil {
		link, mem, err := t.alloc(int(unsafe.Sizeof(page{})), force)
		if err != nil {
			return at, err
		}
		at.page = (*page)(mem)
		*at.page = page{}
		storeLink(t.directory(b/pageBuckets), link)
	}
	if *at.head() != 0 {
		at.leaf = t.descend(at.head(), &search{k: k}, 1, nil)
		if !at.leaf.full() {
			return at, nil
		}
	}
	return at, t.reserve(2*leafLines*lineBytes+towerBytes, force)
}

// insert adds the filled node of k at its place.
func (t *Table) insert(k *item.Key, link uint32, at *place) {
	switch l := at.leaf; {
	case l == nil:
		t.begin(link, at)
	case !l.full():
		l.entries()[l.count] = link
		storeLink(&l.count, l.count+1)
	case l.lines() < leafLines:
		t.grow(link, at)
	default:
		t.split(k, link, at)
	}
}

// newLeaf takes a leaf of the given shape.
func (t *Table) newLeaf(shape uint8) (uint32, *leaf) {
	link, mem := t.take(int(shape&15) * lineBytes)
	l := (*leaf)(mem)
	*l = leaf{shape: shape}
	return link, l
}

// replacement takes a leaf with the bound and the next links of l.
func (t *Table) replacement(l *leaf, lines int) (uint32, *leaf) {
	link, to := t.newLeaf(makeShape(lines, l.height()))
	shape := to.shape
	*to = *l
	to.shape = shape
	for i := range l.height() {
		*to.next(i) = *l.next(i)
	}
	return link, to
}

// begin makes the first leaf of a bucket.
func (t *Table) begin(link uint32, at *place) {
	to, l := t.newLeaf(makeShape(1, 1))
	*l.next(0) = 0
	l.kin = link
	l.setEntries(link)
	storeLink(at.head(), to)
	storeWord(&at.page.occupied, at.page.occupied|1<<at.bucket)
}

// grow replaces the full first leaf of a bucket by a larger one.
func (t *Table) grow(link uint32, at *place) {
	to, l := t.replacement(at.leaf, at.leaf.lines()+1)
	n := copy(l.entries(), at.leaf.entries())
	l.entries()[n] = link
	l.count = uint32(n + 1)
	storeLink(at.head(), to)
}

// setEntries fills a leaf that is not yet published with links in key order.
func (l *leaf) setEntries(links ...uint32) {
	copy(l.entries(), links)
	l.count, l.ordered = uint32(len(links)), uint8(len(links))
}

// split replaces a full leaf by two, in the middle, or where keys are put in
// rising order behind the last one; then the lower leaf stays full. If no key
// of the leaf is above the new one, the leaf stays as it is.
func (t *Table) split(k *item.Key, link uint32, at *place) {
	var links [maxEntries + 1]uint32
	old := at.leaf
	n := copy(links[:], old.entries())
	latest := links[n-1]
	t.sort(links[:n], int(old.ordered))
	i := t.lowerBound(links[:n], k)
	cut := (n + 1) / 2
	if i == n || i > cut && links[i-1] == latest {
		cut = i
	}
	copy(links[i+1:], links[i:n])
	links[i] = link
	n++

	height := t.randomHeight()
	var p path
	t.pathTo(at.head(), old, height, &p)
	right, r := t.newLeaf(makeShape(leafLines, height))
	t.setBound(r, links[cut], old.kin)
	r.setEntries(links[cut:n]...)
	for i := range height {
		*r.next(i) = *p[i]
		if i < old.height() {
			*r.next(i) = *old.next(i)
		}
	}
	if cut < n-1 {
		left, l := t.replacement(old, leafLines)
		l.setEntries(links[:cut]...)
		for i := range min(height, l.height()) {
			*l.next(i) = right
		}
		for i := range l.height() {
			storeLink(p[i], left)
		}
	} else {
		for i := range min(height, old.height()) {
			storeLink(old.next(i), right)
		}
	}
	for i := old.height(); i < height; i++ {
		storeLink(p[i], right)
	}
	if height > 1 {
		if tower := t.tower(t.leaf(*at.head())); int(tower.levels) < height-1 {
			storeLink(&tower.levels, uint32(height-1))
		}
	}
}

// pathTo finds the way to l at all levels below height and its own. A bucket
// that needs a tower for that gets it.
func (t *Table) pathTo(head *uint32, l *leaf, height int, p *path) {
	first := t.leaf(*head)
	up := t.tower(first)
	if up == nil && height > 1 {
		link, mem := t.take(towerBytes)
		up = (*tower)(mem)
		*up = tower{}
		storeWord(&first.lead, uint64(link))
	}
	if up != nil {
		for i := range up.next {
			p[i+1] = &up.next[i]
		}
	}
	if p[0] = head; l.bound != 0 {
		var k item.Key
		t.node(l.bound).borrow(&k)
		t.descend(head, &search{k: &k}, 0, p)
	}
}

// randomHeight draws the height of a leaf.
func (t *Table) randomHeight() int {
	t.random ^= t.random << 13
	t.random ^= t.random >> 7
	t.random ^= t.random << 17
	return 1 + bits.TrailingZeros64(t.random|1<<(2*maxHeight-2))/2
}
