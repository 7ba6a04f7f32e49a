// Package firstkeys remembers what the first keys of a segment file's groups begin with, so
// that a search for a key decodes fewer of them.
//
// A Table keeps 8 bytes, the lead, for one of Every groups: the part of the first key's id
// behind what most ids of the file have in common. It begins empty. A search notes what it
// has decoded, and a later one compares leads.
//
// Invariants:
//
//  1. Where the leads of two ids differ, they order the ids.
//  2. A Table knows nothing of logical partitions. What it says of a group whose first key is
//     of another partition than the key that is sought is wrong, and its caller finds that out.
//
// Only package segment uses it. A Table is safe for concurrent use.
package firstkeys

import (
	"bytes"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
)

// Every is the distance of the groups that are remembered: two probes find one in between.
const Every = 4

// Table is what is remembered of a file.
type Table struct {
	common []byte
	leads  []atomic.Uint64 // 0: not known
}

// New returns a table for so many groups. The ids are two of the file.
func New(groups uint64, a, b []byte) *Table {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	// Two ids may have more in common by chance than all have.
	return &Table{common: bytes.Clone(a[:max(0, n-2)]), leads: make([]atomic.Uint64, groups/Every+1)}
}

// Lead returns the lead of an id.
func (t *Table) Lead(id []byte) uint64 {
	switch n := min(len(id), len(t.common)); bytes.Compare(id[:n], t.common) {
	case -1:
		return 1
	case 1:
		return ^uint64(0)
	}
	return item.HashOf(id[len(t.common):]) | 1
}

// Compare orders the id of the first key of a group and an id with the given lead; 0: what
// is remembered does not tell.
func (t *Table) Compare(group int64, lead uint64) int {
	if group%Every != 0 {
		return 0
	}
	switch known := t.leads[group/Every].Load(); {
	case known == 0 || known == lead:
		return 0
	case known < lead:
		return -1
	}
	return 1
}

// Note remembers the id of the first key of a group.
func (t *Table) Note(group int64, id []byte) {
	if group%Every == 0 {
		t.leads[group/Every].Store(t.Lead(id))
	}
}
