package survey

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/partmap"
)

// CheapBytes is the size of documents up to which they are read unasked.
const CheapBytes = 256 << 20

// Census is what the reading of all documents of a container found.
type Census struct {
	Partitions []Tally // in the order that was given
	Top        []Logical
}

// Tally counts documents.
type Tally struct {
	Documents int64
	Logical   int64 // partitions
	Bytes     int64 // of the documents
}

func (t *Tally) add(o Tally) {
	t.Documents += o.Documents
	t.Logical += o.Logical
	t.Bytes += o.Bytes
}

// Total adds up the partitions.
func (c *Census) Total() (sum Tally) {
	for _, t := range c.Partitions {
		sum.add(t)
	}
	return sum
}

// Logical is one of the largest ones.
type Logical struct {
	Key       partmap.Key
	Partition engine.PartitionID
	Documents int64
	Bytes     int64
}

// TakeCensus reads the documents of a container at one snapshot. top is how
// many of the largest logical partitions are kept; only, if not 0, is the physical partition
// of which documents are counted.
func TakeCensus(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, top int, only uint32, line *cli.Line) (*Census, error) {
	result := &Census{Partitions: make([]Tally, len(cs.Partitions))}
	largest := topHeap{limit: top}
	var now Logical
	last := 0
	finish := func() {
		if now.Key.Valid() {
			result.Partitions[last].add(Tally{now.Documents, 1, now.Bytes})
			largest.offer(now)
		}
	}
	err := walkDocuments(ctx, db, cs, line, func(at int, it *engine.Item) {
		if only != 0 && uint32(cs.Partitions[at].ID) != only {
			return
		}
		if it.Key != now.Key {
			finish()
			now, last = Logical{Key: it.Key.Clone(), Partition: cs.Partitions[at].ID}, at
		}
		now.Documents++
		now.Bytes += int64(len(it.Body))
	})
	if err != nil {
		return nil, err
	}
	finish()
	result.Top = largest.sorted()
	return result, nil
}

// topHeap keeps the largest logical partitions, the smallest of them first.
type topHeap struct {
	limit int
	list  []Logical
}

func (t *topHeap) offer(p Logical) {
	switch {
	case len(t.list) < t.limit:
		heap.Push(t, p)
	case t.limit > 0 && compareLogical(t.list[0], p) < 0:
		t.list[0] = p
		heap.Fix(t, 0)
	}
}

func (t *topHeap) sorted() []Logical {
	slices.SortFunc(t.list, func(a, b Logical) int { return compareLogical(b, a) })
	return t.list
}

// compareLogical orders by size; of equal ones the first in key order is the
// larger.
func compareLogical(a, b Logical) int {
	return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Documents, b.Documents), cmp.Compare(b.Key.String(), a.Key.String()))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (t *topHeap) Len() int           { return len(t.list) }
func (t *topHeap) Less(i, j int) bool { return compareLogical(t.list[i], t.list[j]) < 0 }
func (t *topHeap) Swap(i, j int)      { t.list[i], t.list[j] = t.list[j], t.list[i] }
func (t *topHeap) Push(x any)         { t.list = append(t.list, x.(Logical)) }
func (t *topHeap) Pop() any {
	last := t.list[len(t.list)-1]
	t.list = t.list[:len(t.list)-1]
	return last
}
