package survey

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/partmap"
)

// Nothing on disk says how often something was read or written. What is there is
// the place of each document's last write in the order of all writes of the
// store. So a document is taken for recent, and where it lies for hot, if its
// last write is among the newest ones. Reads leave no trace, and a document that
// is written a thousand times counts once: this is where writes went, not how
// many.

// Recency says which writes are recent.
type Recency struct {
	Recent uint64 `placeholder:"N" help:"Writes are recent if they are among the N newest of the store. Without it, the newest tenth."`

	of    *engine.DB // the store of which found is known
	found recent
}

// recent are the writes that are recent.
type recent struct {
	after  uint64 // the newest sequence that is not recent
	writes uint64
}

// Find returns which writes of a store are recent. It reads all documents of a store that was
// once not closed: see stretches.
func (r *Recency) Find(ctx context.Context, db *engine.DB, line *cli.Line) (after, writes uint64, err error) {
	if r.of == db {
		return r.found.after, r.found.writes, nil
	}
	all := []stretch{{first: 1}}
	stats := db.Stats()
	for _, cs := range stats.Containers {
		for _, p := range cs.Partitions {
			all[0].last = max(all[0].last, p.Visible)
		}
	}
	if all[0].last >= 1<<32 {
		if all, err = stretches(ctx, db, stats.Containers, line); err != nil {
			return 0, 0, err
		}
	}
	n := r.Recent
	if n == 0 {
		for _, s := range all {
			n += s.writes()
		}
		n = (n + 9) / 10
	}
	r.of, r.found = db, recent{}
	for _, s := range slices.Backward(all) {
		count := min(n-r.found.writes, s.writes())
		r.found.after = s.last - count
		if r.found.writes += count; r.found.writes == n {
			break
		}
	}
	return r.found.after, r.found.writes, nil
}

// stretch is a range of sequences without large gaps.
type stretch struct{ first, last uint64 }

func (s stretch) writes() uint64 { return s.last + 1 - s.first }

// stretches returns the sequences of all documents, the oldest first. A store that is opened
// after a crash leaves out some 2³² sequences, so those of one stretch have the same upper half.
func stretches(ctx context.Context, db *engine.DB, containers []engine.ContainerStats, line *cli.Line) ([]stretch, error) {
	of := make(map[uint64]stretch)
	for i := range containers {
		err := walkDocuments(ctx, db, &containers[i], line, func(_ int, it *engine.Item) {
			s, ok := of[it.Seq>>32]
			if !ok {
				s.first = it.Seq
			}
			of[it.Seq>>32] = stretch{min(s.first, it.Seq), max(s.last, it.Seq)}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(of), func(a, b stretch) int { return cmp.Compare(a.first, b.first) }), nil
}

// Heat is where the recent documents of a container lie.
type Heat struct {
	Documents  int64 // recent ones
	Partitions map[engine.PartitionID]int64
	Bins       []int64
	first      time.Time // last writes of recent documents
	last       time.Time
	Hottest    []Hot // hottest first; with each, those of one physical partition together
}

// Hot is a logical partition.
type Hot struct {
	Key       partmap.Key
	Partition engine.PartitionID
	Recent    int64
	Documents int64
}

// HeatOptions say what is collected.
type HeatOptions struct {
	Options        // Top: the hottest logical partitions
	After   uint64 // sequences above it are recent
}

// TakeHeat reads the documents of a container at one snapshot.
func TakeHeat(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, o HeatOptions, line *cli.Line) (*Heat, error) {
	h := &Heat{Partitions: make(map[engine.PartitionID]int64), Bins: make([]int64, o.Bins)}
	var now Hot
	var hottest []Hot
	flush := func() { // the hottest of what was collected
		slices.SortFunc(hottest, compareHot)
		h.Hottest = append(h.Hottest, hottest[:min(len(hottest), o.Top)]...)
		hottest = nil
	}
	finish := func() {
		if now.Recent == 0 {
			return
		}
		h.Documents += now.Recent
		h.Partitions[now.Partition] += now.Recent
		epk := now.Key.EPK()
		if bin := int(math.Floor(o.Part(Position(&epk)) * float64(o.Bins))); bin >= 0 && bin < o.Bins {
			h.Bins[bin] += now.Recent
		}
		if o.Each && len(hottest) > 0 && hottest[0].Partition != now.Partition {
			flush()
		}
		hottest = append(hottest, now)
		if len(hottest) > 4*(o.Top+64) {
			slices.SortFunc(hottest, compareHot)
			hottest = hottest[:o.Top]
		}
	}
	err := walkDocuments(ctx, db, cs, line, func(at int, it *engine.Item) {
		if o.Only != 0 && uint32(cs.Partitions[at].ID) != o.Only {
			return
		}
		if it.Key != now.Key {
			finish()
			now = Hot{Key: it.Key.Clone(), Partition: cs.Partitions[at].ID}
		}
		now.Documents++
		if it.Seq > o.After {
			now.Recent++
			if h.first.IsZero() || it.Modified.Before(h.first) {
				h.first = it.Modified
			}
			if it.Modified.After(h.last) {
				h.last = it.Modified
			}
		}
	})
	if err != nil {
		return nil, err
	}
	finish()
	flush()
	return h, nil
}

// compareHot orders the hottest first; of equal ones that with the smaller key.
func compareHot(a, b Hot) int {
	return cmp.Or(cmp.Compare(b.Recent, a.Recent), cmp.Compare(b.Documents, a.Documents), cmp.Compare(a.Key.String(), b.Key.String()))
}

// Span says over which time the recent documents were written.
func (h *Heat) Span() string {
	if h.Documents == 0 {
		return ""
	}
	const form = "2006-01-02 15:04:05"
	first, last := h.first.UTC(), h.last.UTC()
	if last.Sub(first) < time.Second {
		return ", at " + last.Format(form) + " UTC"
	}
	return ", from " + first.Format(form) + " to " + last.Format(form) + " UTC"
}
