package survey

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// Tables is what the tables of a container's files and its memtables say of
// logical partitions.
type Tables struct {
	Total      Tally
	Partitions map[engine.PartitionID]*Tally
	Exact      map[engine.PartitionID]bool
	Top        []Logical // largest first; with each, those of one physical partition together
	Bins       []int64   // bytes by place in the key space
}

// Options say what a survey collects.
type Options struct {
	Top  int    // largest logical partitions
	Each bool   // of each physical partition
	Only uint32 // this physical partition; 0: all
	Bins int    // parts of the window
	Window
}

// ReadTables reads the tables of a container.
func ReadTables(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, o Options, line *cli.Line) (*Tables, error) {
	c, err := db.Container(cs.Name)
	if err != nil {
		return nil, err
	}
	s := &Tables{Partitions: make(map[engine.PartitionID]*Tally), Exact: make(map[engine.PartitionID]bool), Bins: make([]int64, o.Bins)}
	for _, p := range cs.Partitions {
		s.Partitions[p.ID] = new(Tally)
		s.Exact[p.ID] = p.Exact
	}
	largest := &topHeap{limit: o.Top}
	last := engine.PartitionID(0)
	for l, err := range c.LogicalPartitions(ctx) {
		if err != nil {
			return nil, err
		}
		if o.Only != 0 && uint32(l.Partition) != o.Only {
			continue
		}
		if o.Each && l.Partition != last {
			s.Top = append(s.Top, largest.sorted()...)
			largest = &topHeap{limit: o.Top}
		}
		last = l.Partition
		one := Tally{l.Versions, 1, l.Bytes}
		s.Total.add(one)
		s.Partitions[l.Partition].add(one)
		if bin := int(math.Floor(o.Part(place(l.Place)) * float64(o.Bins))); bin >= 0 && bin < o.Bins {
			s.Bins[bin] += l.Bytes
		}
		if p := (Logical{Partition: l.Partition, Documents: l.Versions, Bytes: l.Bytes}); largest.wants(p) {
			if p.Key, err = l.Key(); err != nil {
				return nil, err
			}
			largest.offer(p)
		}
		if s.Total.Logical%1024 == 0 {
			line.Show(time.Now(), func() string {
				return c.Name() + ": " + humanize.Count(s.Total.Logical) + " logical partitions"
			})
		}
	}
	s.Top = append(s.Top, largest.sorted()...)
	return s, nil
}

// wants reports whether a logical partition may be among the largest; its key
// need not be known.
func (t *topHeap) wants(p Logical) bool {
	return len(t.list) < t.limit || t.limit > 0 &&
		cmp.Or(cmp.Compare(t.list[0].Bytes, p.Bytes), cmp.Compare(t.list[0].Documents, p.Documents)) <= 0
}
