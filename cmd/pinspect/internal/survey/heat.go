package survey

import (
	"cmp"
	"context"
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
}

// After returns the newest sequence that is not recent, and the newest of all.
func (r *Recency) After(db *engine.DB) (after, last uint64) {
	for _, cs := range db.Stats().Containers {
		for _, p := range cs.Partitions {
			last = max(last, p.Visible)
		}
	}
	n := r.Recent
	if n == 0 {
		n = (last + 9) / 10
	}
	return last - min(n, last), last
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
