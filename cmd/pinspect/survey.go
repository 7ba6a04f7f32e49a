package main

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// tableSurvey is what the tables of a container's files and its memtables say of
// logical partitions.
type tableSurvey struct {
	total      tally
	partitions map[engine.PartitionID]*tally
	exact      map[engine.PartitionID]bool
	top        []logicalPartition // largest first; with each, those of one physical partition together
	bins       []int64            // bytes by place in the key space
}

// surveyOptions say what a survey collects.
type surveyOptions struct {
	top  int    // largest logical partitions
	each bool   // of each physical partition
	only uint32 // this physical partition; 0: all
	bins int    // parts of the window
	window
}

// surveyTables reads the tables of a container. Damage is a findingError.
func surveyTables(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, o surveyOptions, line *cli.Line) (*tableSurvey, error) {
	c, err := db.Container(cs.Name)
	if err != nil {
		return nil, err
	}
	s := &tableSurvey{partitions: make(map[engine.PartitionID]*tally), exact: make(map[engine.PartitionID]bool), bins: make([]int64, o.bins)}
	for _, p := range cs.Partitions {
		s.partitions[p.ID] = new(tally)
		s.exact[p.ID] = p.Exact
	}
	largest := &topHeap{limit: o.top}
	last := engine.PartitionID(0)
	for l, err := range c.LogicalPartitions(ctx) {
		if err != nil {
			return nil, readFailure(err)
		}
		if o.only != 0 && uint32(l.Partition) != o.only {
			continue
		}
		if o.each && l.Partition != last {
			s.top = append(s.top, largest.sorted()...)
			largest = &topHeap{limit: o.top}
		}
		last = l.Partition
		one := tally{l.Versions, 1, l.Bytes}
		s.total.add(one)
		s.partitions[l.Partition].add(one)
		if bin := int(math.Floor(o.part(place(l.Place)) * float64(o.bins))); bin >= 0 && bin < o.bins {
			s.bins[bin] += l.Bytes
		}
		if p := (logicalPartition{partition: l.Partition, documents: l.Versions, bytes: l.Bytes}); largest.wants(p) {
			if p.key, err = l.Key(); err != nil {
				return nil, readFailure(err)
			}
			largest.offer(p)
		}
		if s.total.logical%1024 == 0 {
			line.Show(time.Now(), func() string {
				return c.Name() + ": " + cli.Count(s.total.logical) + " logical partitions"
			})
		}
	}
	s.top = append(s.top, largest.sorted()...)
	return s, nil
}

// wants reports whether a logical partition may be among the largest; its key
// need not be known.
func (t *topHeap) wants(p logicalPartition) bool {
	return len(t.list) < t.limit || t.limit > 0 &&
		cmp.Or(cmp.Compare(t.list[0].bytes, p.bytes), cmp.Compare(t.list[0].documents, p.documents)) <= 0
}
