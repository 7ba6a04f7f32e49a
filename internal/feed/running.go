package feed

import (
	"slices"
	"sync"
	"time"
)

// Stats describes a loop over the changes of a container.
type Stats struct {
	Container   string        `json:"container"`
	Scope       string        `json:"scope"`
	AllVersions bool          `json:"all_versions"`
	Follow      bool          `json:"follow"`
	Since       time.Time     `json:"since,omitzero"` // when the loop began
	Shown       int64         `json:"shown"`          // changes
	Behind      uint64        `json:"behind_sequences"`
	Lag         time.Duration `json:"lag_ns,omitzero"`
}

// Running is a loop over changes.
type Running struct {
	*Feed
	Stats Stats // without Shown, Behind and Lag

	mu    sync.Mutex
	whole time.Time // when the feed had last shown everything; at first, when it began
}

// Whole notes that the feed has shown everything, or begins, at a time.
func (r *Running) Whole(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = at
}

// now describes the loop as it is.
func (r *Running) now(at time.Time) Stats {
	s := r.Stats
	r.mu.Lock()
	whole := r.whole
	r.mu.Unlock()
	if s.Shown, s.Behind = r.State(); s.Behind > 0 {
		s.Lag = max(0, at.Sub(whole))
	}
	return s
}

// List lists the running feeds of a container. It is safe for concurrent use.
type List struct {
	mu   sync.Mutex
	list []*Running
}

// Add adds a feed.
func (l *List) Add(r *Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
}

// End closes a feed and takes it from the list.
func (l *List) End(r *Running) {
	l.mu.Lock()
	l.list = slices.DeleteFunc(l.list, func(o *Running) bool { return o == r })
	l.mu.Unlock()
	r.Close()
}

// Append appends what the feeds are at a time.
func (l *List) Append(all []Stats, at time.Time) []Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.list {
		all = append(all, r.now(at))
	}
	return all
}
