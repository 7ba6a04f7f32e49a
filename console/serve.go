package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// storeView is the answer of api/store.
type storeView struct {
	Title   string          `json:"title"`
	Dir     string          `json:"dir"`
	Now     int64           `json:"now"` // of the sample
	State   string          `json:"state"`
	Problem string          `json:"problem,omitempty"`
	Can     map[string]bool `json:"can"`
	Stats   engine.Stats    `json:"stats"` // without its containers
	Count   int             `json:"containers"`
	Parts   int             `json:"physical_partitions"`
	Total   Total           `json:"total"`
	Series  []Point         `json:"series"` // later than since
	// Latency says how long calls took in the last LatencySeconds.
	Latency        []CallTimes       `json:"latency"`
	LatencySeconds float64           `json:"latency_seconds"`
	Jobs           []engine.JobStats `json:"jobs"`
	Events         []Event           `json:"events"` // later than event
	Recorded       bool              `json:"events_recorded"`
}

// listed bounds the lists in an answer that no page divides.
const listed = 100

func (h *handler) serveStore(r *http.Request) (any, error) {
	s, err := h.sample(r)
	if err != nil {
		return nil, err
	}
	db, release := h.store.use()
	defer release()
	v := storeView{Title: h.opts.Title, Dir: db.Dir(), Now: s.at.UnixMilli(), State: "open", Stats: s.stats, Count: len(s.stats.Containers)}
	if v.Title == "" {
		at := strings.TrimRight(strings.ReplaceAll(db.Dir(), "\\", "/"), "/")
		v.Title = at[strings.LastIndexByte(at, '/')+1:]
	}
	switch {
	case db.Closed():
		v.State = "closed"
	case s.stats.Failed != nil:
		v.State, v.Problem = "failed", s.stats.Failed.Error()
	case db.ReadOnly():
		v.State, v.Problem = "read-only", h.store.problem()
	}
	v.Can = map[string]bool{"documents": !h.opts.NoDocuments, "split": h.opts.AllowSplit && !db.ReadOnly(), "panels": len(h.opts.Panels) > 0}
	for i := range s.stats.Containers {
		cs := &s.stats.Containers[i]
		t := totalOf(cs)
		v.Parts += len(cs.Partitions)
		v.Total.Documents += t.Documents
		v.Total.Dead += t.Dead
		v.Total.RawBytes += t.RawBytes
		v.Total.FileBytes += t.FileBytes
		v.Total.Units += t.Units
		v.Total.Limit += t.Limit
		v.Total.Throttled += t.Throttled
	}
	v.Stats.Containers = []engine.ContainerStats{}
	v.Stats.Feeds = cut(v.Stats.Feeds, 0, listed)
	v.Stats.Holders = cut(v.Stats.Holders, 0, listed)
	v.Stats.Damage = cut(v.Stats.Damage, 0, listed)
	v.Jobs = cut(s.jobs, 0, listed)
	v.Series = h.watcher.points(sinceOf(r))
	v.Latency, v.LatencySeconds = s.latency, s.window.Seconds()
	after, err := number(r.URL.Query(), "event", 0, 0, 1<<53)
	if err != nil {
		return nil, err
	}
	v.Events, v.Recorded = h.opts.Events.after(uint64(after)), h.opts.Events != nil
	return v, nil
}

// containerRow is a container in a list.
type containerRow struct {
	Name       string `json:"name"`
	Key        string `json:"partition_key"`
	Kind       string `json:"kind"`
	Partitions int    `json:"physical_partitions"`
	Total
}

// listView is the answer of a list.
type listView[T any] struct {
	Total int `json:"total"` // rows that there are
	Rows  []T `json:"rows"`
}

func (h *handler) serveContainers(r *http.Request) (any, error) {
	q := r.URL.Query()
	offset, limit, err := page(q, 500)
	if err != nil {
		return nil, err
	}
	s, err := h.sample(r)
	if err != nil {
		return nil, err
	}
	var rows []containerRow
	filter := strings.ToLower(q.Get("filter"))
	for i := range s.stats.Containers {
		cs := &s.stats.Containers[i]
		if strings.Contains(strings.ToLower(cs.Name), filter) {
			rows = append(rows, containerRow{cs.Name, cs.Def.KeyText(), cs.Def.Kind.String(), len(cs.Partitions), totalOf(cs)})
		}
	}
	switch q.Get("sort") {
	case "load":
		slices.SortStableFunc(rows, func(a, b containerRow) int { return cmp.Compare(b.Units, a.Units) })
	case "size":
		slices.SortStableFunc(rows, func(a, b containerRow) int { return cmp.Compare(b.RawBytes, a.RawBytes) })
	case "", "name":
	default:
		return nil, pageapi.BadRequest("sort: want name, load or size")
	}
	return listView[containerRow]{len(rows), cut(rows, offset, limit)}, nil
}

// containerView is the answer of api/container.
type containerView struct {
	Name    string               `json:"name"`
	Key     string               `json:"partition_key"`
	Def     engine.ContainerDef  `json:"definition"`
	Count   int                  `json:"physical_partitions"`
	Total   Total                `json:"total"`
	Blocks  []Block              `json:"blocks"`
	Rows    []Row                `json:"rows"` // later than since
	History []engine.PastReshape `json:"history"`
}

func (h *handler) serveContainer(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	s, err := h.sample(r)
	if err != nil {
		return nil, err
	}
	cs := s.index[name]
	if cs == nil {
		return h.container(r, name, func(*engine.DB, *engine.Container) (any, error) {
			return containerView{Name: name, Blocks: []Block{}, Rows: []Row{}}, nil // made since the sample
		})
	}
	v := containerView{Name: name, Key: cs.Def.KeyText(), Def: cs.Def, Count: len(cs.Partitions), Total: totalOf(cs)}
	v.Blocks = blocksOf(cs, s, barBlocks)
	v.Rows = h.watcher.watch(name, sinceOf(r))
	db, release := h.store.use()
	defer release()
	if c, err := db.Container(name); err == nil {
		v.History = c.History()
	}
	return v, nil
}

// partitionRow is a physical partition in a list.
type partitionRow struct {
	engine.PartitionStats
	Heat    float64 `json:"heat_ru_per_s"`
	Damaged bool    `json:"damaged,omitempty"` // some damage was met in it
}

func (h *handler) servePartitions(r *http.Request) (any, error) {
	q := r.URL.Query()
	offset, limit, err := page(q, 500)
	if err != nil {
		return nil, err
	}
	s, err := h.sample(r)
	if err != nil {
		return nil, err
	}
	cs := s.index[q.Get("name")]
	if cs == nil {
		return nil, engine.ErrNoContainer
	}
	heat := heatOf(cs, s)
	rows := make([]partitionRow, len(cs.Partitions))
	for i := range cs.Partitions {
		rows[i] = partitionRow{cs.Partitions[i], finite(heat(&cs.Partitions[i])), s.damaged[damagedPartition{cs.Name, cs.Partitions[i].ID}]}
	}
	switch q.Get("sort") {
	case "load":
		slices.SortStableFunc(rows, func(a, b partitionRow) int { return cmp.Compare(b.Heat, a.Heat) })
	case "size":
		slices.SortStableFunc(rows, func(a, b partitionRow) int { return cmp.Compare(b.RawBytes, a.RawBytes) })
	case "", "key":
	default:
		return nil, pageapi.BadRequest("sort: want key, load or size")
	}
	return listView[partitionRow]{len(rows), cut(rows, offset, limit)}, nil
}

// noPartition returns what an error of a cut is for the page: ErrNotFound is about the
// partition there, and no item.
func noPartition(err error, id engine.PartitionID) error {
	if errors.Is(err, engine.ErrNotFound) {
		return failure{Status: http.StatusNotFound, Kind: "not_found", Text: fmt.Sprintf("no partition %d", id)}
	}
	return err
}

// cutView is the answer of api/cut.
type cutView struct {
	engine.SplitPreview
	Place float64 `json:"place"` // 0 to 1
	// LeftUnits and RightUnits estimate the load of either side: hot keys by their place,
	// the rest of the load by the bytes.
	LeftUnits  float64 `json:"left_ru_per_s"`
	RightUnits float64 `json:"right_ru_per_s"`
}

func (h *handler) serveCut(r *http.Request) (any, error) {
	q := r.URL.Query()
	id, err := number(q, "partition", 0, 0, 1<<32-1)
	if err != nil {
		return nil, err
	}
	s, err := h.sample(r)
	if err != nil {
		return nil, err
	}
	return h.container(r, q.Get("name"), func(_ *engine.DB, c *engine.Container) (any, error) {
		ctx, done, err := h.reading(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
		p, err := c.PreviewSplit(ctx, engine.PartitionID(id), &engine.SplitOptions{At: q.Get("at")})
		if err != nil {
			return nil, noPartition(err, engine.PartitionID(id))
		}
		v := cutView{SplitPreview: p, Place: placeOf(p.At)}
		var load, known float64
		for _, part := range c.Partitions() {
			if part.ID == p.Partition {
				load = part.Load
			}
		}
		for _, hot := range c.Hot(256) {
			if hot.Partition != p.Partition {
				continue
			}
			units := min(max(0, hot.Units-hot.Error), load-known)
			known += units
			if padded(hot.Key.EPK().String()) < padded(p.At) {
				v.LeftUnits += units
			} else {
				v.RightUnits += units
			}
		}
		left := 0.5
		if sum := p.LeftBytes + p.RightBytes; sum > 0 {
			left = float64(p.LeftBytes) / float64(sum)
		}
		v.LeftUnits += (load - known) * left
		v.RightUnits += (load - known) * (1 - left)
		if shown, ok := s.heat(c.Name(), p.Partition); ok && load > 0 { // the two sides make up what the page shows
			v.LeftUnits, v.RightUnits = v.LeftUnits*shown/load, v.RightUnits*shown/load
		}
		return v, nil
	})
}

// padded makes places in hexadecimal digits comparable.
func padded(epk string) string { return epk + strings.Repeat("0", max(0, 96-len(epk))) }

// splitRequest is the body of api/split.
type splitRequest struct {
	Name      string             `json:"name"`
	Partition engine.PartitionID `json:"partition"`
	At        string             `json:"at"`
}

func (h *handler) serveSplit(r *http.Request) (any, error) {
	var body splitRequest
	if err := pageapi.Decode(r, &body); err != nil {
		return nil, err
	}
	return h.container(r, body.Name, func(_ *engine.DB, c *engine.Container) (any, error) {
		if _, err := c.Split(r.Context(), body.Partition, &engine.SplitOptions{At: body.At}); err != nil {
			return nil, noPartition(err, body.Partition)
		}
		return struct {
			Queued bool `json:"queued"`
		}{true}, nil
	})
}
