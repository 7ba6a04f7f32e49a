package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// Job is a split, a merge or a move of a boundary, as it is at one time.
type Job struct {
	ID        int64  `json:"id"`
	Kind      string `json:"kind"` // split, merge or move
	Database  string `json:"database"`
	Container string `json:"container"`
	Phase     string `json:"phase"`
	// Parents and Children are ids of physical partitions in the order of the key space;
	// children are known when the job has begun to prepare.
	Parents  []string `json:"parents"`
	Children []string `json:"children,omitempty"`
	At       string   `json:"at,omitempty"` // the boundary between the children
	// Pause is how long writes to the parents have waited, in milliseconds.
	Pause float64 `json:"pause_ms"`
	// Ended, and the error with which it did, "" if it was carried out. Kind of the error is
	// refused, cancelled, closed or failed.
	Ended     bool   `json:"ended"`
	Error     string `json:"error,omitempty"`
	ErrorKind string `json:"error_kind,omitempty"`
}

// mostJobs is how many jobs are remembered. Those that have ended are forgotten first.
const mostJobs = 1000

// jobs are those that were asked for.
type jobs struct {
	mu   sync.Mutex
	last int64
	all  []*job
}

type job struct {
	id                        int64
	kind, database, container string
	running                   *engine.ReshapeJob
	ended                     chan struct{} // closed when err is set
	err                       error
}

// add remembers a job that has begun.
func (s *jobs) add(kind, database, container string, running *engine.ReshapeJob) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= mostJobs {
		i := slices.IndexFunc(s.all, func(j *job) bool { return j.isOver() })
		if i < 0 {
			running.Cancel()
			return nil, pageapi.Failure{Status: http.StatusConflict, Kind: "refused", Text: fmt.Sprintf("%d jobs wait already", mostJobs)}
		}
		s.all = slices.Delete(s.all, i, i+1)
	}
	s.last++
	j := &job{id: s.last, kind: kind, database: database, container: container, running: running, ended: make(chan struct{})}
	s.all = append(s.all, j)
	go func() { // ends with the job, or with its store
		j.err = running.Wait(context.Background())
		close(j.ended)
	}()
	return j, nil
}

func (s *jobs) find(id int64) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.all, func(j *job) bool { return j.id == id }); i >= 0 {
		return s.all[i], nil
	}
	return nil, pageapi.Failure{Status: http.StatusNotFound, Kind: "not_found", Text: fmt.Sprintf("there is no job %d", id)}
}

func (s *jobs) list() []Job {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	out := make([]Job, len(all))
	for i, j := range all {
		out[i] = j.view()
	}
	return out
}

func (j *job) isOver() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// wait waits until the job has ended, or the time is over.
func (j *job) wait(ctx context.Context, most time.Duration) {
	if most <= 0 {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-j.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (j *job) view() Job {
	over := j.isOver() // first: then the progress is that of the end
	p := j.running.Progress()
	v := Job{
		ID: j.id, Kind: j.kind, Database: j.database, Container: j.container, Phase: strings.ToLower(p.Phase.String()), At: p.At,
		Parents: idTexts(p.Parents), Children: idTexts(p.Children), Pause: millis(p.Pause), Ended: over,
	}
	if !over || j.err == nil {
		return v
	}
	v.Error = j.err.Error()
	switch {
	case errors.Is(j.err, engine.ErrRefused):
		v.ErrorKind = "refused"
	case errors.Is(j.err, context.Canceled):
		v.ErrorKind = "cancelled"
	case errors.Is(j.err, engine.ErrClosed):
		v.ErrorKind = "closed"
	default:
		v.ErrorKind = "failed"
	}
	return v
}

func idTexts(ids []engine.PartitionID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = fmt.Sprint(uint64(id))
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
