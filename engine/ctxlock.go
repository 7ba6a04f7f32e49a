package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lockorder"
)

// turn is a lock that can be tried, and waited for until a context ends.
type ctxLock struct {
	slot chan struct{}
	kind lockorder.Kind
}

func newCtxLock(kind lockorder.Kind) ctxLock { return ctxLock{make(chan struct{}, 1), kind} }

// try takes the turn if it is free.
func (t ctxLock) try() bool {
	select {
	case t.slot <- struct{}{}:
		lockorder.Took(t.kind.Order(), t.slot)
		return true
	default:
		return false
	}
}

// take waits for the turn.
func (t ctxLock) take(ctx context.Context) error {
	lockorder.Take(t.kind.Order(), t.slot)
	select {
	case t.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		lockorder.Left(t.slot)
		return ctx.Err()
	}
}

// leave gives the turn to the next.
func (t ctxLock) leave() {
	lockorder.Left(t.slot)
	<-t.slot
}

// taken says whether the turn is taken at this moment.
func (t ctxLock) taken() bool { return len(t.slot) > 0 }
