package atonce

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestDo: the error is that of the lowest number, all below it were made, and no more
// calls run at a time than the limit.
func TestDo(t *testing.T) {
	for _, limit := range []int{1, 3, 100} {
		for failed := range 20 {
			wrong := errors.New("wrong")
			var made [20]atomic.Bool
			var running, most atomic.Int32
			done, err := Do(context.Background(), limit, len(made), func(i int) error {
				for n := running.Add(1); n > most.Load(); {
					most.Store(n)
				}
				defer running.Add(-1)
				made[i].Store(true)
				if i == failed || i == failed+3 {
					return wrong
				}
				return nil
			})
			if done != failed || err != wrong {
				t.Errorf("limit %d: %d done, %v", limit, done, err)
			}
			for i := range failed {
				if !made[i].Load() {
					t.Errorf("limit %d: call %d was not made", limit, i)
				}
			}
			if int(most.Load()) > limit {
				t.Errorf("%d calls at a time, limit %d", most.Load(), limit)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if done, err := Do(ctx, 2, 5, func(int) error { return nil }); done != 0 || err != context.Canceled {
		t.Errorf("a context that has ended: %d, %v", done, err)
	}
}
