package engine

import (
	"slices"
	"sync"
	"time"
)

// feedList lists the running feeds of a container.
type feedList struct {
	mu   sync.Mutex
	list []*feed
}

func (l *feedList) add(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, f)
}

func (l *feedList) remove(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o *feed) bool { return o == f })
}

// feedShared is the state of a feed that other goroutines may read.
type feedShared struct {
	mu    sync.Mutex
	stats FeedStats // without Behind and Lag
	parts []feedEntry
	whole time.Time // when the feed had last shown everything; at first, when it began
}

// begin sets the state of a feed that begins.
func (s *feedShared) begin(f *feed) {
	s.whole = f.c.db.opts.clock()
	s.stats = FeedStats{
		Container: f.c.name, Scope: f.scope.String(), AllVersions: f.o.AllVersions, Follow: f.o.Follow, Since: s.whole,
	}
	s.parts = slices.Clone(f.parts)
}

// note sets the parts of the feed, and counts changes that are shown.
func (s *feedShared) note(parts []feedEntry, shown int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts[:0], parts...)
	s.stats.Shown += int64(shown)
}

func (s *feedShared) caughtUp(db *DB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = db.opts.clock()
}

func (db *DB) feedStats() (all []FeedStats) {
	now := db.opts.clock()
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		if err != nil {
			continue
		}
		c.feeds.mu.Lock()
		for _, f := range c.feeds.list {
			f.shared.mu.Lock()
			s := f.shared.stats
			if s.Behind = c.behind(f.shared.parts); s.Behind > 0 {
				s.Lag = max(0, now.Sub(f.shared.whole))
			}
			f.shared.mu.Unlock()
			all = append(all, s)
		}
		c.feeds.mu.Unlock()
	}
	return all
}
