package engine

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
)

// job is the life that ReshapeJob, IndexJob and CopyJob have in common. A job waits or
// runs until end is called. P is its progress.
type job[P any] struct {
	db     *DB
	ctx    context.Context // ends when the job is cancelled, and when the store closes
	cancel context.CancelFunc
	done   chan struct{} // closed when the job has ended
	err    error         // set before done is closed

	unwatch func() // tells package cleavetest that the job has ended

	mu struct {
		lockorder.Mutex[locks.Job]
		progress P
	}
}

// begin begins the life of a job.
func (j *job[P]) begin(db *DB, progress P) {
	j.db, j.done = db, make(chan struct{})
	j.ctx, j.cancel = context.WithCancel(db.work.Context())
	j.mu.progress = progress
}

// watch tells package cleavetest of a job that a caller has asked for.
func (j *job[P]) watch(what, container string) {
	if begin := j.db.watch(what, container); begin != nil {
		j.unwatch = begin()
	}
}

// Wait returns when the job has ended: nil if it has done its work, else its error. That
// matches context.Canceled if the job was cancelled, and ErrClosed if the store was
// closed. If ctx ends first, Wait returns the error of ctx, and the job goes on.
func (j *job[P]) Wait(ctx context.Context) error {
	if j.ended() {
		return j.err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancel ends the job, soon, unless it has come to a point from which on it is carried
// through. Wait tells which it was.
func (j *job[P]) Cancel() { j.cancel() }

// told returns what the job has told of its progress.
func (j *job[P]) told() P {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.progress
}

// update changes what the job tells of its progress.
func (j *job[P]) update(change func(*P)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.mu.progress)
}

// ended says whether the job has ended.
func (j *job[P]) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// end ends the job with err, unless it has ended, and returns the error of the job.
func (j *job[P]) end(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended() {
		return j.err
	}
	if errors.Is(err, context.Canceled) && j.db.work.Context().Err() != nil {
		err = ErrClosed
	}
	j.err = err
	close(j.done)
	if j.unwatch != nil {
		j.unwatch()
	}
	return err
}
