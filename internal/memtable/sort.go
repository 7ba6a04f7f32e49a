package memtable

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
)

// sorter brings nodes into key order.
type sorter struct {
	table *Table
	alike bool // all keys have parts of the same lengths, but for the id

	touched byte // makes the processor fetch the ends of keys early
	spare   [maxEntries]ranked
}

// ranked is a node that is sorted. Its rank, the eight bytes after those that
// all keys begin with, decides most comparisons.
type ranked struct {
	rank uint64
	rest []byte // of the key, from the rank on
	link uint32
}

const insertionRun = 8 // sorted by insertion, longer runs by merging

// sort brings links of nodes into key order; the first ordered ones are so.
func (t *Table) sort(links []uint32, ordered int) {
	if ordered >= len(links) {
		return
	}
	s := sorter{table: t}
	var items [maxEntries]ranked
	s.rank(items[:len(links)], links, ordered)
	s.sort(items[:len(links)], ordered)
	for i := range links {
		links[i] = items[i].link
	}
}

// rank fills items.
func (s *sorter) rank(items []ranked, links []uint32, ordered int) {
	// Nothing in this loop waits for what it loads: the processor fetches many
	// nodes at a time.
	lengths := s.table.node(links[0]).lengths
	differ := uint32(0)
	for i, link := range links {
		n := s.table.node(link)
		differ |= n.lengths ^ lengths
		items[i].rest, items[i].link = n.bytes(), link
		s.touched += n.end()
	}
	if s.alike = differ&partitionMask == 0; !s.alike {
		for i := range items {
			epk, _, _ := s.table.node(items[i].link).split()
			items[i].rest = items[i].rest[:epk]
			items[i].rank = leading(items[i].rest)
		}
		return
	}
	prefix := items[0].rest
	for i := max(ordered-1, 1); i < len(items); i++ { // of the ordered ones the last differs most from the first
		prefix = prefix[:common(prefix, items[i].rest)]
	}
	for i := range items {
		items[i].rest = items[i].rest[len(prefix):]
		items[i].rank = leading(items[i].rest)
	}
}

func (s *sorter) sort(items []ranked, ordered int) {
	switch n := len(items); {
	case ordered >= n:
	case n <= insertionRun:
		for i := max(ordered, 1); i < n; i++ {
			x, j := items[i], i
			for ; j > 0 && s.less(&x, &items[j-1]); j-- {
				items[j] = items[j-1]
			}
			items[j] = x
		}
	case ordered > 0:
		s.sort(items[ordered:], 0)
		s.merge(items, ordered)
	default:
		s.sort(items[:n/2], 0)
		s.sort(items[n/2:], 0)
		s.merge(items, n/2)
	}
}

// merge joins the sorted items before mid and from mid on.
func (s *sorter) merge(items []ranked, mid int) {
	to := len(items)
	tail := s.spare[:copy(s.spare[:], items[mid:])]
	for i, j := mid, len(tail); j > 0; {
		to--
		if i > 0 && s.less(&tail[j-1], &items[i-1]) {
			i--
			items[to] = items[i]
		} else {
			j--
			items[to] = tail[j]
		}
	}
}

func (s *sorter) less(a, b *ranked) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return s.lessByKey(a, b)
}

func (s *sorter) lessByKey(a, b *ranked) bool {
	if s.alike {
		return bytes.Compare(a.rest, b.rest) < 0
	}
	return s.table.less(a.link, b.link)
}

// less reports whether the key of node a sorts before that of node b.
func (t *Table) less(a, b uint32) bool {
	var k item.Key
	t.node(b).borrow(&k)
	return t.node(a).compare(&k) < 0
}

// lowerBound returns the index of the first of sorted links whose node is not
// below k.
func (t *Table) lowerBound(links []uint32, k *item.Key) int {
	low, high := 0, len(links)
	for low < high {
		if mid := int(uint(low+high) >> 1); t.node(links[mid]).compare(k) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
