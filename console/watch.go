package console

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// sampleEvery is the least time between two calls of DB.Stats and DB.Metrics.
const sampleEvery = time.Second

// seriesLength is how many points the series of a store and of a container keep.
const seriesLength = 240

// watchedContainers bounds how many containers have a history of their load.
const watchedContainers = 16

// sample is what the store said at one time.
type sample struct {
	at     time.Time
	took   time.Duration
	stats  engine.Stats
	jobs   []engine.JobStats
	closed bool
	times  times
	point  Point
	// damaged are the physical partitions in which damage was met.
	damaged map[damagedPartition]bool
	// latency says how long calls took in the time window before.
	latency []CallTimes
	window  time.Duration
	before  *sample // the one before, without its own
	index   map[string]*engine.ContainerStats
}

// damagedPartition names a physical partition of a container.
type damagedPartition struct {
	container string
	id        engine.PartitionID
}

// Point is a point of the series of a store: rates since the point before.
type Point struct {
	Time      int64   `json:"t"` // milliseconds since the Unix epoch
	Reads     float64 `json:"reads_per_s"`
	Writes    float64 `json:"writes_per_s"` // deletes included
	Bytes     float64 `json:"written_bytes_per_s"`
	Units     float64 `json:"load_ru_per_s"`
	Throttled float64 `json:"throttled_per_s"`
	Stalls    float64 `json:"stalls_per_s"`
	// ReadP99 and WriteP99 are how long calls took of late, in nanoseconds: 99 of 100 took
	// no longer. 0: there were none.
	ReadP99  int64 `json:"read_p99_ns"`
	WriteP99 int64 `json:"write_p99_ns"`
}

// watcher takes samples when a page asks, and remembers the last ones.
type watcher struct {
	mu      sync.Mutex
	last    *sample
	taking  bool
	due     time.Time
	first   chan struct{} // closed when there is a first sample
	series  []Point
	times   []times             // of the samples before, the oldest first
	watched []*watchedContainer // the one that was asked for last comes last
}

// watchedContainer is a container that a page shows.
type watchedContainer struct {
	name string
	rows []Row
}

// Row is the load of the key space at one time.
type Row struct {
	Time  int64     `json:"t"`
	From  []float64 `json:"from"` // where blocks begin, from 0 to 1
	Units []float64 `json:"ru"`   // RU/s of the hottest partition of each block
}

func newWatcher() *watcher { return &watcher{first: make(chan struct{})} }

// sample returns the newest sample, and takes one if it is time to. While one request
// takes a sample the others get the one before.
func (h *handler) sample(r *http.Request) (*sample, error) {
	h.store.renew(r.Context())
	w := h.watcher
	w.mu.Lock()
	if w.taking || w.last != nil && time.Now().Before(w.due) {
		last := w.last
		w.mu.Unlock()
		if last == nil {
			select {
			case <-w.first:
				return h.sample(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return last, nil
	}
	w.taking = true
	before := w.last
	w.mu.Unlock()
	s := h.take(before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latencies(s)
	if w.last == nil {
		close(w.first)
	}
	w.last, w.taking, w.due = s, false, time.Now().Add(max(sampleEvery, 20*s.took))
	w.series = append(w.series[max(0, len(w.series)-seriesLength+1):], s.point)
	for _, c := range w.watched {
		c.add(s)
	}
	return s, nil
}

// take asks the store.
func (h *handler) take(before *sample) *sample {
	db, release := h.store.use()
	defer release()
	begun := time.Now()
	s := &sample{at: begun, closed: db.Closed(), index: make(map[string]*engine.ContainerStats)}
	if s.closed && before != nil {
		s.stats = before.stats
	} else {
		s.stats, s.jobs, s.times = db.Stats(), db.Jobs(), timesOf(db, begun)
	}
	s.took = time.Since(begun)
	for i := range s.stats.Containers {
		s.index[s.stats.Containers[i].Name] = &s.stats.Containers[i]
	}
	s.damaged = make(map[damagedPartition]bool)
	for _, d := range s.stats.Damage {
		s.damaged[damagedPartition{d.Container, d.Partition}] = true
	}
	s.point = Point{Time: s.at.UnixMilli()}
	for i := range s.stats.Containers {
		s.point.Units += totalOf(&s.stats.Containers[i]).Units
	}
	if before == nil || s.closed {
		return s
	}
	last := *before
	last.before = nil
	s.before = &last
	seconds := s.at.Sub(last.at).Seconds()
	rate := func(now, then int64) float64 { return finite(max(0, float64(now-then)) / seconds) }
	a, b := &s.stats, &last.stats
	s.point.Reads, s.point.Writes = rate(a.Reads, b.Reads), rate(a.Writes+a.Deletes, b.Writes+b.Deletes)
	s.point.Bytes, s.point.Stalls = rate(a.WrittenBytes, b.WrittenBytes), rate(a.Stalls, b.Stalls)
	s.point.Throttled = rate(int64(s.times.refused), int64(last.times.refused))
	return s
}

// watch returns the rows of a container, later than a time, and keeps more of them from
// now on.
func (w *watcher) watch(name string, since int64) []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.watched, func(c *watchedContainer) bool { return c.name == name })
	var c *watchedContainer
	if i < 0 {
		c = &watchedContainer{name: name}
		if w.last != nil {
			c.add(w.last)
		}
		w.watched = w.watched[max(0, len(w.watched)-watchedContainers+1):]
	} else {
		c = w.watched[i]
		w.watched = slices.Delete(w.watched, i, i+1)
	}
	w.watched = append(w.watched, c)
	first, _ := slices.BinarySearchFunc(c.rows, since+1, func(r Row, t int64) int { return int(r.Time - t) })
	return append([]Row{}, c.rows[first:]...)
}

// add adds a row.
func (c *watchedContainer) add(s *sample) {
	cs := s.index[c.name]
	if cs == nil || s.closed {
		return
	}
	row := Row{Time: s.at.UnixMilli()}
	for _, b := range blocksOf(cs, s, rowBlocks) {
		row.From = append(row.From, b.From)
		row.Units = append(row.Units, b.Hottest)
	}
	c.rows = append(c.rows[max(0, len(c.rows)-seriesLength+1):], row)
}

// points returns the points of the series later than a time.
func (w *watcher) points(since int64) []Point {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, _ := slices.BinarySearchFunc(w.series, since+1, func(p Point, t int64) int { return int(p.Time - t) })
	return append([]Point{}, w.series[first:]...)
}

// sinceOf returns the time after which a request wants news.
func sinceOf(r *http.Request) int64 {
	t, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64) // else everything
	return t
}
