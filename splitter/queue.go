package splitter

import (
	"slices"
	"sync"
)

// Queue holds the jobs that wait, in order. It is safe for concurrent use; the
// zero value is empty.
type Queue[J comparable] struct {
	mu   sync.Mutex
	jobs []J
}

// Push puts a job at the end.
func (q *Queue[J]) Push(job J) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, job)
}

// Pop takes the first job out; false: none waits.
func (q *Queue[J]) Pop() (job J, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) == 0 {
		return job, false
	}
	job = q.jobs[0]
	q.jobs = slices.Delete(q.jobs, 0, 1)
	return job, true
}

// Remove takes a job out before its turn; false: it does not wait.
func (q *Queue[J]) Remove(job J) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.jobs, job)
	if i < 0 {
		return false
	}
	q.jobs = slices.Delete(q.jobs, i, i+1)
	return true
}

// All returns the jobs that wait, in order.
func (q *Queue[J]) All() []J {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.jobs)
}

// Len returns how many jobs wait.
func (q *Queue[J]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}
