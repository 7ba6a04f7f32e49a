package copypass

import (
	"context"
	"iter"
	"sync/atomic"
)

// behind is the number of changes in a pass up to which the next pass will be short.
const behind = 1000

// maxPasses bounds the passes of one CatchUp.
const maxPasses = 10

// Held is a snapshot of the source.
type Held interface {
	View
	Seq() uint64
	Close() error // may be called twice
}

// Store has both containers of a copy.
type Store[S Held] interface {
	// Snapshot takes a snapshot of the source.
	Snapshot(ctx context.Context) (S, error)
	// Items returns how many items the source has, at most.
	Items() int64
	// Changed yields the newest versions of the source up to a snapshot that are above the
	// sequence since, in key-space order. They are valid in the body of the loop only.
	Changed(ctx context.Context, to S, since uint64) iter.Seq2[Item, error]
	// Open returns both containers for one pass, which ends with release.
	Open() (src Source, dst Destination, release func())
	// Dropped says whether either container was dropped.
	Dropped() bool
}

// Progress tells how far a copy has come. The fields are those of engine.CopyProgress.
type Progress struct {
	Pass    int
	Items   int64
	Looked  int64
	Copied  int64
	Removed int64
}

// Job makes passes, one at a time. Its snapshot is what the destination equals: while it is
// held, the next pass needs to look only at what was written since. Forget may be called at
// any time; the other methods are for one goroutine at a time.
type Job[S Held] struct {
	Store Store[S]
	Tell  func(Progress) // is called now and then in a pass, and after it

	done Progress
	at   atomic.Pointer[S] // nil: it is not known what the destination equals
}

// CatchUp makes passes until little is missing.
func (j *Job[S]) CatchUp(ctx context.Context) error {
	for range maxPasses {
		if err := j.Pass(ctx); err != nil {
			return err
		}
		if j.done.Pass > 1 && j.done.Looked <= behind {
			return nil
		}
	}
	return nil
}

// Pass makes the destination equal to the source as it is now. After an error the next
// pass is a first one again.
func (j *Job[S]) Pass(ctx context.Context) error {
	next, err := j.Store.Snapshot(ctx)
	if err != nil {
		return err
	}
	passed := false
	defer func() {
		if !passed { // also after a panic
			next.Close()
			j.Forget()
		}
	}()
	if err := j.passTo(ctx, next); err != nil {
		return err
	}
	passed = true
	j.equals(&next)
	j.Tell(j.done)
	return nil
}

func (j *Job[S]) passTo(ctx context.Context, next S) error {
	j.done.Looked, j.done.Items = 0, 0
	src, dst, release := j.Store.Open()
	defer release()
	w := Pass{Src: src, Dst: dst, Next: next, Copied: &j.done.Copied, Removed: &j.done.Removed}
	var since uint64
	if at := j.at.Load(); at == nil {
		j.done.Pass, j.done.Items = 1, j.Store.Items()
		if err := w.Weed(ctx); err != nil {
			return err
		}
	} else {
		j.done.Pass++
		w.At, since = *at, (*at).Seq()
	}
	for change, err := range j.Store.Changed(ctx, next, since) {
		if err == nil {
			err = w.Change(ctx, &change)
		}
		if err != nil {
			return err
		}
		if j.done.Looked++; j.done.Looked%100 == 0 {
			j.Tell(j.done)
		}
	}
	return nil
}

// Forget closes the snapshot that the destination equals.
func (j *Job[S]) Forget() { j.equals(nil) }

// equals sets the snapshot that the destination equals, and closes the one before. If
// either container was dropped, it keeps none: who drops a container first says so, and
// then calls Forget.
func (j *Job[S]) equals(at *S) {
	if old := j.at.Swap(at); old != nil {
		(*old).Close()
	}
	if at != nil && j.Store.Dropped() {
		j.Forget()
	}
}
