package engine

import "context"

// turn is a lock that can be tried, and waited for until a context ends.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// try takes the turn if it is free.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for the turn.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the turn to the next.
func (t turn) leave() { <-t }

// taken says whether somebody has the turn at this moment.
func (t turn) taken() bool { return len(t) > 0 }
