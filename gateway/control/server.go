package control

import (
	"crypto/subtle"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/internal/unread"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// Control returns the handler of the control port: the endpoints below /control/, and the page.
func (h *Host) Control() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pageapi.Secure(w.Header())
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			unread.HangUp(w, r)
		}
		if !pageapi.HostAllowed(h.o.Hosts, r.Host) {
			unread.HangUp(w, r)
			pageapi.WriteError(w, pageapi.Failure{Status: http.StatusMisdirectedRequest, Kind: "host", Text: "this host name is not served here"})
			return
		}
		if !h.authorized(r) {
			unread.HangUp(w, r)
			w.Header().Set("WWW-Authenticate", `Basic realm="control", charset="UTF-8"`)
			pageapi.WriteError(w, pageapi.Failure{Status: http.StatusUnauthorized, Kind: "unauthorized", Text: "the key is missing or wrong: send it as a bearer token, or as the password"})
			return
		}
		if strings.HasPrefix(r.URL.Path, "/control/") {
			h.routes.ServeHTTP(w, r)
			return
		}
		if h.gate.enter(r.Context()) != nil {
			return // the client has gone
		}
		defer h.gate.leave()
		h.page.ServeHTTP(w, r)
	})
}

func (h *Host) authorized(r *http.Request) bool {
	if h.o.Key == "" {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, _ = r.BasicAuth()
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(h.o.Key)) == 1
}

// answer is what an endpoint returns: a value for JSON, or an error.
type answer func(w http.ResponseWriter, r *http.Request) (any, error)

func (h *Host) route() {
	h.routes = http.NewServeMux()
	on := func(pattern string, fn answer) {
		method, _, _ := strings.Cut(pattern, " ")
		h.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := pageapi.CheckRead(r)
			if method != http.MethodGet {
				err = pageapi.CheckChange(w, r)
			}
			var value any
			if err == nil {
				value, err = fn(w, r)
			}
			if err != nil {
				pageapi.WriteError(w, failureOf(err))
				return
			}
			pageapi.WriteJSON(w, http.StatusOK, value)
		})
	}
	const container = "/control/containers/{database}/{container}"
	on("GET /control/containers", h.listContainers)
	on("GET "+container, h.readContainer)
	on("GET "+container+"/hot", h.hotKeys)
	on("PUT "+container+"/throughput", h.setThroughput)
	on("POST "+container+"/split", h.reshape("split"))
	on("POST "+container+"/merge", h.reshape("merge"))
	on("POST "+container+"/move", h.reshape("move"))
	on("GET /control/jobs", func(http.ResponseWriter, *http.Request) (any, error) { return h.jobs.list(), nil })
	on("GET /control/jobs/{id}", h.readJob)
	on("DELETE /control/jobs/{id}", h.cancelJob)
	on("GET /control/faults", func(http.ResponseWriter, *http.Request) (any, error) { return h.faults.list(), nil })
	on("POST /control/faults", h.plant)
	on("DELETE /control/faults", h.removeFaults)
	on("DELETE /control/faults/{id}", h.removeFaults)
	on("GET /control/clock", func(http.ResponseWriter, *http.Request) (any, error) { return h.clockView(), nil })
	on("POST /control/clock", h.advance)
	on("GET /control/checkpoints", func(http.ResponseWriter, *http.Request) (any, error) { return h.place.checkpoints() })
	on("POST /control/checkpoints", h.keep)
	on("DELETE /control/checkpoints/{name}", h.removeCheckpoint)
	on("POST /control/checkpoints/{name}/return", h.comeBack)
	h.routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		pageapi.WriteError(w, pageapi.Failure{Status: http.StatusNotFound, Kind: "not_found", Text: "no endpoint has this method and path"})
	})
}

// failureOf returns what an error is for a client.
func failureOf(err error) pageapi.Failure {
	f := pageapi.FailureOf(err)
	if f.Kind != "failed" {
		return f
	}
	switch status, _ := gateway.StatusOf(err); status {
	case http.StatusNotFound:
		f.Status, f.Kind = status, "not_found"
	case http.StatusBadRequest:
		f.Status, f.Kind = status, "invalid"
	}
	return f
}

// Container describes a container.
type Container struct {
	Database  string `json:"database"`
	Container string `json:"container"`
	// Throughput is the provisioned throughput in RU/s, or with Autoscale the most; 0: none of
	// its own.
	Throughput int         `json:"throughput"`
	Autoscale  bool        `json:"autoscale,omitempty"`
	Partitions []Partition `json:"partitions"` // in the order of the key space
}

// Partition describes a physical partition.
type Partition struct {
	ID string `json:"id"`
	// Min, inclusive, and Max, exclusive, bound the effective partition keys.
	Min       string   `json:"min"`
	Max       string   `json:"max"`
	Parents   []string `json:"parents,omitempty"`
	Documents int64    `json:"documents"` // at most: overwritten versions are counted for a while
	Bytes     int64    `json:"bytes"`
	Load      float64  `json:"ru_per_s"`  // consumed of late, estimated
	Throttled int64    `json:"throttled"` // calls refused since the store was opened
}

func (h *Host) describe(i *gateway.ContainerInfo) (Container, error) {
	c := Container{Database: i.Database, Container: i.Name, Throughput: i.Throughput, Autoscale: i.Autoscale, Partitions: []Partition{}}
	under, err := h.db.Container(i.Store)
	if err != nil {
		return c, err
	}
	for _, p := range under.Partitions() {
		c.Partitions = append(c.Partitions, Partition{
			ID: strconv.FormatUint(uint64(p.ID), 10), Min: p.Min, Max: p.Max, Parents: idTexts(p.Parents), Documents: p.Items, Bytes: p.RawBytes,
			Load: finite(p.Load), Throttled: p.Throttled,
		})
	}
	return c, nil
}

func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func (h *Host) listContainers(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := h.gate.enter(r.Context()); err != nil {
		return nil, err
	}
	defer h.gate.leave()
	all := []Container{}
	for _, i := range h.plain.Containers() {
		c, err := h.describe(&i)
		if errors.Is(err, engine.ErrNoContainer) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// named calls fn with the container that the path names.
func (h *Host) named(r *http.Request, fn func(gateway.ContainerInfo, *engine.Container) (any, error)) (any, error) {
	if err := h.gate.enter(r.Context()); err != nil {
		return nil, err
	}
	defer h.gate.leave()
	i, err := h.plain.Container(r.PathValue("database"), r.PathValue("container"))
	if err != nil {
		return nil, err
	}
	c, err := h.db.Container(i.Store)
	if err != nil {
		return nil, err
	}
	return fn(i, c)
}

func (h *Host) readContainer(_ http.ResponseWriter, r *http.Request) (any, error) {
	return h.named(r, func(i gateway.ContainerInfo, _ *engine.Container) (any, error) { return h.describe(&i) })
}

// HotKey is a logical partition that has consumed much of late.
type HotKey struct {
	Key       string  `json:"key"` // the partition key in JSON
	Partition string  `json:"partition"`
	Load      float64 `json:"ru_per_s"`
	Calls     float64 `json:"ops_per_s"`
}

// mostHot bounds how many keys are listed.
const mostHot = 1000

func (h *Host) hotKeys(_ http.ResponseWriter, r *http.Request) (any, error) {
	n := 10
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > mostHot {
			return nil, pageapi.BadRequest("n: want a number from 1 to " + strconv.Itoa(mostHot))
		}
	}
	return h.named(r, func(_ gateway.ContainerInfo, c *engine.Container) (any, error) {
		all := []HotKey{}
		for _, k := range c.Hot(n) {
			all = append(all, HotKey{k.Key.String(), strconv.FormatUint(uint64(k.Partition), 10), finite(k.Units), finite(k.Ops)})
		}
		return all, nil
	})
}

func (h *Host) setThroughput(_ http.ResponseWriter, r *http.Request) (any, error) {
	var body struct {
		Throughput int `json:"throughput"`
	}
	if err := pageapi.Decode(r, &body); err != nil {
		return nil, err
	}
	return h.named(r, func(i gateway.ContainerInfo, _ *engine.Container) (any, error) {
		if err := h.plain.SetThroughput(r.Context(), i.Database, i.Name, body.Throughput); err != nil {
			return nil, err
		}
		now, err := h.plain.Container(i.Database, i.Name)
		if err != nil {
			return nil, engine.ErrNoContainer
		}
		return h.describe(&now)
	})
}

// Reshape says what is split, merged or moved.
type Reshape struct {
	// Partition is the id of the physical partition to split.
	Partition string `json:"partition,omitempty"`
	// Left and Right are the ids of the neighbours to merge, or between which the boundary is
	// moved; the lower one is Left.
	Left  string `json:"left,omitempty"`
	Right string `json:"right,omitempty"`
	// At is the boundary of a split or move, an effective partition key in hexadecimal
	// digits. "": the one that halves the bytes best.
	At string `json:"at,omitempty"`
	// Wait is how long the answer waits for the end of the job, in milliseconds.
	Wait float64 `json:"wait_ms,omitzero"`
}

// mostWait bounds how long an answer waits for a job.
const mostWait = time.Minute

func waitOf(ms float64) (time.Duration, error) {
	if !(ms >= 0 && ms <= float64(mostWait.Milliseconds())) {
		return 0, pageapi.BadRequest("wait_ms: want a number from 0 to " + strconv.FormatInt(mostWait.Milliseconds(), 10))
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}

func partitionID(name, text string) (engine.PartitionID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, pageapi.BadRequest(name + ": want the id of a physical partition")
	}
	return engine.PartitionID(n), nil
}

func (h *Host) reshape(kind string) answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		var body Reshape
		if err := pageapi.Decode(r, &body); err != nil {
			return nil, err
		}
		wait, err := waitOf(body.Wait)
		if err != nil {
			return nil, err
		}
		value, err := h.named(r, func(i gateway.ContainerInfo, c *engine.Container) (any, error) {
			running, failed := begin(r, c, kind, &body)
			if failed != nil {
				return nil, failed
			}
			return h.jobs.add(kind, i.Database, i.Name, running)
		})
		if err != nil {
			return nil, err
		}
		j := value.(*job)
		j.wait(r.Context(), wait) // outside of the gate: a return to a checkpoint does not wait for it
		return j.view(), nil
	}
}

// begin asks the store for a job.
func begin(r *http.Request, c *engine.Container, kind string, b *Reshape) (*engine.ReshapeJob, error) {
	if kind == "split" {
		id, err := partitionID("partition", b.Partition)
		if err != nil {
			return nil, err
		}
		return c.Split(r.Context(), id, &engine.SplitOptions{At: b.At})
	}
	left, err := partitionID("left", b.Left)
	if err != nil {
		return nil, err
	}
	right, err := partitionID("right", b.Right)
	if err != nil {
		return nil, err
	}
	if kind == "merge" {
		return c.Merge(r.Context(), left, right)
	}
	return c.MoveBoundary(r.Context(), left, right, b.At)
}

func (h *Host) jobOf(r *http.Request) (*job, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, pageapi.BadRequest("the id of a job is a number")
	}
	return h.jobs.find(id)
}

func (h *Host) readJob(_ http.ResponseWriter, r *http.Request) (any, error) {
	j, err := h.jobOf(r)
	if err != nil {
		return nil, err
	}
	var ms float64
	if text := r.URL.Query().Get("wait_ms"); text != "" {
		if ms, err = strconv.ParseFloat(text, 64); err != nil {
			ms = -1
		}
	}
	wait, err := waitOf(ms)
	if err != nil {
		return nil, err
	}
	j.wait(r.Context(), wait)
	return j.view(), nil
}

func (h *Host) cancelJob(_ http.ResponseWriter, r *http.Request) (any, error) {
	j, err := h.jobOf(r)
	if err != nil {
		return nil, err
	}
	j.running.Cancel()
	return j.view(), nil
}

func (h *Host) plant(_ http.ResponseWriter, r *http.Request) (any, error) {
	var f Fault
	if err := pageapi.Decode(r, &f); err != nil {
		return nil, err
	}
	return h.faults.plant(f)
}

func (h *Host) removeFaults(_ http.ResponseWriter, r *http.Request) (any, error) {
	var id int64
	if text := r.PathValue("id"); text != "" {
		var err error
		if id, err = strconv.ParseInt(text, 10, 64); err != nil || id < 1 {
			return nil, pageapi.BadRequest("the id of a fault is a number above 0")
		}
	}
	n := h.faults.remove(id)
	if id != 0 && n == 0 {
		return nil, pageapi.Failure{Status: http.StatusNotFound, Kind: "not_found", Text: "there is no fault " + strconv.FormatInt(id, 10)}
	}
	return map[string]int{"removed": n}, nil
}

// Clock is the clock of the store.
type Clock struct {
	Now   time.Time `json:"now"`
	Ahead float64   `json:"ahead_ms"` // of the system's clock
}

func (h *Host) clockView() Clock {
	return Clock{h.clock.now().UTC(), float64(h.clock.ahead.Load()) / 1e6}
}

func (h *Host) advance(_ http.ResponseWriter, r *http.Request) (any, error) {
	var body struct {
		Advance float64 `json:"advance_ms"`
	}
	if err := pageapi.Decode(r, &body); err != nil {
		return nil, err
	}
	if !(body.Advance >= 0 && body.Advance <= float64(mostAhead.Milliseconds())) || !h.clock.advance(time.Duration(body.Advance*float64(time.Millisecond))) {
		return nil, pageapi.BadRequest("advance_ms: time does not go back, and the clock can be 100 years ahead at most")
	}
	return h.clockView(), nil
}

func (h *Host) keep(_ http.ResponseWriter, r *http.Request) (any, error) {
	var body Checkpoint
	if err := pageapi.Decode(r, &body); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := h.Checkpoint(r.Context(), body.Name); err != nil {
		return nil, err
	}
	return Taken{body.Name, millis(time.Since(begun))}, nil
}

// Taken says how long a checkpoint or a return took.
type Taken struct {
	Name   string  `json:"name"`
	Millis float64 `json:"ms"`
}

func (h *Host) removeCheckpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("name")
	if err := checkName(name); err != nil {
		return nil, err
	}
	h.changing.Lock()
	defer h.changing.Unlock()
	if err := h.place.remove(name); err != nil {
		return nil, err
	}
	return Checkpoint{name}, nil
}

func (h *Host) comeBack(_ http.ResponseWriter, r *http.Request) (any, error) {
	begun := time.Now()
	if err := h.Return(r.Context(), r.PathValue("name")); err != nil {
		return nil, err
	}
	return Taken{r.PathValue("name"), millis(time.Since(begun))}, nil
}
