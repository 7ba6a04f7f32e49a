package memtable

import (
	"math/bits"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

const (
	maxHeight      = 13 // a quarter of the nodes of a level reach the next
	minBuckets     = 64
	maxBuckets     = 16 << 10
	itemsPerBucket = 16
	pageBuckets    = 64
)

// buckets maps hashes to buckets: bucket = (hash - lo) * scale >> 64.
type buckets struct {
	lo, last uint64 // first and last hash of the range
	scale    uint64
	count    int
}

func makeBuckets(r Range, expectItems int) buckets {
	b := buckets{lo: r.Lo, last: r.Hi - 1}
	b.count = min(max(expectItems/itemsPerBucket, minBuckets), maxBuckets)
	if b.last < b.lo {
		b.lo, b.last = 0, ^uint64(0)
	}
	switch span := b.last - b.lo + 1; {
	case span == 0: // all of the key space
		b.scale = uint64(b.count)
	case span <= uint64(b.count):
		b.scale = ^uint64(0)
	default:
		b.scale, _ = bits.Div64(uint64(b.count), 0, span)
	}
	return b
}

func (b *buckets) of(hash uint64) int {
	if hash < b.lo {
		return 0
	}
	if hash > b.last {
		return b.count - 1
	}
	i, _ := bits.Mul64(hash-b.lo, b.scale)
	return int(i)
}

func (b *buckets) pages() int { return (b.count + pageBuckets - 1) / pageBuckets }

// page holds the heads of neighbouring buckets; it is made with the first one.
type page struct {
	occupied uint64 // published, invariant 5
	heads    [pageBuckets]uint32
}

// head is the tower from which searches in a bucket start.
type head struct {
	height uint32 // levels in use; published
	tower  [maxHeight]uint32
}

// directory is the array of links to the pages.
func (t *Table) directory(i int) *uint32 { return level(t.at(1), i) }

// page returns page i, nil if none of its buckets was used.
func (t *Table) page(i int) *page {
	link := loadLink(t.directory(i))
	if link == 0 {
		return nil
	}
	return (*page)(t.at(link))
}

// occupied returns the set of occupied buckets of page i, as bits.
func (t *Table) occupied(i int) (*page, uint64) {
	p := t.page(i)
	if p == nil {
		return nil, 0
	}
	return p, loadWord(&p.occupied)
}

// headFrom returns the head of the first occupied bucket not before b, nil if
// there is none.
func (t *Table) headFrom(b int) *head {
	want := ^uint64(0) << (b % pageBuckets)
	for i := b / pageBuckets; i < t.buckets.pages(); i++ {
		if p, set := t.occupied(i); set&want != 0 {
			return t.head(p, bits.TrailingZeros64(set&want))
		}
		want = ^uint64(0)
	}
	return nil
}

// headUpTo returns the head of the last occupied bucket not after b, nil if
// there is none.
func (t *Table) headUpTo(b int) *head {
	want := ^uint64(0) >> (pageBuckets - 1 - b%pageBuckets)
	for i := b / pageBuckets; i >= 0; i-- {
		if p, set := t.occupied(i); set&want != 0 {
			return t.head(p, bits.Len64(set&want)-1)
		}
		want = ^uint64(0)
	}
	return nil
}

func (t *Table) head(p *page, i int) *head { return (*head)(t.at(loadLink(&p.heads[i]))) }

// path is the way of a search: per level the link that leads past the key.
type path [maxHeight]*uint32

// descend searches from h: before is the last node found below k (nil: none in
// this bucket or after it), after the link to the first node that is not. It
// records its way in p unless p is nil. A nil key is after all keys.
func (t *Table) descend(h *head, k *item.Key, p *path) (before *node, beforeLink, after uint32) {
	tower := unsafe.Pointer(&h.tower)
	known := uint32(0) // link to a node known not to be below k
	for i := int(loadLink(&h.height)) - 1; i >= 0; i-- {
		at := level(tower, i)
		after = loadLink(at)
		for after != known && after != 0 {
			n := t.node(after)
			if !n.below(k) {
				known = after
				break
			}
			before, beforeLink, tower = n, after, n.tower()
			at = level(tower, i)
			after = loadLink(at)
		}
		if p != nil {
			p[i] = at
		}
	}
	return before, beforeLink, after
}

// seekGE returns the first node not below k, nil if there is none.
func (t *Table) seekGE(k *item.Key) *node {
	if t.slots.Load() == 0 {
		return nil
	}
	b := t.buckets.of(k.Hash)
	p, set := t.occupied(b / pageBuckets)
	if i := b % pageBuckets; set>>i&1 != 0 {
		_, _, after := t.descend(t.head(p, i), k, nil)
		return t.nodeOrNil(after)
	}
	// Not from b: what has since been inserted there may be below k.
	return t.firstFrom(b + 1)
}

// firstFrom returns the first node of the buckets from b on.
func (t *Table) firstFrom(b int) *node {
	if h := t.headFrom(b); h != nil {
		return t.node(loadLink(&h.tower[0]))
	}
	return nil
}

// first returns the first node of all.
func (t *Table) first() *node {
	if t.slots.Load() == 0 {
		return nil
	}
	return t.firstFrom(0)
}

// seekLT returns the last node below k, nil if there is none. A nil key is
// after all keys.
func (t *Table) seekLT(k *item.Key) *node {
	if t.slots.Load() == 0 {
		return nil
	}
	b := t.buckets.count - 1
	if k != nil {
		b = t.buckets.of(k.Hash)
	}
	h := t.headUpTo(b)
	if h == nil {
		return nil
	}
	n, _, after := t.descend(h, k, nil)
	if n != nil {
		return n
	}
	// k is not above the first node of its bucket.
	return t.backBelow(t.nodeOrNil(after), k)
}

// backBelow goes back from n to the last node below k. Nodes inserted since n
// was found may lie between.
func (t *Table) backBelow(n *node, k *item.Key) *node {
	for n != nil && !n.below(k) {
		n = t.nodeOrNil(loadLink(&n.previous))
	}
	return n
}

// place is where a new node goes.
type place struct {
	page          *page
	bucket        int // in the page
	head          *head
	path          path
	before, after uint32 // neighbours on the lowest level, 0: none
}

// locate finds the place of a key that the table does not have. It makes the
// page and the head of its bucket if they are missing.
func (t *Table) locate(k *item.Key, at *place, force bool) error {
	b := t.buckets.of(k.Hash)
	at.bucket = b % pageBuckets
	if at.page = t.page(b / pageBuckets); at.page == nil {
		link, mem, err := t.alloc(int(unsafe.Sizeof(page{})), force)
		if err != nil {
			return err
		}
		at.page = (*page)(mem)
		*at.page = page{}
		storeLink(t.directory(b/pageBuckets), link)
	}
	if at.page.heads[at.bucket] == 0 {
		link, mem, err := t.alloc(int(unsafe.Sizeof(head{})), force)
		if err != nil {
			return err
		}
		*(*head)(mem) = head{}
		storeLink(&at.page.heads[at.bucket], link)
	}
	at.head = t.head(at.page, at.bucket)
	_, at.before, at.after = t.descend(at.head, k, &at.path)
	switch {
	case at.before != 0:
	case at.after != 0:
		at.before = t.node(at.after).previous
	default: // the first node of its bucket
		if h := t.headUpTo(b); h != nil {
			_, at.before, at.after = t.descend(h, k, nil)
		} else if h := t.headFrom(b); h != nil {
			at.after = h.tower[0]
		}
	}
	return nil
}

// insert links a filled node of the given height at its place: first the
// lowest level in both directions, then the others upwards.
func (t *Table) insert(n *node, link uint32, height int, at *place) {
	n.previous = at.before
	for i := int(at.head.height); i < height; i++ {
		at.path[i] = &at.head.tower[i]
	}
	*level(n.tower(), 0) = at.after
	for i := 1; i < height; i++ {
		*level(n.tower(), i) = *at.path[i]
	}
	if at.before != 0 {
		storeLink(level(t.node(at.before).tower(), 0), link)
	}
	if at.after != 0 {
		storeLink(&t.node(at.after).previous, link)
	}
	for i := range height {
		storeLink(at.path[i], link)
	}
	if height > int(at.head.height) {
		storeLink(&at.head.height, uint32(height))
	}
	if bit := uint64(1) << at.bucket; at.page.occupied&bit == 0 {
		storeWord(&at.page.occupied, at.page.occupied|bit)
	}
}

// randomHeight draws the height of a node.
func (t *Table) randomHeight() int {
	t.random ^= t.random << 13
	t.random ^= t.random >> 7
	t.random ^= t.random << 17
	return 1 + bits.TrailingZeros64(t.random|1<<(2*maxHeight-2))/2
}
