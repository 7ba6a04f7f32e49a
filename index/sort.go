package index

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sortKey is a term of one path with the first 8 bytes of its value.
type sortKey struct {
	head uint64
	term uint32
	kind Type
}

// fewKeys is the number of keys up to which comparing them is faster than sorting by digits
// (BenchmarkSortKeys).
const fewKeys = 256

// sortTerms sorts terms of one path.
func (b *Builder) sortTerms(terms []uint32) {
	keys := b.keys[:0]
	kinds := uint32(0)
	for _, i := range terms {
		k := b.sortKeyOf(i)
		kinds |= 1 << (k.kind & 31)
		keys = append(keys, k)
	}
	b.keys = keys
	switch {
	case len(keys) <= fewKeys || kinds&(kinds-1) != 0:
		slices.SortFunc(keys, b.compareKeys)
	default:
		b.spareKeys = resized(b.spareKeys, len(keys))
		keys = sortByHead(keys, b.spareKeys)
		if keys[0].kind.isText() {
			b.sortEqualHeads(keys)
		}
	}
	for i := range keys {
		terms[i] = keys[i].term
	}
}

func (b *Builder) sortKeyOf(i uint32) sortKey {
	t := &b.terms[i]
	if !t.kind.isText() {
		return sortKey{t.value, i, t.kind}
	}
	var head [8]byte
	copy(head[:], b.texts[t.value:][:t.size])
	return sortKey{binary.BigEndian.Uint64(head[:]), i, t.kind}
}

// compareKeys orders terms of one path.
func (b *Builder) compareKeys(x, y sortKey) int {
	switch {
	case x.kind != y.kind:
		return int(x.kind) - int(y.kind)
	case x.head < y.head:
		return -1
	case x.head > y.head:
		return 1
	case !x.kind.isText():
		return 0
	}
	s, t := &b.terms[x.term], &b.terms[y.term]
	return bytes.Compare(b.texts[s.value:][:s.size], b.texts[t.value:][:t.size])
}

// sortEqualHeads sorts texts that begin alike, of texts that are sorted by their heads.
func (b *Builder) sortEqualHeads(keys []sortKey) {
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].head == keys[0].head {
			n++
		}
		if n > 1 {
			slices.SortFunc(keys[:n], b.compareKeys)
		}
		keys = keys[n:]
	}
}

// sortByHead sorts keys by the bytes of their heads, the last first. It passes over bytes that
// are the same in all. The result is in keys or in spare, which is as long.
func sortByHead(keys, spare []sortKey) []sortKey {
	var counts [8][256]uint32
	for i := range keys {
		head := keys[i].head
		for d := range counts {
			counts[d][byte(head>>(8*d))]++
		}
	}
	for d := range counts {
		count := &counts[d]
		if count[byte(keys[0].head>>(8*d))] == uint32(len(keys)) {
			continue
		}
		sum := uint32(0)
		for v := range count {
			count[v], sum = sum, sum+count[v]
		}
		for i := range keys {
			v := byte(keys[i].head >> (8 * d))
			spare[count[v]] = keys[i]
			count[v]++
		}
		keys, spare = spare, keys
	}
	return keys
}
