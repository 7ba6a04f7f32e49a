package main

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

// recency says which writes are recent.
type recency struct {
	Recent uint64 `placeholder:"N" help:"Writes are recent if they are among the N newest of the store. Without it, the newest tenth."`
}

// after returns the newest sequence that is not recent, and the newest of all.
func (r *recency) after(db *engine.DB) (after, last uint64) {
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

// heat is where the recent documents of a container lie.
type heat struct {
	documents  int64 // recent ones
	partitions map[engine.PartitionID]int64
	bins       []int64
	first      time.Time // last writes of recent documents
	last       time.Time
	hottest    []hotPartition // hottest first; with each, those of one physical partition together
}

// hotPartition is a logical partition.
type hotPartition struct {
	key       partmap.Key
	partition engine.PartitionID
	recent    int64
	documents int64
}

// heatOptions say what is collected.
type heatOptions struct {
	after uint64 // sequences above it are recent
	top   int    // hottest logical partitions
	each  bool   // of each physical partition
	only  uint32 // this physical partition; 0: all
	bins  int    // parts of the window
	window
}

// takeHeat reads the documents of a container at one snapshot. Damage is a
// findingError.
func takeHeat(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, o heatOptions, line *cli.Line) (*heat, error) {
	h := &heat{partitions: make(map[engine.PartitionID]int64), bins: make([]int64, o.bins)}
	var now hotPartition
	var hottest []hotPartition
	flush := func() { // the hottest of what was collected
		slices.SortFunc(hottest, compareHot)
		h.hottest = append(h.hottest, hottest[:min(len(hottest), o.top)]...)
		hottest = nil
	}
	finish := func() {
		if now.recent == 0 || o.only != 0 && uint32(now.partition) != o.only {
			return
		}
		h.documents += now.recent
		h.partitions[now.partition] += now.recent
		epk := now.key.EPK()
		if bin := int(math.Floor(o.part(position(&epk)) * float64(o.bins))); bin >= 0 && bin < o.bins {
			h.bins[bin] += now.recent
		}
		if o.each && len(hottest) > 0 && hottest[0].partition != now.partition {
			flush()
		}
		hottest = append(hottest, now)
		if len(hottest) > 4*(o.top+64) && !o.each {
			slices.SortFunc(hottest, compareHot)
			hottest = hottest[:o.top]
		}
	}
	err := walkDocuments(ctx, db, cs, line, func(at int, it *engine.Item) {
		if it.Key != now.key {
			finish()
			now = hotPartition{key: it.Key.Clone(), partition: cs.Partitions[at].ID}
		}
		now.documents++
		if it.Seq > o.after {
			now.recent++
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
func compareHot(a, b hotPartition) int {
	return cmp.Or(cmp.Compare(b.recent, a.recent), cmp.Compare(b.documents, a.documents), cmp.Compare(a.key.String(), b.key.String()))
}

// span says over which time the recent documents were written.
func (h *heat) span() string {
	if h.documents == 0 {
		return ""
	}
	const form = "2006-01-02 15:04:05"
	first, last := h.first.UTC(), h.last.UTC()
	if last.Sub(first) < time.Second {
		return ", at " + last.Format(form) + " UTC"
	}
	return ", from " + first.Format(form) + " to " + last.Format(form) + " UTC"
}
