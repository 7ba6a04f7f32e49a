package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/splitter"
)

// Phase is how far a job has come.
type Phase uint8

// Phases of a job, in order.
const (
	PhaseQueued     Phase = iota
	PhaseSettling         // the parents flush what they inherited themselves; the cut is chosen
	PhasePreparing        // directories, links and manifests of the children are made
	PhaseCommitting       // the store manifest and the swap; from here on a job cannot be cancelled
	PhaseInheriting       // the children have taken over, and flush what they inherited
	PhaseDone             // also after an error
)

// String returns the phase in one word.
func (p Phase) String() string {
	if names := [...]string{"queued", "settling", "preparing", "committing", "inheriting", "done"}; int(p) < len(names) {
		return names[p]
	}
	return "unknown"
}

// JobKind tells splits, merges and moves of boundaries apart.
type JobKind = splitter.Kind

// Kinds of jobs.
const (
	JobSplit = splitter.Split
	JobMerge = splitter.Merge
	JobMove  = splitter.Move
	// JobInstall is the job of an InstallPartition.
	JobInstall = splitter.Install
)

// Progress tells how far a job has come and how long its phases took.
type Progress struct {
	Container string
	Kind      JobKind
	Phase     Phase
	Parents   []PartitionID // in key-space order
	Children  []PartitionID // in key-space order; from PhasePreparing on
	At        string        // the boundary between two children, hexadecimal
	// LeftBytes and RightBytes are the sizes of the documents on either side of a cut
	// that the engine chose, keys and overwritten versions included.
	LeftBytes, RightBytes int64
	CopiedBytes           int64 // of files that could not be linked

	Settle  time.Duration // before PhasePreparing
	Prepare time.Duration // PhasePreparing: flushes and merges of the parents could not commit
	Commit  time.Duration // storing the store manifest
	Pause   time.Duration // under the commit locks: writes to the parents waited
	Swapped time.Time     // when the children took over, at the end of Pause; zero: not yet
	Inherit time.Duration // from the swap until nothing was inherited
}

// Job is a split, a merge or a move of a boundary. Jobs are carried out one at
// a time in the order in which they were asked for. A Job is safe for
// concurrent use.
type Job struct {
	db     *DB
	c      *Container
	done   chan struct{}
	cancel context.CancelFunc
	ctx    context.Context

	mu       lockorder.Mutex[locks.Job]
	progress Progress
	err      error

	at   string // the cut asked for; empty: none
	auto bool
	// midpoint says to cut a partition that is empty, or has a single key, in the
	// middle of its range.
	midpoint bool
	install  *installation       // to commit; nil for other kinds of jobs
	load     *splitter.Histogram // the cut halves this load; nil: it halves the bytes
}

// Wait returns when the job has ended, with its error, or when ctx ends, with
// that of ctx; the job goes on then.
func (j *Job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return j.err
	default:
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancel ends the job unless it is committing or beyond: then it is carried
// through. Wait tells which it was: a cancelled job's error matches
// context.Canceled.
func (j *Job) Cancel() {
	j.cancel()
	if j.db.work.jobs.Remove(j) {
		j.finish(context.Canceled)
	}
}

// Progress tells how far the job has come.
func (j *Job) Progress() Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.progress
}

func (j *Job) update(change func(*Progress)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.progress)
}

// finish ends the job, and tells the listener.
func (j *Job) finish(err error) {
	p := j.Progress()
	if err != nil && !errors.Is(err, splitter.ErrRefused) {
		err = fmt.Errorf("%v of partition %d: %w", p.Kind, p.Parents[0], err)
	}
	j.mu.Lock()
	j.err = err
	j.progress.Phase = PhaseDone
	j.mu.Unlock()
	close(j.done)
	j.cancel()
	notify(j.db, j.db.opts.Events.Reshaped, ReshapeEvent{Progress: p, Err: err})
}

// newJob makes a job of the container.
func (c *Container) newJob(kind JobKind, at string, parents ...PartitionID) *Job {
	j := &Job{db: c.db, c: c, done: make(chan struct{}), at: at}
	j.ctx, j.cancel = context.WithCancel(c.db.work.ctx)
	j.progress = Progress{Container: c.name, Kind: kind, Parents: parents}
	return j
}

// submit queues a job; without background work it is carried out at once.
func (db *DB) submit(j *Job) {
	if db.opts.manual {
		db.run(j)
		return
	}
	db.work.jobs.Push(j)
	signal(db.work.jobsWanted)
}

// run carries out a job.
func (db *DB) run(j *Job) {
	if j.install != nil {
		j.finish(j.install.commit(j.ctx))
		return
	}
	r := reshape{db: db, c: j.c, job: j}
	j.finish(r.run(j.ctx))
}

// inheritRetry is the time after which ending an inheritance is tried again.
const inheritRetry = 10 * time.Second

// endInheritances ends the inheritances that are left: from jobs of an earlier run,
// or after an error. It returns how long to wait before the next try; 0: there is
// nothing to try again.
func (w *workers) endInheritances() (wait time.Duration) {
	for _, p := range w.db.partitions() {
		if w.db.failure.Load() != nil {
			return 0
		}
		if err := w.db.endInheritance(w.ctx, p); err != nil {
			w.db.backgroundError("end an inheritance", err)
			wait = inheritRetry
		}
	}
	return wait
}

// reshapes carries out jobs until the store closes. In between it ends the
// inheritances that jobs have left. Children that are too large themselves are split
// again at once, so that splits keep up with a load.
func (w *workers) reshapes() {
	for {
		j, ok := w.jobs.Pop()
		if !ok {
			if !w.sleep(w.jobsWanted, w.endInheritances()) {
				break
			}
			continue
		}
		if w.ctx.Err() != nil {
			j.finish(ErrClosed)
			continue
		}
		w.db.run(j)
		for _, id := range j.Progress().Children {
			if p := j.c.partition(id); p != nil {
				w.db.splitLarge([]*partition{p})
			}
		}
	}
	for j, ok := w.jobs.Pop(); ok; j, ok = w.jobs.Pop() {
		j.finish(ErrClosed)
	}
}
