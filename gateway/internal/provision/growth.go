package provision

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// Part is a physical partition.
type Part struct {
	ID    string
	Bytes int64
}

// Container is what Growth splits the partitions of.
type Container interface {
	Parts() []Part
	// Split splits a partition, and returns when it is split.
	Split(id string) error
}

// Growth splits the physical partitions of a container until there are as many as its throughput needs. The zero value is
// ready. It is safe for concurrent use.
type Growth struct {
	mu     sync.Mutex
	wanted int
	busy   bool // a goroutine splits
}

// To says what throughput the container has. It does not wait for splits; if some are needed, ended is called behind the last one,
// with an error if there are too few partitions still and none of them could be split.
func (g *Growth) To(throughput int, of Container, ended func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = (throughput + OfPartition - 1) / OfPartition
	if g.busy || len(of.Parts()) >= g.wanted {
		return
	}
	g.busy = true
	go func() { ended(g.run(of)) }()
}

// Pending reports whether there are to be more partitions yet.
func (g *Growth) Pending() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy
}

// run splits each of the largest partitions once, and begins anew if that does not suffice: so what is even stays so.
func (g *Growth) run(of Container) error {
	before, tried := 0, 0 // how many partitions there were, and how many were wanted
	var failed error
	for {
		parts := of.Parts()
		g.mu.Lock()
		missing, stuck := g.wanted-len(parts), len(parts) <= before && g.wanted == tried
		if missing <= 0 || stuck {
			g.busy = false
			g.mu.Unlock()
			if missing <= 0 {
				return nil
			}
			return cmp.Or(failed, errors.New("a split has made no partition"))
		}
		before, tried, failed = len(parts), g.wanted, nil
		g.mu.Unlock()
		slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
		for _, p := range parts {
			if missing == 0 {
				break
			}
			if err := of.Split(p.ID); err != nil {
				failed = err // another one may be split
				continue
			}
			missing--
		}
	}
}
