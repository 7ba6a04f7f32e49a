package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/jobtrace"
	"github.com/cleavestore/cleave/splitter"
)

// ReshapeKind tells splits, merges and moves of boundaries apart.
type ReshapeKind uint8

// Kinds of reshapes.
const (
	ReshapeSplit   = ReshapeKind(splitter.Split)
	ReshapeMerge   = ReshapeKind(splitter.Merge)
	ReshapeMove    = ReshapeKind(splitter.Move)
	ReshapeInstall = ReshapeKind(splitter.Install) // of an InstallPartition
)

// String returns "split", "merge", "move" or "install".
func (k ReshapeKind) String() string { return splitter.Kind(k).String() }

// ReshapePhase is how far a ReshapeJob has come.
type ReshapePhase uint8

// Phases of a ReshapeJob, in order.
const (
	PhaseQueued     ReshapePhase = iota
	PhaseSettling                // the parents flush what they inherited themselves; the cut is chosen
	PhasePreparing               // directories, links and manifests of the children are made
	PhaseCommitting              // the store manifest and the swap; from here on the job is carried through
	PhaseInheriting              // the children have taken over, and flush what they inherited
	PhaseDone                    // also after an error
)

// String returns the phase in one word.
func (p ReshapePhase) String() string {
	if names := [...]string{"queued", "settling", "preparing", "committing", "inheriting", "done"}; int(p) < len(names) {
		return names[p]
	}
	return "unknown"
}

// ReshapeProgress tells how far a ReshapeJob has come and how long its phases took.
type ReshapeProgress struct {
	Container string
	Kind      ReshapeKind
	Phase     ReshapePhase
	Parents   []PartitionID // in key-space order
	Children  []PartitionID // in key-space order; from PhasePreparing on
	At        string        // the boundary between two children, hexadecimal
	// LeftBytes and RightBytes are the sizes of the documents on either side of a cut
	// that the engine chose, keys and overwritten versions included.
	LeftBytes, RightBytes int64
	CopiedBytes           int64 // of files that could not be linked

	Settle  time.Duration // before PhasePreparing
	Prepare time.Duration // PhasePreparing: flushes and compactions of the parents could not commit
	Commit  time.Duration // storing the store manifest
	Pause   time.Duration // under the commit locks: writes to the parents waited
	Swapped time.Time     // when the children took over, at the end of Pause; zero: not yet
	Inherit time.Duration // from the swap until nothing was inherited
}

// ErrRefused is what a *Refusal matches.
var ErrRefused = splitter.ErrRefused

// RefusalReason says why physical partitions cannot be split, merged or moved.
type RefusalReason uint8

// Reasons.
const (
	RefusedOneLogicalPartition = RefusalReason(splitter.OneLogicalPartition) // one logical partition is everything
	RefusedTooNarrow           = RefusalReason(splitter.TooNarrow)           // no boundary lies between the ends of the range
	RefusedOutsideRange        = RefusalReason(splitter.OutsideRange)        // the boundary that was asked for does not lie inside
	RefusedNotNeighbours       = RefusalReason(splitter.NotNeighbours)       // the two partitions do not touch
	RefusedTooFine             = RefusalReason(splitter.TooFine)             // the boundary has more bytes than the keys have
	RefusedTooMany             = RefusalReason(splitter.TooMany)             // the container has all the partitions that it can have
	RefusedOneHotKey           = RefusalReason(splitter.OneHotKey)           // one logical partition has nearly all of the load
)

// String returns the reason in words.
func (r RefusalReason) String() string { return splitter.Reason(r).String() }

// Refusal is the error of a ReshapeJob that is refused. It matches ErrRefused.
type Refusal struct{ Reason RefusalReason }

// Error implements error.
func (r *Refusal) Error() string { return ErrRefused.Error() + ": " + r.Reason.String() }

// Is matches ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// ReshapeJob is a split, a merge or a move of a boundary. Such jobs are carried out one
// at a time, in the order in which they were asked for. The job is carried through from
// PhaseCommitting on; it ends when the children have inherited nothing any more. Its
// error may be a *Refusal. It is safe for concurrent use.
type ReshapeJob struct {
	job[ReshapeProgress]
	c *Container

	at   string // the cut asked for; empty: none
	auto bool
	// midpoint says to cut a partition that is empty, or has a single key, in the
	// middle of its range.
	midpoint bool
	install  *installation       // to commit; nil for other kinds of jobs
	load     *splitter.Histogram // the cut halves this load; nil: it halves the bytes
}

// Progress tells how far the job has come.
func (j *ReshapeJob) Progress() ReshapeProgress {
	p := j.told()
	p.Parents, p.Children = slices.Clone(p.Parents), slices.Clone(p.Children)
	return p
}

// finish ends the job, and tells the listener.
func (j *ReshapeJob) finish(err error) {
	p := j.Progress()
	if refusal, ok := errors.AsType[*splitter.Refusal](err); ok {
		err = &Refusal{RefusalReason(refusal.Reason)}
	} else if err != nil {
		err = fmt.Errorf("%v of partition %d: %w", p.Kind, p.Parents[0], err)
	}
	j.update(func(p *ReshapeProgress) { p.Phase = PhaseDone })
	j.db.counters.reshapes[p.Kind][resultOf(err)].Add(1) // before Wait returns
	err = j.end(err)
	j.cancel()
	notify(j.db, j.db.opts.Events.Reshaped, ReshapeEvent{ReshapeProgress: p, Err: err})
}

// reshapeResults are the ways in which a job ends, in metrics.
var reshapeResults = [...]string{"done", "refused", "cancelled", "failed"}

// resultOf returns the index in reshapeResults of the error of a job.
func resultOf(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrRefused):
		return 1
	case errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed):
		return 2
	}
	return 3
}

// newJob makes a job of the container.
func (c *Container) newJob(kind ReshapeKind, at string, parents ...PartitionID) *ReshapeJob {
	j := &ReshapeJob{c: c, at: at}
	j.begin(c.db, ReshapeProgress{Container: c.name, Kind: kind, Parents: parents})
	j.watch(kind.String(), c.name)
	context.AfterFunc(j.ctx, func() {
		if j.db.work.Context().Err() == nil && j.db.jobs.Remove(j) {
			j.finish(context.Canceled)
		}
	})
	return j
}

// submit queues a job; without background work it is carried out at once.
func (db *DB) submit(j *ReshapeJob) {
	if db.opts.manual {
		db.run(j)
		return
	}
	db.jobs.Push(j)
	db.jobsWanted.Raise()
}

// run carries out a job.
func (db *DB) run(j *ReshapeJob) {
	p := j.Progress()
	job := jobtrace.Job{Name: p.Kind.String(), Container: p.Container}
	if len(p.Parents) > 0 {
		job.Partition = uint32(p.Parents[0])
	}
	job.Start(j.ctx)
	defer job.End()
	db.times.reshaping.Add(1)
	defer db.times.reshaping.Add(-1)
	db.reshaping.Store(j)
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
func (db *DB) endInheritances() (wait time.Duration) {
	ended := false
	for _, p := range db.partitions() {
		if db.failure.Load() != nil {
			return 0
		}
		inherits := len(p.Inherited()) > 0
		if err := p.EndInheritance(db.work.Context()); err != nil {
			db.backgroundError("end an inheritance", err)
			wait = inheritRetry
		}
		ended = ended || inherits && len(p.Inherited()) == 0
	}
	if ended {
		if err := db.retention.Release(); err != nil {
			db.backgroundError("release log files", err)
		}
	}
	return wait
}

// reshapes carries out jobs until the store closes. In between it ends the
// inheritances that jobs have left. Children that are too large themselves are split
// again at once, so that splits keep up with a load.
func (db *DB) reshapes() {
	for db.work.Context().Err() == nil {
		j, ok := db.jobs.Pop()
		if !ok {
			db.work.Sleep(db.jobsWanted, db.endInheritances())
			continue
		}
		db.run(j)
		for _, id := range j.Progress().Children {
			if p := j.c.partition(id); p != nil {
				db.splitLarge([]*partition{p})
			}
		}
	}
	for j, ok := db.jobs.Pop(); ok; j, ok = db.jobs.Pop() {
		j.finish(ErrClosed)
	}
}
