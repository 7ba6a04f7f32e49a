package layout

import (
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
)

// FeedHistory is what a container keeps for its change feed of all versions.
type FeedHistory struct {
	Retention string `json:"retention"`
	// Since is the sequence above which there is every version, in all physical
	// partitions; 0: of all that was written.
	Since uint64 `json:"all_above_seq"`
	// SinceTime is when that was written at the latest, RFC 3339; empty: the store
	// does not know.
	SinceTime string `json:"all_since,omitempty"`
	// Older counts the versions and tombstones in files that are not the present
	// state of an item, about; Bytes is their share of the documents.
	Older int64 `json:"older_versions"`
	Bytes int64 `json:"older_raw_bytes"`
}

// DescribeFeed returns nil for a container that keeps no changes.
func DescribeFeed(state *manifest.Store, view *Container) *FeedHistory {
	if view.ChangeRetention == 0 {
		return nil
	}
	h := &FeedHistory{Retention: (time.Duration(view.ChangeRetention) * time.Millisecond).String()}
	var items, raw int64
	for _, p := range view.Partitions {
		h.Since = max(h.Since, p.Files.ChangeFloor)
		for i := range p.Files.Runs {
			h.Older += p.Files.Runs[i].Shadowed
		}
		for s := range p.segments() {
			if s.Props != nil {
				items += int64(s.Props.Items)
				raw += int64(s.Props.RawBytes)
				h.Older += int64(s.Props.Items - s.Props.Keys + s.Props.Tombstones)
			}
		}
	}
	if h.Older = min(h.Older, items); items > 0 {
		h.Bytes = int64(float64(raw) * float64(h.Older) / float64(items))
	}
	for _, mark := range state.Marks {
		if h.Since > 0 && mark.Seq >= h.Since {
			h.SinceTime = time.UnixMilli(mark.Time).UTC().Format(time.RFC3339)
			break
		}
	}
	return h
}

// Text says it in a line.
func (h *FeedHistory) Text() string {
	since := "everything that was written"
	if h.Since > 0 {
		since = "everything above sequence " + humanize.Count(h.Since)
	}
	if h.SinceTime != "" {
		since += ", written by " + h.SinceTime
	}
	return fmt.Sprintf("kept for %s: %s; about %s older versions in files, %s", h.Retention, since, humanize.Count(h.Older), humanize.Bytes(h.Bytes))
}
