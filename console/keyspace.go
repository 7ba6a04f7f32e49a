package console

import (
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// rowBlocks is how many blocks a row has at most, and barBlocks the bar of a container:
// more than a screen can tell apart.
const (
	rowBlocks = 128
	barBlocks = 512
)

// Block is a part of the key space: a physical partition, or neighbours that are too
// narrow to be seen one by one.
type Block struct {
	From       float64              `json:"from"` // 0 to 1 are 00 to 3F…FF
	To         float64              `json:"to"`
	ID         engine.PartitionID   `json:"id"` // of the first partition
	Parents    []engine.PartitionID `json:"parents,omitempty"`
	Min        string               `json:"min"`
	Max        string               `json:"max"`
	Partitions int                  `json:"partitions"`
	Total
	Hottest float64 `json:"hottest_ru_per_s"`  // of one of the partitions
	Damaged bool    `json:"damaged,omitempty"` // some damage was met in it
}

// Total is what physical partitions have together.
type Total struct {
	Documents int64   `json:"documents"` // at most
	Dead      int64   `json:"dead"`      // versions that a compaction would drop
	RawBytes  int64   `json:"raw_bytes"`
	FileBytes int64   `json:"file_bytes"`
	Units     float64 `json:"load_ru_per_s"`
	Limit     float64 `json:"throughput_ru_per_s"` // 0: none
	Throttled int64   `json:"throttled"`
}

func (t *Total) add(p *engine.PartitionStats, units float64) {
	t.Documents += p.Items
	t.Dead += p.Dead
	t.RawBytes += p.RawBytes
	t.FileBytes += p.FileBytes
	t.Units += finite(units)
	t.Limit += p.Throughput
	t.Throttled += p.Throttled
}

func totalOf(cs *engine.ContainerStats) (t Total) {
	for i := range cs.Partitions {
		t.add(&cs.Partitions[i], cs.Partitions[i].Load)
	}
	return t
}

// blocksOf divides a container into blocks, most of them at most, in key-space order.
func blocksOf(cs *engine.ContainerStats, s *sample, most int) []Block {
	heat := heatOf(cs, s)
	var blocks []Block
	for i := range cs.Partitions {
		p := &cs.Partitions[i]
		from, to, units := placeOf(p.Min), placeOf(p.Max), heat(p)
		n := len(blocks) - 1
		if n < 0 || len(cs.Partitions) > most && blocks[n].To-blocks[n].From < 1/float64(most-1) {
			if n < 0 {
				blocks = append(blocks, Block{From: from, Min: p.Min, ID: p.ID, Parents: p.Parents})
				n = 0
			}
		} else {
			blocks = append(blocks, Block{From: from, Min: p.Min, ID: p.ID, Parents: p.Parents})
			n++
		}
		b := &blocks[n]
		b.To, b.Max = to, p.Max
		b.Partitions++
		b.add(p, units)
		b.Hottest = max(b.Hottest, finite(units))
		b.Damaged = b.Damaged || s.damaged[damagedPartition{cs.Name, p.ID}]
	}
	return blocks
}

// heatOf returns what a partition consumes: exactly, since the sample before, where it is
// metered; else what the engine estimates.
func heatOf(cs *engine.ContainerStats, s *sample) func(*engine.PartitionStats) float64 {
	consumed := make(map[engine.PartitionID]float64)
	var seconds float64
	if s.before != nil && !s.closed {
		if then := s.before.index[cs.Name]; then != nil {
			seconds = s.at.Sub(s.before.at).Seconds()
			for i := range then.Partitions {
				if p := &then.Partitions[i]; p.Throughput > 0 {
					consumed[p.ID] = p.Consumed
				}
			}
		}
	}
	return func(p *engine.PartitionStats) float64 {
		if then, ok := consumed[p.ID]; ok && p.Throughput > 0 && p.Consumed >= then {
			return (p.Consumed - then) / seconds
		}
		return p.Load
	}
}

// heat returns what a partition consumes; false: the sample does not have it.
func (s *sample) heat(container string, id engine.PartitionID) (float64, bool) {
	cs := s.index[container]
	if cs == nil {
		return 0, false
	}
	for i := range cs.Partitions {
		if p := &cs.Partitions[i]; p.ID == id {
			return finite(heatOf(cs, s)(p)), true
		}
	}
	return 0, false
}

// placeOf returns where in the key space an EPK in hexadecimal digits lies: 0 to 1.
func placeOf(epk string) float64 {
	digits := (epk + "0000000000000000")[:16]
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0
	}
	return min(1, float64(n)/(1<<62))
}
