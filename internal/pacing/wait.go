package pacing

import (
	"context"
	"errors"
	"time"
)

// ErrEnded says that Wait was ended by what its caller works for.
var ErrEnded = errors.New("ended")

// Wait waits for d. It ends early with the error of ctx, or with ErrEnded when ended is
// closed.
func Wait(ctx context.Context, d time.Duration, ended <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ended:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}
