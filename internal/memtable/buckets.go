package memtable

import (
	"math/bits"
	"unsafe"
)

const (
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
	occupied uint64              // published, invariant 7
	heads    [pageBuckets]uint32 // link of the first leaf, 0 for an empty bucket; published
}

// directory is the array of links to the pages.
func (t *Table) directory(i int) *uint32 {
	return (*uint32)(unsafe.Add(t.at(1), linkBytes*i))
}

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

// bucketFrom returns the first occupied bucket not before b, -1 if there is
// none, and its head.
func (t *Table) bucketFrom(b int) (int, *uint32) {
	want := ^uint64(0) << (b % pageBuckets)
	for i := b / pageBuckets; i < t.buckets.pages(); i++ {
		if p, set := t.occupied(i); set&want != 0 {
			at := bits.TrailingZeros64(set & want)
			return i*pageBuckets + at, &p.heads[at]
		}
		want = ^uint64(0)
	}
	return -1, nil
}

// bucketUpTo returns the last occupied bucket not after b, -1 if there is none,
// and its head. b may be -1.
func (t *Table) bucketUpTo(b int) (int, *uint32) {
	if b < 0 {
		return -1, nil
	}
	want := ^uint64(0) >> (pageBuckets - 1 - b%pageBuckets)
	for i := b / pageBuckets; i >= 0; i-- {
		if p, set := t.occupied(i); set&want != 0 {
			at := bits.Len64(set&want) - 1
			return i*pageBuckets + at, &p.heads[at]
		}
		want = ^uint64(0)
	}
	return -1, nil
}
