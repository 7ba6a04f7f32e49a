package gateway

import (
	"encoding/hex"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/provision"
	"github.com/cleavestore/cleave/partmap"
)

// topology is what is known of the physical partitions of a container.
type topology struct {
	mu     sync.Mutex
	read   time.Time
	parts  []Partition
	etag   string
	growth provision.Growth // to the partitions that the throughput needs
	// shown has the ids of the partitions by the etags that were given, the newest last.
	shown []shownRanges
}

type shownRanges struct {
	etag string
	ids  map[string]bool
}

// mostShown is how many etags are remembered. A client that has an older one is shown all
// partitions.
const mostShown = 64

// topologyAge is how old a topology may be where an old one does no harm.
const topologyAge = time.Second

// ranges returns the physical partitions in key-space order, and an etag that changes
// when they do. It may be topologyAge old if old is set.
func (k *container) ranges(now time.Time, old bool) ([]Partition, string) {
	t := k.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	if since := now.Sub(t.read); old && t.parts != nil && since >= 0 && since < topologyAge {
		return t.parts, t.etag
	}
	t.parts, t.read = k.items.Ranges(), now
	h := fnv.New64a()
	for i := range t.parts {
		h.Write([]byte(t.parts[i].ID))
		h.Write([]byte(t.parts[i].Max))
	}
	t.etag = `"` + hex.EncodeToString(h.Sum(nil)) + `"`
	if !slices.ContainsFunc(t.shown, func(s shownRanges) bool { return s.etag == t.etag }) {
		ids := make(map[string]bool, len(t.parts))
		for i := range t.parts {
			ids[t.parts[i].ID] = true
		}
		t.shown = append(t.shown[max(0, len(t.shown)-mostShown+1):], shownRanges{t.etag, ids})
	}
	return t.parts, t.etag
}

// news returns the physical partitions that a client with an etag has not seen: one that
// adds them to those it has may not get any of them twice.
func (k *container) news(parts []Partition, etag string) []Partition {
	t := k.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.shown, func(s shownRanges) bool { return s.etag == etag })
	if i < 0 {
		return parts
	}
	seen := t.shown[i].ids
	return slices.DeleteFunc(slices.Clone(parts), func(p Partition) bool { return seen[p.ID] })
}

// rangeID returns the id of the physical partition that holds a key, as far as that is
// known: it may have been replaced meanwhile.
func (k *container) rangeID(now time.Time, key engine.PartitionKey) string {
	if key.Valid() {
		epk := key.EPK()
		return k.rangeAt(now, &epk)
	}
	return k.rangeAt(now, nil)
}

// rangeAt returns the id of the physical partition that has a place of the key space; nil is
// the first place.
func (k *container) rangeAt(now time.Time, epk *partmap.EPK) string {
	parts, _ := k.ranges(now, true)
	i := 0
	if epk != nil && len(parts) > 1 {
		at := epk.String()
		i, _ = slices.BinarySearchFunc(parts, at, func(p Partition, at string) int {
			if p.Max <= at {
				return -1
			}
			return 1
		})
		i = min(i, len(parts)-1)
	}
	if len(parts) == 0 {
		return "0"
	}
	return parts[i].ID
}

// namedRange returns the physical partition that a request names by its id.
func (k *container) namedRange(now time.Time, id string) (Partition, *failure) {
	parts, _ := k.ranges(now, false)
	for _, p := range parts {
		if p.ID == id {
			return p, nil
		}
	}
	return Partition{}, failf(410, "the partition key range %q of container %q is gone: it was split or merged, or never was",
		clip(id), k.record.Name).withSub(subRangeGone)
}

// keyRange is a physical partition as clients see it.
type keyRange struct {
	ID         string   `json:"id"`
	RID        string   `json:"_rid"`
	Self       string   `json:"_self"`
	ETag       string   `json:"_etag"`
	Min        string   `json:"minInclusive"`
	Max        string   `json:"maxExclusive"`
	Prefix     int      `json:"ridPrefix"`
	Fraction   float64  `json:"throughputFraction"`
	Status     string   `json:"status"`
	Parents    []string `json:"parents"`
	Made       int64    `json:"_ts"`
	LSN        uint64   `json:"lsn"`
	OwnedByOld []string `json:"ownedArchivalPKRangeIds"`
}
