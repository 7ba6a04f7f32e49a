package main

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/partmap"
)

// cheapBytes is the size of documents up to which they are read unasked.
const cheapBytes = 256 << 20

// census is what the reading of all documents of a container found.
type census struct {
	partitions []tally // in the order that was given
	top        []logicalPartition
}

// tally counts documents.
type tally struct {
	documents int64
	logical   int64 // partitions
	bytes     int64 // of the documents
}

func (t *tally) add(o tally) {
	t.documents += o.documents
	t.logical += o.logical
	t.bytes += o.bytes
}

func (c *census) total() (sum tally) {
	for _, t := range c.partitions {
		sum.add(t)
	}
	return sum
}

// logicalPartition is one of the largest ones.
type logicalPartition struct {
	key       partmap.Key
	partition engine.PartitionID
	documents int64
	bytes     int64
}

// takeCensus reads the documents of a container at one snapshot. top is how
// many of the largest logical partitions are kept. Damage is a findingError.
func takeCensus(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, top int, line *cli.Line) (*census, error) {
	result := &census{partitions: make([]tally, len(cs.Partitions))}
	largest := topHeap{limit: top}
	var now logicalPartition
	last := 0
	finish := func() {
		if now.key.Valid() {
			result.partitions[last].add(tally{now.documents, 1, now.bytes})
			largest.offer(now)
		}
	}
	err := walkDocuments(ctx, db, cs, line, func(at int, it *engine.Item) {
		if it.Key != now.key {
			finish()
			now, last = logicalPartition{key: it.Key.Clone(), partition: cs.Partitions[at].ID}, at
		}
		now.documents++
		now.bytes += int64(len(it.Body))
	})
	if err != nil {
		return nil, err
	}
	finish()
	result.top = largest.sorted()
	return result, nil
}

// topHeap keeps the largest logical partitions, the smallest of them first.
type topHeap struct {
	limit int
	list  []logicalPartition
}

func (t *topHeap) offer(p logicalPartition) {
	switch {
	case len(t.list) < t.limit:
		heap.Push(t, p)
	case t.limit > 0 && compareLogical(t.list[0], p) < 0:
		t.list[0] = p
		heap.Fix(t, 0)
	}
}

func (t *topHeap) sorted() []logicalPartition {
	slices.SortFunc(t.list, func(a, b logicalPartition) int { return compareLogical(b, a) })
	return t.list
}

// compareLogical orders by size; of equal ones the first in key order is the
// larger.
func compareLogical(a, b logicalPartition) int {
	return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.documents, b.documents), cmp.Compare(b.key.String(), a.key.String()))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (t *topHeap) Len() int           { return len(t.list) }
func (t *topHeap) Less(i, j int) bool { return compareLogical(t.list[i], t.list[j]) < 0 }
func (t *topHeap) Swap(i, j int)      { t.list[i], t.list[j] = t.list[j], t.list[i] }
func (t *topHeap) Push(x any)         { t.list = append(t.list, x.(logicalPartition)) }
func (t *topHeap) Pop() any {
	last := t.list[len(t.list)-1]
	t.list = t.list[:len(t.list)-1]
	return last
}
