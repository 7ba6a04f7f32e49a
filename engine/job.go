package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/splitter"
)

// Phase is how far a job has come.
type Phase uint8

// Phases of a job, in order.
const (
	PhaseQueued     Phase = iota
	PhaseSettling         // what the partitions inherited themselves is flushed; the cut is chosen
	PhasePreparing        // directories, links and manifests of the children are made
	PhaseCommitting       // the store manifest and the swap; from here on a job cannot be cancelled
	PhaseInheriting       // the children serve, and flush what they inherited
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
	// KindInstall is InstallPartition putting one in the place of others.
	JobInstall = splitter.Install
)

// Progress tells how far a job has come and how long its phases took.
type Progress struct {
	Container string
	Kind      JobKind
	Phase     Phase
	Parents   []PartitionID // in key-space order
	Children  []PartitionID // in key-space order; from Preparing on
	At        string        // the boundary between two children, hexadecimal
	// LeftBytes and RightBytes weigh the documents on either side of a cut that
	// the engine chose, keys and overwritten versions included.
	LeftBytes, RightBytes int64
	CopiedBytes           int64 // of files that could not be linked

	Settle  time.Duration // before Preparing
	Prepare time.Duration // of it the sources of flushes and merges stood still
	Commit  time.Duration // of the store manifest
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

	mu       lockorder.Mutex[jobLock]
	progress Progress
	err      error

	at   string // the cut asked for; empty: none
	auto bool
	// midpoint says to cut what is empty, or a single key, in the middle of its range.
	midpoint bool
	install  *installation       // what is to take the parents' place; nil: the job is another one
	load     *splitter.Histogram // to be halved in place of the bytes; nil: the bytes are
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

// inheritRetry is when ending an inheritance is tried again that has failed.
const inheritRetry = 10 * time.Second

// endInheritances ends what partitions inherit yet: what jobs of an earlier run
// have left, and what could not be ended. It returns how long to wait before it
// is tried again; 0: nothing is left.
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

// reshapes carries out jobs until the store closes. In between it ends what
// children inherit, where their job did not come to it. Children that hold too
// much themselves are split again at once, so that splits keep up with a load.
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
