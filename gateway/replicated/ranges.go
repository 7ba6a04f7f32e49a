package replicated

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/partmap"
)

// ranges are the physical partitions that clients were shown. The id of one is made of its bounds: a group goes on as
// its left half when it splits, and clients must not take that for the whole. So an old id says which keys it
// had, also one that another gateway has given.
type ranges struct {
	mu   sync.Mutex
	seen []partmap.Range // that are no more, or were not a moment ago; the newest last
}

const (
	// rangesAge is how old the client's picture of the groups may be when it is shown.
	rangesAge  = time.Second
	mostRanges = 256
)

func nameOf(r partmap.Range) string { return "r" + r.Min.String() + "-" + r.Max.String() }

// look has the client ask all nodes which groups they have, if it has not for rangesAge. It does not wait for what they say: each request
// names the range of its key, and one of the nodes may be silent. Requests follow the groups whatever was shown.
func (s *Store) look() {
	s.mu.Lock()
	old := time.Since(s.looked) > rangesAge
	if old {
		s.looked = time.Now()
	}
	s.mu.Unlock()
	if old {
		ended, end := context.WithCancel(context.Background())
		end() // the client goes on with the round, and has one at a time
		s.c.Refresh(ended)
	}
}

// Ranges implements gateway.Items. It returns what the client knows, which may be what it learned after the last call.
func (c *items) Ranges() []gateway.Partition {
	c.s.look()
	all := c.s.c.Ranges(c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]gateway.Partition, len(all))
	for i, r := range all {
		out[i] = gateway.Partition{ID: nameOf(r), Min: r.Min.String(), Max: r.Max.String(), Items: -1}
		if !slices.Contains(c.seen, r) {
			c.seen = append(c.seen[max(0, len(c.seen)-mostRanges+1):], r)
		}
	}
	return out
}

// Ancestors implements gateway.Items.
func (c *items) Ancestors(of []gateway.Partition) map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string][]string, len(of))
	for i := range of {
		out[of[i].ID] = []string{}
		for _, r := range c.seen {
			if id := nameOf(r); id != of[i].ID && r.Min.String() <= of[i].Min && of[i].Max <= r.Max.String() {
				out[of[i].ID] = append(out[of[i].ID], id)
			}
		}
	}
	return out
}

// PastRange implements gateway.Items.
func (c *items) PastRange(id string) (lo, hi string, ok bool) {
	text, ok := strings.CutPrefix(id, "r")
	lo, hi, found := strings.Cut(text, "-")
	from, err := partmap.ParseEPK(lo)
	to, bad := partmap.ParseEPK(hi)
	ok = ok && found && err == nil && bad == nil && from.Compare(&to) < 0
	return lo, hi, ok
}

// SplitRange implements gateway.Items. A cluster splits groups by its own rules.
func (c *items) SplitRange(context.Context, string) error { return nil }
