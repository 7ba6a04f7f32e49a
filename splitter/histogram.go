package splitter

import (
	"slices"
	"sort"

	"github.com/cleavestore/cleave/partmap"
)

// maxPoints bounds a histogram: beyond it neighbours are joined.
const maxPoints = 1 << 16

// Histogram is a Source in memory: the bytes of a memtable, or sampled load. It
// is filled by Add, then read; it serves one goroutine.
type Histogram struct {
	points []point
	before []int64 // weight before each point, and all of it; nil: to be computed
}

type point struct {
	at     partmap.EPK
	weight int64
}

// Add puts weight at an EPK.
func (h *Histogram) Add(at partmap.EPK, weight int64) {
	h.before = nil
	if n := len(h.points); n > 0 && h.points[n-1].at == at {
		h.points[n-1].weight += weight
		return
	}
	h.points = append(h.points, point{at, weight})
	if len(h.points) >= 2*maxPoints {
		h.thin()
	}
}

// order sorts the points and joins equal ones.
func (h *Histogram) order() {
	slices.SortStableFunc(h.points, func(a, b point) int { return a.at.Compare(&b.at) })
	kept := h.points[:0]
	for _, p := range h.points {
		if n := len(kept); n > 0 && kept[n-1].at.Compare(&p.at) == 0 {
			kept[n-1].weight += p.weight
		} else {
			kept = append(kept, p)
		}
	}
	h.points = kept
}

// thin joins each second point with the one before it.
func (h *Histogram) thin() {
	h.order()
	if len(h.points) < maxPoints {
		return
	}
	kept := h.points[:0]
	for i, p := range h.points {
		if i%2 == 0 {
			kept = append(kept, p)
		} else {
			kept[len(kept)-1].weight += p.weight
		}
	}
	h.points = kept
}

func (h *Histogram) ready() {
	if h.before != nil {
		return
	}
	h.order()
	h.before = make([]int64, len(h.points)+1)
	for i, p := range h.points {
		h.before[i+1] = h.before[i] + p.weight
	}
}

// Len implements Source.
func (h *Histogram) Len() int {
	h.ready()
	return len(h.points)
}

// At implements Source.
func (h *Histogram) At(i int) (partmap.EPK, error) { return h.points[i].at, nil }

// Find implements Source.
func (h *Histogram) Find(at *partmap.EPK) (int, error) {
	h.ready()
	return sort.Search(len(h.points), func(i int) bool { return h.points[i].at.Compare(at) >= 0 }), nil
}

// Before implements Source.
func (h *Histogram) Before(i int) (int64, error) {
	h.ready()
	return h.before[i], nil
}
